"""Settings of all tests of the engine."""

import pytest

from steepest.gradnorm import engine


@pytest.fixture(autouse=True)
def by_rules(monkeypatch):
    """Measure tiny models and single samples by the rules, though a loop may be quicker."""
    monkeypatch.setattr(engine, "_WORTH_A_WATCH", 1)
