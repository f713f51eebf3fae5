"""The public functions: exact per-sample gradient norms."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal, get_args

import torch
from torch import Tensor, nn

from steepest.core.memory import free_bytes, is_out_of_memory
from steepest.errors import InputError, ModelError, NonFiniteError, UnknownNameError
from steepest.gradnorm.engine import Engine
from steepest.gradnorm.measure.routes import StopWatch
from steepest.modules import batches
from steepest.modules.batches import Inputs
from steepest.modules.losses import Loss, RowLosses, resolve
from steepest.modules.precision import Precision, check_precision
from steepest.modules.preserve import preserved_buffers
from steepest.modules.probabilities import look_like_probabilities, warn_of_probabilities
from steepest.modules.real_tokens import classifies_tokens, has_padding, without_padding

SampleNorm = Literal["l2", "tensor-sum"]
"""A norm with one value per sample."""

Norm = Literal["l2", "tensor-sum", "per-tensor"]

Microbatch = int | Literal["auto"] | None
"""Samples computed together: a number, as many as fit, or all of them."""

_SHARE = 0.4
"""How much of the free memory a batch may take; estimates are not exact."""

_ROOM = 2.0
"""Peak memory of a batch as a multiple of the activations kept by a forward pass."""

_MOST = {"cpu": 64, "cuda": 1024}
"""Beyond this a larger batch is not faster."""


class GradientNorms:
    """Exact per-sample gradient norms of one model, for many batches.

    The analysis of the model on the first batch is reused. The model's weights may change
    between calls, its layers may not.

    Args:
        model: Any module in eval mode. Its output is a tensor of logits [N, C, ...], or an object
            or dict that carries ``logits``.
        loss: ``"entropy"`` or ``"expected"`` (the paper's two schemes; label-free),
            ``"pseudo-label"``, ``"cross-entropy"`` with targets, or a callable
            ``outputs[, targets] -> [N]``.
        norm: ``"l2"``: the Euclidean norm of the whole gradient. ``"tensor-sum"``: the sum of the
            norms of its tensors, as in the published code of the paper. ``"per-tensor"``: the
            norms of its tensors.
        microbatch: Samples in flight at once; ``"auto"`` finds a number that fits into memory and
            halves it when memory runs out; None takes all of them.
        precision: ``"tf32"`` lets GPUs multiply with ten bits of fraction, ``"fp32"`` does not,
            ``"bf16"`` casts as training in mixed precision does. CPUs know no ``"tf32"``.
        verify: How many samples of each batch to measure again by the slow reference.
        autotune: Whether to measure which route is fastest for each layer on this machine.
        graphs: Whether a GPU may record the measurement as a CUDA graph when batches of the same
            shape come back. Weights may change in place all the same.
        compiled: Whether to compile the whole measurement, and to record it as a CUDA graph on a
            GPU. Pays for many batches of the same shape.

    Raises:
        ModelError: If the model is in training mode.
        InputError: If an argument does not fit.
    """

    def __init__(
        self,
        model: nn.Module,
        loss: Loss = "entropy",
        *,
        norm: Norm = "l2",
        microbatch: Microbatch = None,
        precision: Precision = "tf32",
        verify: int = 0,
        autotune: bool = False,
        graphs: bool = True,
        compiled: bool = False,
    ) -> None:
        check_norm(norm)
        check_precision(precision)
        _check_number("microbatch", microbatch, least=1, words=("auto", None))
        _check_number("verify", verify, least=0)
        self._loss, self._norm, self._verify = loss, norm, verify
        self._microbatch = microbatch
        self._halves = False
        self._by_token: bool | None = None
        self._looked = self._probabilities = False
        self._label_free: RowLosses | None = None
        clock = StopWatch() if autotune else None
        self.engine = Engine(model, precision=precision, clock=clock, graphs=graphs)
        self._measure: Callable[[Inputs, Tensor | None], Tensor] = self._by_engine
        if compiled:
            from steepest.gradnorm.compiled import Compiled

            self._measure = Compiled(self.engine, loss, self._look)

    def __call__(self, inputs: Inputs, targets: Tensor | None = None) -> Tensor:
        """Measure one batch.

        Args:
            inputs: N samples on the model's device: a tensor, a tuple of positional tensors or a
                dict of keyword tensors.
            targets: Labels [N, ...] where the loss takes some.

        Returns:
            [N], or [N, P] for ``"per-tensor"`` with one column per trainable parameter in the
            order of ``model.named_parameters()``; in single precision at least.

        Raises:
            ModelError: If the model mixes samples or returns no logits.
            NonFiniteError: If inputs or results are not finite.
            VerificationError: If a sample's norm disagrees with the slow reference.
            InputError: If an argument does not fit.
        """
        found = self.measure(inputs, targets)
        self.warn(stacklevel=2)
        return found

    def measure(self, inputs: Inputs, targets: Tensor | None = None) -> Tensor:
        """Measure one batch, and say nothing of outputs that look like probabilities."""
        if targets is not None and not isinstance(targets, Tensor):
            raise InputError(f"targets must be a tensor, not {type(targets).__name__}")
        tensors = batches.tensors_of(inputs)
        total = tensors[0].shape[0]
        on_cpu = all(tensor.is_cpu for tensor in tensors)
        finite = None if on_cpu else batches.are_finite(inputs)
        if on_cpu:
            batches.check_finite(inputs)
        if targets is not None:
            targets = batches.cut_off(targets)
        if self._label_free is None or targets is not None:
            resolve(self._loss, targets, total)  # Raises early if the targets do not fit.
        try:
            squares = self._squares_of_texts(inputs, targets, total)
        except ModelError as error:
            if error.samples in (None, total):
                raise
            raise ModelError(
                f"{error}; of the {total} samples given, some are also looked at by themselves, so "
                "let it take any number of them"
            ) from error
        if self._verify and total:
            from steepest.gradnorm.verification import verify

            verify(self.engine, inputs, self._loss, targets, squares.sqrt(), self._verify)
        # Half precision would overflow, and tie samples that differ.
        dtype = torch.promote_types(self.engine.dtype, torch.float32)
        result = combine(squares, self._norm).to(dtype)
        if finite is None:
            fine = batches.is_finite(result)
        else:  # A GPU is waited for once.
            fine = bool(torch.isfinite(result).all().logical_and(finite.to(result.device)))
        if not fine:
            batches.check_finite(inputs)
            half = self.engine.coarseness >= torch.finfo(torch.float16).eps
            raise NonFiniteError(
                "a gradient is NaN or infinite: look at the model's outputs"
                + half * ", or give copy.deepcopy(model).float(), as half precision overflows soon"
            )
        return result

    def warn(self, stacklevel: int) -> None:
        """Warn once if the first outputs looked like probabilities, for a loss that takes logits.

        Args:
            stacklevel: Where the user's call is, as seen from the caller.
        """
        if self._probabilities:
            self._probabilities = False
            warn_of_probabilities(stacklevel + 1)

    def _look(self, outputs: Any) -> None:  # noqa: ANN401
        """Look at the first outputs, for which a GPU has to be waited for once."""
        if not self._looked and isinstance(self._loss, str):
            self._probabilities = look_like_probabilities(batches.logits_of(outputs))
        self._looked = True

    def _squares_of_texts(self, inputs: Inputs, targets: Tensor | None, total: int) -> Tensor:
        """Return squared norms [N, P]; of models that classify tokens without the padding."""
        # A custom loss gets the model's own output, and its labels tell which samples count.
        if not isinstance(self._loss, str) or not total or not has_padding(inputs):
            return self._all_squares(inputs, targets, total)
        if self._by_token is None:
            self._by_token = classifies_tokens(self.engine.forward, inputs)
        if not self._by_token:
            return self._all_squares(inputs, targets, total)
        squares = torch.zeros(total, len(self.engine.names), dtype=torch.float64)
        squares = squares.to(self.engine.device)
        for texts in without_padding(inputs):
            count = len(texts.rows)
            found = self._all_squares(texts.inputs, texts.targets(targets), count)
            squares[texts.rows.to(squares.device)] = found
        return squares

    def _all_squares(self, inputs: Inputs, targets: Tensor | None, total: int) -> Tensor:
        """Return squared norms [N, P], a microbatch at a time."""
        if total == 0:
            return torch.zeros(0, len(self.engine.names), dtype=torch.float64)
        step = self._first_step(inputs, total)
        parts: list[Tensor] = []
        start = 0
        while start < total:
            rows = slice(start, min(start + step, total))
            labels = None if targets is None else targets[rows]
            try:
                whole = rows.stop - rows.start == total
                some = inputs if whole else batches.take(inputs, rows)
                parts.append(self._measure(some, labels))
            except (RuntimeError, MemoryError) as error:
                if not is_out_of_memory(error):
                    raise
                step = self._smaller(rows.stop - rows.start, error)
                continue
            start = rows.stop
        return parts[0] if len(parts) == 1 else torch.cat(parts)

    def _by_engine(self, inputs: Inputs, targets: Tensor | None) -> Tensor:
        losses = self._label_free
        if targets is not None or losses is None:
            losses = resolve(self._loss, targets, batches.count(inputs))
            # With the same function for every batch, a GPU can record its operations. A
            # loss of the user's own may have changed since.
            named = targets is None and isinstance(self._loss, str)
            self._label_free = losses if named else None
        outputs, (squares,) = self.engine.squared_norms(inputs, losses)
        self._look(outputs)
        return squares

    def _first_step(self, inputs: Inputs, total: int) -> int:
        if self._microbatch == "auto":
            try:
                with preserved_buffers(self.engine.model.modules()):
                    self._microbatch = samples_that_fit(self.engine, inputs)
            except (RuntimeError, MemoryError) as error:
                if not is_out_of_memory(error):
                    raise
                self._halves = True
                self._smaller(1, error)
            self._halves = True
        return total if self._microbatch is None else int(self._microbatch)

    def _smaller(self, tried: int, error: BaseException) -> int:
        """Return half as many samples, or raise if that is not wanted or not possible."""
        if not self._halves or tried == 1:
            raise InputError(
                f"{tried} samples at once do not fit into memory: "
                + ("use a smaller model or input" if tried == 1 else "use microbatch='auto'")
            ) from error
        if torch.cuda.is_available():
            torch.cuda.empty_cache()
        self._microbatch = tried // 2
        return tried // 2


def gradient_norms(
    model: nn.Module,
    inputs: Inputs,
    loss: Loss = "entropy",
    *,
    targets: Tensor | None = None,
    norm: Norm = "l2",
    microbatch: Microbatch = None,
    precision: Precision = "tf32",
    verify: int = 0,
    autotune: bool = False,
) -> Tensor:
    """Return the norm of each sample's gradient over all trainable parameters.

    The result is exact for any module in eval mode. The model is left unchanged. For many batches
    of one model, ``steepest.gradnorm.GradientNorms`` reuses its analysis of the model.

    Args:
        model: Any module in eval mode. Its output is a tensor of logits [N, C, ...], or an object
            or dict that carries ``logits``.
        inputs: N samples on the model's device: a tensor, a tuple of positional tensors or a dict
            of keyword tensors.
        loss: ``"entropy"`` or ``"expected"`` (the paper's two schemes; label-free),
            ``"pseudo-label"``, ``"cross-entropy"`` with targets, or a callable
            ``outputs[, targets] -> [N]``.
        targets: Labels [N, ...] where the loss takes some.
        norm: ``"l2"``: the Euclidean norm of the whole gradient. ``"tensor-sum"``: the sum of the
            norms of its tensors, as in the published code of the paper. ``"per-tensor"``: the
            norms of its tensors.
        microbatch: Samples in flight at once; ``"auto"`` finds a number that fits into memory and
            halves it when memory runs out; None takes all of them.
        precision: ``"tf32"`` lets GPUs multiply with ten bits of fraction, ``"fp32"`` does not,
            ``"bf16"`` casts as training in mixed precision does. CPUs know no ``"tf32"``.
        verify: How many samples to measure again by the slow reference.
        autotune: Whether to measure which route is fastest for each layer on this machine.

    Returns:
        [N], or [N, P] for ``"per-tensor"`` with one column per trainable parameter in the order
        of ``model.named_parameters()``; in single precision at least.

    Raises:
        ModelError: If the model is in training mode, mixes samples or returns no logits.
        NonFiniteError: If inputs, weights or results are not finite.
        VerificationError: If a sample's norm disagrees with the slow reference.
        InputError: If an argument does not fit.
    """
    norms = GradientNorms(
        model, loss, norm=norm, microbatch=microbatch, precision=precision, verify=verify,
        autotune=autotune,
    )  # fmt: skip
    found = norms.measure(inputs, targets)
    norms.warn(stacklevel=2)
    return found


def combine(squares: Tensor, norm: Norm) -> Tensor:
    """Turn squared norms per tensor [N, P] into the norm asked for: [N], or [N, P]."""
    if norm == "l2":
        return squares.sum(1).sqrt()
    roots = squares.sqrt()
    return roots.sum(1) if norm == "tensor-sum" else roots


def check_norm(norm: str) -> None:
    """Raise if the norm is unknown.

    Raises:
        UnknownNameError: Names the nearest.
    """
    if norm not in get_args(Norm):
        raise UnknownNameError("norm", norm, get_args(Norm))


def _check_number(
    name: str, value: object, *, least: int, words: tuple[str | None, ...] = ()
) -> None:
    if any(value == word for word in words):
        return
    if type(value) is not int or value < least:
        also = f" or {words[0]!r}" if words else ""
        raise InputError(f"{name} must be a whole number of at least {least}{also}, not {value!r}")


def samples_that_fit(engine: Engine, inputs: Inputs) -> int:
    """Estimate how many samples fit, from the memory needed by one of them.

    Args:
        engine: Will measure them.
        inputs: Samples like those to come; only the first is looked at.

    Returns:
        At least 1; may be more than were given.
    """
    needed = _ROOM * bytes_kept(engine, batches.take(inputs, slice(0, 1)))
    fit = int(_SHARE * free_bytes(engine.device) / max(1.0, needed))
    return max(1, min(fit, _MOST.get(engine.device.type, 64)))


def bytes_kept(engine: Engine, inputs: Inputs) -> int:
    """Return how many bytes a forward pass keeps for its backward pass."""
    kept: dict[int, int] = {}
    inputs = batches.cloned(inputs)  # A model may write into its inputs.
    known = [*engine.model.parameters(), *engine.model.buffers(), *batches.tensors_of(inputs)]
    given = {tensor.untyped_storage().data_ptr() for tensor in known}

    def keep(tensor: Tensor) -> Tensor:
        storage = tensor.untyped_storage()
        if storage.data_ptr() not in given:
            kept[storage.data_ptr()] = storage.nbytes()
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(keep, lambda tensor: tensor):
        engine.forward(inputs, copied=False)
    return sum(kept.values())
