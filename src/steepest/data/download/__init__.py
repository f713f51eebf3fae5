"""Files from elsewhere: fetched with resume, checked, unpacked safely, or taken from a disk."""

from __future__ import annotations

from steepest.core.http_requests import Patience
from steepest.data.download.fetch import Wanted, fetch
from steepest.data.download.files import Effort, compute_md5
from steepest.data.download.obtain import Obtained, obtain
from steepest.data.download.unpack import unpack

__all__ = ["Effort", "Obtained", "Patience", "Wanted", "compute_md5", "fetch", "obtain", "unpack"]
