from __future__ import annotations

import tempfile
from collections import Counter
from pathlib import Path

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule
from small_project import CLASSES, Clock, make_names, open_project

PEOPLE = st.sampled_from(["ann", "bob"])
SAMPLES = st.sampled_from([f"{CLASSES[n % 3]}-{n:03d}.png" for n in range(4)])
LABELS = st.sampled_from(CLASSES)
BROWSERS = st.sampled_from(["", "here", "there"])


class Labelling(RuleBasedStateMachine):
    """Whatever people do in whatever order, the project says what a plain list would say."""

    def __init__(self):
        super().__init__()
        self.place = tempfile.TemporaryDirectory()
        photos = make_names(Path(self.place.name) / "photos", 4)
        self.clock = Clock()
        self.photos = photos
        self.project = open_project(photos, clock=self.clock, overlap=2, lease_seconds=30.0)
        self.stacks = {"ann": [], "bob": []}

    def teardown(self):
        self.project.close()
        self.place.cleanup()

    def said(self, person):
        return {sample: label for sample, label, _ in self.stacks[person]}

    def last(self, person, browser):
        """Return the place of the last answer given there that no later one replaced."""
        later = set()
        for place, (sample, _, where) in reversed(list(enumerate(self.stacks[person]))):
            if sample not in later and where in (browser, ""):
                return place
            later.add(sample)
        return None

    @rule(person=PEOPLE, sample=SAMPLES, label=LABELS, browser=BROWSERS)
    def answer(self, person, sample, label, browser):
        known = self.said(person).get(sample)
        entry = self.project.queue.answer(person, sample, [label], browser)
        assert entry.kind == ("label" if known in (None, "skip") else "relabel")
        self.stacks[person].append((sample, label, browser))

    @rule(person=PEOPLE, sample=SAMPLES, browser=BROWSERS)
    def skip(self, person, sample, browser):
        self.project.queue.skip(person, sample, browser)
        self.stacks[person].append((sample, "skip", browser))

    @rule(person=PEOPLE, browser=BROWSERS)
    def undo(self, person, browser):
        entry = self.project.queue.undo(person, browser)
        place = self.last(person, browser)
        if place is None:
            assert entry is None
            return
        sample, *_ = self.stacks[person].pop(place)
        assert entry.sample == sample
        if sample not in self.said(person):
            assert self.project.queue.next(person, browser=browser)[0].sample == sample

    @rule(person=PEOPLE)
    def ask(self, person):
        for task in self.project.queue.next(person, 4):
            assert task.sample not in self.said(person)

    @rule(seconds=st.sampled_from([1.0, 40.0]))
    def let_time_pass(self, seconds):
        self.clock.now += seconds

    @rule()
    def close_and_open_again(self):
        self.project.close()
        self.project = open_project(self.photos, clock=self.clock, overlap=2, lease_seconds=30.0)

    @invariant()
    def labels_are_what_people_said_last(self):
        for state in self.project.queue.samples():
            views = [self.said(person).get(state.sample) for person in self.stacks]
            votes = Counter(view for view in views if view not in (None, "skip"))
            assert state.votes == votes.total()
            assert state.skips == views.count("skip")
            assert state.disputed == (len(votes) == 2)
            assert state.labels == (tuple(votes) if len(votes) == 1 else None)

    @invariant()
    def the_history_shows_what_stands(self):
        for person, stack in self.stacks.items():
            shown = self.project.queue.history(person, limit=1000)
            assert [entry.sample for entry in reversed(shown)] == [sample for sample, *_ in stack]


Labelling.TestCase.settings = settings(max_examples=12, stateful_step_count=20, deadline=None)
TestLabelling = Labelling.TestCase
