"""Every error and warning that this library raises on purpose.

::

    SteepestError
    ├── InputError (ValueError)        an argument is invalid
    │   ├── UnknownNameError           no strategy, option, key … of that name; says the nearest
    │   ├── ConfigError                a configuration file or value is not valid
    │   └── NonFiniteError             NaN or infinity in inputs, weights or scores
    ├── ModelError (RuntimeError)      the model cannot be used unchanged
    ├── VerificationError              a fast result disagrees with the slow reference
    ├── DataError                      a data set is missing, incomplete or damaged
    │   ├── GoneError                  a file is not there; it may come back as it was
    │   ├── AccessError                a file is there and cannot be read at this moment
    │   └── ServerError                a Label Studio server cannot be used as it is
    │       └── UnavailableError       it gave no answer; whether it did as asked is not known
    ├── HiddenLabelError               the label of an unlabelled sample was read
    ├── PoolError                      a pool cannot make that change of state
    ├── JournalError                   a journal or record on disk is damaged
    ├── RunFolderError                 a run folder belongs to something else, or is in use
    │   └── InUseError                 someone else holds it at this moment
    ├── FailedRunsError                some runs of a comparison failed; the others are done
    └── OutOfTime                      the time given is up; the same command resumes from here

    SteepestWarning (UserWarning)
    ├── RegimeWarning                  the score ranks the most uncertain samples last
    ├── ProbabilitiesWarning           a model's outputs look like probabilities, not logits
    ├── SkippedFilesWarning            files of a folder could not be read
    ├── EmptyClassWarning              classes are counted that no sample has
    ├── DroppedEntryWarning            a half-written last entry of a journal was set aside
    ├── ChangedCodeWarning             records were made by other code and are kept
    ├── AllSkippedWarning              a loop stops early, because every answer was a skip
    ├── SettingWarning                 a setting does harm; says which to change
    └── SlowPathWarning                a fast path failed, and the slow one is used

Those that only one room raises live there. Exceptions that the library always catches itself are
not part of the tree. The command line prints the message of a ``SteepestError`` on one line and
exits with code 2.
"""

from __future__ import annotations

from collections.abc import Iterable

from steepest.core.wording import suggest


class SteepestError(Exception):
    """Base of all errors raised on purpose; the message says the remedy."""


class InputError(SteepestError, ValueError):
    """An argument cannot be used."""


class UnknownNameError(InputError):
    """The name is unknown.

    Attributes:
        kind: The kind of name, such as ``"strategy"``.
        name: The name that is not there.
        known: The names that are.
    """

    def __init__(self, kind: str, name: str, known: Iterable[str]) -> None:
        self.kind = kind
        self.name = name
        self.known = sorted(known)
        listed = f"known: {', '.join(self.known) or 'none'}"
        said = " ".join(filter(None, [suggest(name, self.known), listed]))
        super().__init__(f"unknown {kind} {name!r}: {said}")


class ConfigError(InputError):
    """A configuration file or value is not valid."""


class NonFiniteError(InputError):
    """NaN or infinity in inputs, weights or scores."""


class ModelError(SteepestError, RuntimeError):
    """The model cannot be used unchanged.

    Attributes:
        samples: The number of samples in the batch that the model failed on, if it did.
    """

    samples: int | None = None


class VerificationError(SteepestError):
    """A fast result disagrees with the slow reference."""


class DataError(SteepestError):
    """A data set is missing, incomplete or damaged."""


class HiddenLabelError(SteepestError):
    """The label of an unlabelled sample was read outside the labeller."""


class PoolError(SteepestError):
    """A pool cannot make that change of state."""


class JournalError(SteepestError):
    """A journal or record on disk is damaged."""


class RunFolderError(SteepestError):
    """A run folder belongs to something else, or is in use."""


class FailedRunsError(SteepestError):
    """Some runs of a comparison failed, and the others went on without them.

    Attributes:
        problems: The errors, one line per run.
    """

    def __init__(self, problems: Iterable[str]) -> None:
        self.problems = tuple(problems)
        first, *others = self.problems
        super().__init__(f"{first} (and {len(others)} more)" if others else first)


class SteepestWarning(UserWarning):
    """Base of all warnings."""


class RegimeWarning(SteepestWarning):
    """The score ranks the most uncertain samples last."""


class ProbabilitiesWarning(SteepestWarning):
    """A model's outputs look like probabilities where logits belong."""


class SkippedFilesWarning(SteepestWarning):
    """Files of a folder could not be read and were left out."""


class EmptyClassWarning(SteepestWarning):
    """Classes are counted that no sample has."""


class DroppedEntryWarning(SteepestWarning):
    """A half-written last entry of a journal was set aside, or a run's empty pool made again."""


class ChangedCodeWarning(SteepestWarning):
    """Records were made by another version of the user's own code, and are kept."""


class AllSkippedWarning(SteepestWarning):
    """A loop stops early, because every answer was a skip."""


class SettingWarning(SteepestWarning):
    """A setting does harm, and the work continues; the message says which to change."""


class SlowPathWarning(SteepestWarning):
    """Something that saves time failed, and the plain way is taken."""


def first_line(error: BaseException | str, otherwise: str = "") -> str:
    """Return the first line of an error's message, for a message of our own.

    Args:
        error: Of any library, or its message.
        otherwise: The text without a message; by default the error's class.
    """
    return (str(error).strip() or otherwise or type(error).__name__).splitlines()[0]


def in_one_line(error: BaseException) -> str:
    """Return the kind of an error and the first line of its message."""
    return f"{type(error).__name__}: {first_line(error, 'no message')}"
