"""The loop with a Label Studio server: picks become tasks, annotations become labels."""

from __future__ import annotations

from steepest.labelling.label_studio.client import Client, find_account
from steepest.labelling.label_studio.project import ensure_project
from steepest.labelling.label_studio.pull import Reading, pull
from steepest.labelling.label_studio.push import Pictures, push

__all__ = ["Client", "Pictures", "Reading", "ensure_project", "find_account", "pull", "push"]
