"""Label formats of other programs, one file each; a new file here is a new format."""

from __future__ import annotations
