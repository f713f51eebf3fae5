"""Files from elsewhere: fetched with resume, checked, unpacked safely, or taken from a disk."""

from __future__ import annotations

from steepest.download.checksum import compute_md5
from steepest.download.effort import Effort
from steepest.download.fetch import Wanted, fetch
from steepest.download.obtain import Obtained, obtain
from steepest.download.retry import Patience
from steepest.download.unpack import unpack

__all__ = ["Effort", "Obtained", "Patience", "Wanted", "compute_md5", "fetch", "obtain", "unpack"]
