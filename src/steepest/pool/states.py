"""The four states of a sample and the verbs that lead from one to another."""

from __future__ import annotations

from enum import StrEnum


class State(StrEnum):
    """State of a sample."""

    UNLABELLED = "unlabelled"
    QUERIED = "queried"
    LABELLED = "labelled"
    SKIPPED = "skipped"


class Verb(StrEnum):
    """A change of state."""

    QUERY = "query"
    LABEL = "label"
    SKIP = "skip"
    RELABEL = "relabel"
    UNLABEL = "unlabel"


START: dict[Verb, frozenset[State]] = {
    Verb.QUERY: frozenset({State.UNLABELLED}),
    Verb.LABEL: frozenset({State.UNLABELLED, State.QUERIED}),
    Verb.SKIP: frozenset({State.UNLABELLED, State.QUERIED}),
    Verb.RELABEL: frozenset({State.LABELLED}),
    Verb.UNLABEL: frozenset({State.QUERIED, State.LABELLED, State.SKIPPED}),
}
"""The states each verb may start from."""

END: dict[Verb, State] = {
    Verb.QUERY: State.QUERIED,
    Verb.LABEL: State.LABELLED,
    Verb.SKIP: State.SKIPPED,
    Verb.RELABEL: State.LABELLED,
    Verb.UNLABEL: State.UNLABELLED,
}
"""The state each verb leads to."""

GIVES_LABELS = frozenset({Verb.LABEL, Verb.RELABEL})
"""The verbs that carry one label per sample."""


def fitting_verbs(state: State) -> list[Verb]:
    """Return the verbs that may start from a state."""
    return [verb for verb, start in START.items() if state in start]
