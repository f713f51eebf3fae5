"""Image formats that are supported."""

from __future__ import annotations

IMAGE_FORMATS = ("PNG", "JPEG", "BMP", "WEBP", "GIF", "TIFF")
"""By Pillow's names. Others may hide behind a harmless ending; PostScript starts a program."""
