"""Training an autoencoder and a discriminator against each other."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor, nn
from torch.nn import functional

from steepest.core.progress import Progress
from steepest.core.seeds import generator
from steepest.core.torch_settings import lay_out, memory_format, own_randomness
from steepest.errors import NonFiniteError
from steepest.strategies.networks.adversarial_losses import AdversarialLosses
from steepest.strategies.networks.cuda_graph import RecordedWork
from steepest.strategies.networks.image_vae import ImageVae, split_groups


class ImageRows(Protocol):
    """Images that can be taken by row."""

    def __len__(self) -> int: ...

    def take(self, rows: Tensor) -> Tensor:
        """Return the images at some rows [B] as one batch [B, C, ...]."""


@dataclass(frozen=True)
class Plan:
    """Length and step sizes of a training.

    Attributes:
        iterations: How often all steps are taken.
        batch_size: Images of each pool in a step.
        lr: Adam's learning rate.
        generator_steps: Steps of the autoencoder before each of the discriminator.
        decay: The factor of the learning rate at milestones.
        decay_every: After so many iterations; 0 is never.
        separate_norm: Whether batch normalisation sees each pool separately. It then removes the
            mean of each pool, and with it the difference between the pools.
        amp: Whether to compute in bfloat16 where it is safe, on GPUs.
    """

    iterations: int
    batch_size: int = 128
    lr: float = 5e-4
    generator_steps: int = 2
    decay: float = 1.0
    decay_every: int = 0
    separate_norm: bool = False
    amp: bool = True


@dataclass(frozen=True, eq=False)
class Sides:
    """Training data of the adversary.

    Attributes:
        labelled: Labelled images.
        unlabelled: Unlabelled images.
        states: What the discriminator should say of each unlabelled image [U].
        targets: Classes of the labelled images [L], or shares of classes in each [L, C], where
            there is a classifier.
        stale_targets: Whether all steps of an iteration take the targets of the first one's images.
    """

    labelled: ImageRows
    unlabelled: ImageRows
    states: Tensor
    targets: Tensor | None = None
    stale_targets: bool = False


class Networks(nn.Module):
    """The players.

    Args:
        vae: Makes codes of images.
        discriminator: Maps codes to one logit each.
        classifier: Maps the rest of the code, which is not decoded, to logits of classes.
    """

    def __init__(
        self, vae: ImageVae, discriminator: nn.Module, classifier: nn.Module | None = None
    ) -> None:
        super().__init__()
        self.vae = vae
        self.discriminator = discriminator
        self.classifier = classifier


def train_adversarially(
    networks: Networks,
    sides: Sides,
    game: AdversarialLosses,
    plan: Plan,
    *,
    seed: int,
    progress: Progress,
) -> None:
    """Train the networks in place and leave them in eval mode.

    The same seed gives the same weights; the global random state is unchanged.

    Args:
        networks: On their device.
        sides: What they learn from, on the same device.
        game: Their losses.
        plan: How long.
        seed: Decides the batches and the draws of codes.
        progress: Told of every iteration.

    Raises:
        NonFiniteError: If a weight becomes NaN or infinite.
    """
    device = next(networks.parameters()).device
    with (
        torch.inference_mode(mode=False),
        torch.enable_grad(),
        own_randomness(seed, device),
        memory_format(networks, True) as layout,
        progress.task("training against each other", plan.iterations) as step,
    ):
        networks.train()
        table = _Table(sides, plan, seed, device, layout)
        match = _Match(networks, game, plan, table)
        play = RecordedWork(match.play, device)
        for iteration in range(plan.iterations):
            table.deal(iteration)
            match.set_lr(iteration)
            play()
            step.advance()
        match.end()
    networks.eval()
    for name, value in networks.state_dict().items():
        if value.is_floating_point() and not bool(torch.isfinite(value).all()):
            raise NonFiniteError(f"{name} of the adversary is not finite: lower lr={plan.lr}")


class _Table:
    """The batches of one iteration, always in the same tensors."""

    def __init__(
        self,
        sides: Sides,
        plan: Plan,
        seed: int,
        device: torch.device,
        layout: torch.memory_format,
    ) -> None:
        self._sides = sides
        self._steps = plan.generator_steps
        size = plan.batch_size
        self._left = ShuffledRows(len(sides.labelled), size, seed, "labelled", device)
        self._right = ShuffledRows(len(sides.unlabelled), size, seed, "unlabelled", device)
        first = [self._left.batch(0), self._right.batch(0)]
        images = [sides.labelled.take(first[0]), sides.unlabelled.take(first[1])]
        self.sizes = [len(part) for part in images]
        both = lay_out(torch.cat(images), layout)
        self.images = [both.clone() for _ in range(self._steps)]
        self.states = sides.states[first[1]].clone()
        known = sides.targets
        self.targets = [] if known is None else [known[first[0]].clone() for _ in self.images]

    def deal(self, iteration: int) -> None:
        """Put the batches of an iteration on the table: fresh ones for every step."""
        sides, known = self._sides, self._sides.targets
        for step in range(self._steps):
            number = iteration * self._steps + step
            left, right = self._left.batch(number), self._right.batch(number)
            self.images[step][: len(left)] = sides.labelled.take(left)
            self.images[step][len(left) :] = sides.unlabelled.take(right)
            if known is not None and not (sides.stale_targets and step > 0):
                self.targets[step].copy_(known[left])
            elif known is not None:
                self.targets[step].copy_(self.targets[0])
        self.states.copy_(sides.states[right])


class _Match:
    """The steps of one iteration."""

    def __init__(
        self, networks: Networks, game: AdversarialLosses, plan: Plan, table: _Table
    ) -> None:
        self._networks = networks
        self._game = game
        self._plan = plan
        self._table = table
        self._groups = table.sizes if plan.separate_norm else []
        device = table.states.device
        exact = next(networks.parameters()).dtype == torch.float64
        # On CPUs bfloat16 is no faster, and its kernels stop the program on some of them.
        amp = plan.amp and device.type != "cpu" and not exact
        self._autocast = torch.autocast(device.type, dtype=torch.bfloat16, enabled=amp)
        parts = [networks.vae, networks.classifier]
        self._makers = [p for part in parts if part is not None for p in part.parameters()]
        self._tellers = list(networks.discriminator.parameters())
        self._make = _adam(self._makers, plan.lr, device)
        self._tell = _adam(self._tellers, plan.lr, device)

    def play(self) -> None:
        """Let the autoencoder take its steps, and the discriminator one on its last images."""
        for step in range(self._plan.generator_steps):
            loss = self._generator_loss(step)
            self._make.zero_grad()
            torch.autograd.backward(loss, inputs=self._makers)
            self._make.step()
        loss = self._discriminator_loss()
        self._tell.zero_grad()
        torch.autograd.backward(loss, inputs=self._tellers)
        self._tell.step()

    def set_lr(self, iteration: int) -> None:
        """Lower the learning rate where the plan says so."""
        every = self._plan.decay_every
        if not every or iteration % every or not iteration:
            return
        for optimizer in (self._make, self._tell):
            for group in optimizer.param_groups:
                # In place where it is a tensor: a recording reads it.
                group["lr"] *= self._plan.decay

    def end(self) -> None:
        """Let go of the gradients."""
        self._make.zero_grad()
        self._tell.zero_grad()

    def _generator_loss(self, step: int) -> Tensor:
        table, game, nets = self._table, self._game, self._networks
        images = table.images[step]
        with self._autocast:
            encoded = nets.vae(images, self._groups)
            made = split_groups(encoded, table.sizes)
            said = torch.split(nets.discriminator(encoded.mean), table.sizes)
            classes = (
                None
                if nets.classifier is None
                else nets.classifier(nets.vae.undecoded(made[0].code))
            )
        left, right = torch.split(images, table.sizes)
        loss = game.bound(left, made[0]) + game.bound(right, made[1]) + game.fooling(*said)
        if classes is None:
            return loss
        return loss + game.classification * functional.cross_entropy(
            classes.to(left), table.targets[step]
        )

    def _discriminator_loss(self) -> Tensor:
        table, nets = self._table, self._networks
        with self._autocast:
            with torch.no_grad():
                codes, _ = nets.vae.encode(table.images[-1], self._groups)
            said = torch.split(nets.discriminator(codes), table.sizes)
        return self._game.telling(said[0], said[1], table.states)


def _adam(parameters: list[nn.Parameter], lr: float, device: torch.device) -> torch.optim.Adam:
    on_gpu = device.type == "cuda"
    rate: float | Tensor = torch.tensor(lr, device=device) if on_gpu else lr
    return torch.optim.Adam(parameters, rate, fused=on_gpu, capturable=on_gpu)


class ShuffledRows:
    """Batches of rows in a new order each epoch, without replacement within an epoch.

    Batch i depends on the seed and the name alone. What does not fill a batch is left out of an
    epoch, so that all batches are of one size.

    Args:
        count: How many rows there are.
        batch_size: Rows in a batch, if there are that many.
        seed: Decides the orders.
        name: Tells this from other draws of the seed.
        device: The device of the rows.
    """

    def __init__(
        self, count: int, batch_size: int, seed: int, name: str, device: torch.device
    ) -> None:
        self.batch_size = min(batch_size, count)
        self._count = count
        self._seed = seed
        self._name = name
        self._device = device
        self._epoch = -1
        self._order = torch.empty(0, dtype=torch.long)

    def batch(self, number: int) -> Tensor:
        """Return the rows of a batch, counted from 0 [B]."""
        epoch, place = divmod(number, self._count // self.batch_size)
        if epoch != self._epoch:
            random = generator(self._seed, "rows", self._name, epoch)
            # Moved once an epoch: a copy for each batch would make the device wait.
            self._order = torch.randperm(self._count, generator=random).to(self._device)
            self._epoch = epoch
        return self._order[place * self.batch_size : (place + 1) * self.batch_size]
