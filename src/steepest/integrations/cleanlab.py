"""cleanlab's label issues beside the labels that Steepest lists under *Look again*."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import dataclass
from typing import Any

import numpy as np

from steepest.errors import InputError
from steepest.labelling.project import Project
from steepest.labelling.project.statistics.suspicious import read_opinions, suspicious

try:
    from cleanlab.filter import find_label_issues
except ModuleNotFoundError as error:
    raise ModuleNotFoundError(
        "steepest.integrations.cleanlab needs cleanlab: run pip install cleanlab"
    ) from error

__all__ = ["LabelIssues", "compare_label_issues"]


@dataclass(frozen=True)
class LabelIssues:
    """Samples whose labels look wrong, strongest evidence first.

    Attributes:
        judged: The number of labels with out-of-sample probabilities.
        steepest: Listed by Steepest.
        cleanlab: Listed by cleanlab.
    """

    judged: int
    steepest: tuple[str, ...]
    cleanlab: tuple[str, ...]

    @property
    def both(self) -> tuple[str, ...]:
        """Listed by both, in Steepest's order."""
        return tuple(sample for sample in self.steepest if sample in set(self.cleanlab))


def compare_label_issues(
    project: Project,
    *,
    limit: int = 50,
    **options: Any,  # noqa: ANN401
) -> LabelIssues:
    """Find label issues in a page's project both ways, from the same probabilities.

    The probabilities of each labelled image are those of the latest model that was not trained on
    its label.

    Args:
        project: A project with one class for each image.
        limit: The most samples that Steepest lists.
        options: Further keywords of ``cleanlab.filter.find_label_issues``.

    Raises:
        InputError: If images have several classes, or no model has judged a label yet.
    """
    if project.settings.multi_label:
        raise InputError("images have several classes here: compare projects with one class each")
    rows, _ = read_opinions(project)
    read = [(r["shown"], json.loads(r["labels"])[0], json.loads(r["probabilities"])) for r in rows]
    sizes = Counter(len(values) for _, label, values in read if label < len(values))
    if not sizes:
        raise InputError("no model has judged a label yet: train on more labels first")
    # Models of before a class was added know fewer.
    size = max(sizes)
    known = [found for found in read if len(found[2]) == size and found[1] < size]
    given = {"return_indices_ranked_by": "self_confidence", "n_jobs": 1, **options}
    labels, values = (np.array([found[place] for found in known]) for place in (1, 2))
    found = find_label_issues(labels, values, **given)
    theirs = tuple(known[place][0] for place in np.asarray(found).tolist())
    ours = tuple(doubt.sample for doubt in suspicious(project, limit=limit))
    return LabelIssues(len(known), ours, theirs)
