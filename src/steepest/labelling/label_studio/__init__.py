"""The loop with a Label Studio server: picks become tasks, annotations become labels."""

from __future__ import annotations

from steepest.labelling.label_studio.account import Account, find_account
from steepest.labelling.label_studio.client import Client
from steepest.labelling.label_studio.project import Project, ensure_project, find_project
from steepest.labelling.label_studio.pull import Reading, pull
from steepest.labelling.label_studio.push import Pictures, push
from steepest.labelling.label_studio.watch import Turn, watch

__all__ = [
    "Account",
    "Client",
    "Pictures",
    "Project",
    "Reading",
    "Turn",
    "ensure_project",
    "find_account",
    "find_project",
    "pull",
    "push",
    "watch",
]
