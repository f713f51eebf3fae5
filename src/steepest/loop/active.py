"""The loop for people with their own trainer: three functions, and everything kept."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Self

import torch
from torch import nn

from steepest.core.progress import Progress, as_progress
from steepest.core.seeds import SampleId, check_seed, derive
from steepest.core.wording import counted
from steepest.errors import InputError, PoolError
from steepest.labelling import Answers, apply
from steepest.loop.answers import (
    Asking,
    LabelKinds,
    as_answers,
    ask_for,
    check_functions,
    give,
    name_of,
)
from steepest.loop.chooser import Chooser, as_features
from steepest.loop.folder import LoopFolder
from steepest.loop.learner import Fit, Learner
from steepest.loop.predictions import Predict
from steepest.loop.round import (
    MOST_SKIPPED,
    Round,
    Stopwatch,
    as_metrics,
    asked_in,
    check_rounds,
    digest,
    waiting_in,
    warn_of_skips,
)
from steepest.loop.stopping import Until, is_enough
from steepest.modules.precision import Precision
from steepest.pool import Label, Pool, State
from steepest.pool.values import plain_ids
from steepest.selecting.options import BatchSize, SelectionOptions, check_k
from steepest.selecting.samples import PoolLike, as_samples
from steepest.selecting.selection import Selection
from steepest.strategies import Strategy, Support
from steepest.tasks.base import Task

_MOST_TRIES = 10
"""How often samples are chosen again, if others label those that were chosen."""


class ActiveLoop:
    """Choose, label, learn, again: with your own trainer, and resumable at every moment.

    A round ends when a model has learnt from new labels. Training is yours: ``fit`` trains on all
    labels so far. Choosing is by the torch model that ``fit`` returns (or ``model``, which it
    trains), or by the probabilities that ``predict`` returns, whatever they come from.

    Args:
        pool: Anything that ``steepest.select`` takes. With ``predict``, ``ids`` alone will do.
        fit: Called with the ids and labels of all labelled samples, in the order of the pool.
            Returns a torch module, or None if it trained ``model`` or the model behind ``predict``.
        predict: Maps ids to class probabilities [N, C]. Strategies then see these alone.
        label: Maps ids to labels: by id (None skips a sample for good, a missing one is requested
            again), or a list of one each, or pairs yielded one by one; or a labeller.
        evaluate: Returns the present model's metric, or several by name.
        model: A module that ``fit`` trains in place.
        strategy: A name or a strategy; by default ``"steepest"`` with a torch model and
            ``"margin"`` with predictions.
        options: Options for a strategy given by name.
        start: Chooses while nothing is labelled; with ``predict``, until two classes are.
        ids: Names of the samples; by default the pool's own, or the index.
        labels: Labels that are there from the beginning, by id.
        features: Features of one's own, by id or as an array [N, D] in the order of the pool.
        subset: Score only a random subset of this size, or of k if that is more.
        seed: Seeds every draw, by round and purpose.
        task: The meaning of a torch model's logits; by default those of classification.
        batch_size: The most samples passed to one call of ``predict``.
        precision: Precision of gradients, for strategies that take them.
        device: The device to choose on; by default the model's.
        support: Inputs of some strategies besides the model, or a function that returns it.
        folder: A labelling project that keeps labels and rounds, created if missing; a restart
            resumes from it, with the labels that others gave. None keeps all in memory.
        progress: Whether to show progress.

    Attributes:
        pool: The state of every sample; for verbs such as ``relabel``.
        selection: The result of the last ``ask``.

    Raises:
        InputError: If something cannot be used.
        RunFolderError: If the folder belongs to other samples, or another loop is using it.
    """

    def __init__(
        self,
        pool: PoolLike = None,
        *,
        fit: Fit,
        predict: Predict | None = None,
        label: Asking | None = None,
        evaluate: Callable[[], Any] | None = None,
        model: nn.Module | None = None,
        strategy: str | Strategy | None = None,
        options: Mapping[str, Any] | None = None,
        start: str | Strategy = "random",
        ids: Sequence[SampleId] | None = None,
        labels: Mapping[SampleId, Label] | None = None,
        features: Any = None,  # noqa: ANN401
        subset: int | None = None,
        seed: int = 0,
        task: Task | None = None,
        batch_size: BatchSize = "auto",
        precision: Precision = "tf32",
        device: torch.device | str | None = None,
        support: Support | Callable[[], Support] | None = None,
        folder: Path | str | None = None,
        progress: bool | Progress = True,
    ) -> None:
        check_functions(fit=fit, predict=predict, label=label, evaluate=evaluate)
        if pool is None and (ids is None or predict is None):
            raise InputError("there is no pool: give one, or predict= and ids=")
        samples = None if pool is None else as_samples(pool, ids)
        names = plain_ids(samples.ids if samples is not None else ids)
        self._progress = as_progress(progress)
        chooser = Chooser(
            samples=samples,
            ids=names,
            features=as_features(features, names),
            how=SelectionOptions(
                subset=subset,
                task=task,
                batch_size=batch_size,
                precision=precision,
                device=device,
                progress=self._progress,
            ),
        )
        self._learner = Learner(chooser, fit, predict, model, strategy, options, start, support)
        self._label, self._evaluate, self._seed = label, evaluate, check_seed(seed)
        self._clock = Stopwatch()
        self._kept = LoopFolder(None if folder is None else Path(folder), names, samples)
        self.pool: Pool = self._kept.pool
        self.selection: Selection | None = None
        try:
            self._kinds = LabelKinds(self.pool)
            give(self.pool, {} if labels is None else labels, self._kinds)
        except BaseException:
            self.close()
            raise

    @property
    def records(self) -> tuple[Round, ...]:
        """The rounds so far, those before a restart included."""
        return tuple(self._kept.records)

    @property
    def round(self) -> int:
        """The number of the round that is going on, counted from 1."""
        return len(self._kept.records) + 1

    @property
    def model(self) -> nn.Module | None:
        """The torch model that chooses; None before the first fit, and with predictions."""
        return self._learner.model

    @property
    def waiting(self) -> tuple[SampleId, ...]:
        """The samples that were requested and have no answer yet, as they were requested."""
        return waiting_in(self.pool)

    def ask(self, k: int) -> Selection:
        """Choose k new samples to label; they are then waiting, and not chosen again.

        The model is trained first if there are new labels.

        Raises:
            InputError: If k is less than 1 or exceeds the number of unlabelled samples.
        """
        check_k(k, self.pool.counts()[State.UNLABELLED], None)
        ids, labels = self.pool.labelled()
        if ids and not self._learner.knows(digest(ids, labels)):
            self.learn()
        purpose = ("selection", self.round) if ids else ("initial set",)
        tries = _MOST_TRIES if self._kept.shared else 1
        while True:
            with self._clock.time("choose"):
                picks = self._learner.choose(
                    k,
                    labelled=dict(zip(ids, labels, strict=True)),
                    taken=self.pool.taken(),
                    seed=derive(self._seed, *purpose),
                )
            try:
                self.pool.query(picks.ids, cycle=self.round, who=picks.strategy)
            except PoolError:
                tries -= 1
                if not tries:
                    raise
                continue  # One of them was requested or labelled elsewhere in the meantime.
            self.selection = picks
            return picks

    def tell(self, answers: Answers | Mapping[Any, Any], *, who: str = "tell") -> None:
        """Add labels of samples, requested or not; they are stored immediately.

        Args:
            answers: Labels by id; None skips a sample for good.
            who: Whom the pool remembers as their giver.

        Raises:
            InputError: If a sample is not in the pool, or labels mix texts and numbers.
            PoolError: If an answer contradicts one that is there; then nothing is taken in.
        """
        self._take_in(as_answers(answers), who)

    def learn(self) -> Round:
        """Fit and evaluate; if labels were added since the last round, end the round.

        Raises:
            InputError: If nothing is labelled, or ``fit`` or ``evaluate`` return an invalid value.
        """
        ids, labels = self.pool.labelled()
        if not ids:
            raise InputError("nothing is labelled yet: ask and tell, or give labels=")
        learnt_from, fresh = digest(ids, labels), self._is_fresh()
        if not (fresh and self._learner.knows(learnt_from)):  # As it does if ``evaluate`` failed.
            with self._clock.time("fit"):
                self._learner.learn(ids, labels, learnt_from)
        if not fresh:
            return self._kept.records[-1]
        with self._clock.time("evaluate"):
            metrics = {} if self._evaluate is None else as_metrics(self._evaluate())
        asked = asked_in(self.pool, self.round)
        record = Round(
            number=self.round,
            labelled=len(ids),
            learnt_from=learnt_from,
            metrics=metrics,
            asked=tuple(asked),
            strategy=next(iter(asked.values()), ""),
            seconds=self._clock.take(),
        )
        self._kept.commit(record)
        return record

    def run(self, rounds: int, k: int, *, until: Until | None = None) -> tuple[Round, ...]:
        """Run until this many rounds are recorded, including those before a restart.

        Each round asks for k samples, with those still waiting counted in. The first one learns
        from the labels given at the beginning, if any, and asks for none. It stops early when all
        samples are labelled, when ``label`` has no answer yet, and with a warning when it skips
        all of k samples, ten at least: call it again to continue.

        Args:
            rounds: How many, in all.
            k: Labels for each.
            until: Says of the rounds so far whether they are enough, such as ``Flat`` or
                ``Reached`` of ``steepest.loop``; then no more labels are requested.
        """
        if self._label is None:
            raise InputError("run asks for labels: give label=, or use ask, tell and learn")
        check_functions(until=until)
        check_k(k, len(self.pool), None)
        with self._progress.task("rounds", check_rounds(rounds)) as step:
            step.advance(min(rounds, len(self._kept.records)))
            while len(self._kept.records) < rounds and not is_enough(self.records, until):
                if not self._gather(k):
                    break
                done = self.learn()
                metrics = ", ".join(f"{name} {value:.4g}" for name, value in done.metrics.items())
                step.advance(1, f"{counted(done.labelled, 'label')} {metrics}")
        return self.records

    def close(self) -> None:
        """Let go of the folder; the loop can still be read."""
        self._kept.close()
        self.pool.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"ActiveLoop(round {self.round}: {self.pool!r})"

    def _gather(self, k: int) -> bool:
        """Get labels for this round to learn from; False if none can be had now."""
        before = self.pool.counts()[State.SKIPPED]
        while True:
            waiting, asked = self.waiting, bool(asked_in(self.pool, self.round))
            if not (asked and waiting):
                if self._is_fresh():
                    return True
                wanted = min(k - len(waiting), self.pool.counts()[State.UNLABELLED])
                if wanted > 0:
                    self.ask(wanted)
                    waiting = self.waiting
            if (answered := self._put(waiting)) and self._is_fresh():
                return True
            skipped = self.pool.counts()[State.SKIPPED] - before
            if not answered or skipped >= max(k, MOST_SKIPPED):
                warn_of_skips(self.pool, skipped)
                return False

    def _put(self, ids: Sequence[SampleId]) -> bool:
        """Ask for labels and keep each answer as it comes; say whether there was any."""
        if self._label is None or not ids:
            return False
        some = False
        with self._clock.time("label"):
            for answers in ask_for(self._label, ids):
                self._take_in(answers, name_of(self._label))
                some = some or bool(answers.labels or answers.skipped)
        return some

    def _take_in(self, answers: Answers, who: str) -> None:
        """Add answers, converted to the type of the existing labels."""
        labels = self.pool.normal(list(answers.labels.values()))
        self._kinds.check(dict(zip(answers.labels, labels, strict=True)))
        apply(self.pool, answers, cycle=self.round, who=who)

    def _is_fresh(self) -> bool:
        """Return whether labels were added since the last round."""
        ids, labels = self.pool.labelled()
        records = self._kept.records
        return bool(ids) and (not records or records[-1].learnt_from != digest(ids, labels))
