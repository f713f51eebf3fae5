"""Subtomograms from density maps: each depends on the seed and its own index alone."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import reduce

import torch
from torch import Tensor

from steepest.core.seeds import derive
from steepest.data.cryoet.density import resample
from steepest.data.cryoet.noise import (
    FOLLOW_TRANSFER,
    NoiseMaps,
    noise_maps,
    ordered_sum,
    white_spectrum,
)
from steepest.data.cryoet.poses import Poses, draw_poses
from steepest.data.cryoet.settings import Settings
from steepest.data.cryoet.spectrum import band, contrast_transfer
from steepest.data.cryoet.templates import Templates
from steepest.errors import InputError

_CHUNK = {"cpu": 1, "cuda": 256}
"""Volumes at a time. One on the CPU: it fits the cache, and no batch can change its rounding."""


class Simulator:
    """Simulates volumes by class and index.

    Args:
        templates: Density maps of the classes.
        settings: The microscope, the noise, and how particles lie.
        seed: Of everything random.
        stream: The part of a data set; parts of other names are independent.
        noise_seed: Other noise on the same particles; ``seed`` if not given.
        device: The device. Devices differ by rounding alone.
    """

    def __init__(
        self,
        templates: Templates,
        settings: Settings | None = None,
        *,
        seed: int = 0,
        stream: str = "train",
        noise_seed: int | None = None,
        device: str | torch.device = "cpu",
    ) -> None:
        self.settings = Settings() if settings is None else settings
        self.templates = templates
        self.device = torch.device(device)
        self._seed = seed
        self._noise_seed = seed if noise_seed is None else noise_seed
        self._stream = stream
        self._maps = templates.maps.to(self.device)
        crowded = self.settings.neighbours > 0
        self._radii = templates.radii_angstrom() if crowded else torch.zeros(len(templates))
        self._band = band(self.settings).to(self.device)
        low, high = self.settings.defocus_um
        transfer = contrast_transfer(self.settings, torch.tensor([low]))
        self._transfer = transfer.to(self.device) if low == high else None
        one_for_all = low == high or self.settings.snr_mode not in FOLLOW_TRANSFER
        self._noise_maps = self._make_noise_maps(transfer[0]) if one_for_all else None

    def __call__(self, classes: Tensor, indices: Tensor) -> Tensor:
        """Simulate volumes, each of mean 0 and standard deviation 1.

        Args:
            classes: The class of each [N].
            indices: The volumes of the data set [N].

        Returns:
            float32 [N, S, S, S], on the device.

        Raises:
            InputError: If a class is not among the templates.
        """
        size = self.settings.size_voxels
        volumes = torch.empty(len(indices), size, size, size, device=self.device)
        for rows, signal, noise in self._spectra(classes, indices):
            spectrum = signal if noise is None else signal + noise
            volumes[rows] = _standardise(_to_volumes(spectrum))
        return volumes

    def parts(self, classes: Tensor, indices: Tensor) -> tuple[Tensor, Tensor]:
        """Simulate signal and noise apart, before they are added and standardised.

        Returns:
            Signal and noise, float32 [N, S, S, S] each.
        """
        size = self.settings.size_voxels
        signals = torch.empty(len(indices), size, size, size, device=self.device)
        noises = torch.zeros_like(signals)
        for rows, signal, noise in self._spectra(classes, indices):
            signals[rows] = _to_volumes(signal)
            if noise is not None:
                noises[rows] = _to_volumes(noise)
        return signals, noises

    def fingerprint(self) -> str:
        """Return a text that tells simulators apart that give different volumes."""
        seeds = f"{self._seed} {self._noise_seed} {self._stream}"
        return f"{self.settings.fingerprint()} {self.templates.fingerprint()} {seeds}"

    def _spectra(
        self, classes: Tensor, indices: Tensor
    ) -> Iterator[tuple[slice, Tensor, Tensor | None]]:
        """Yield rows, and the spectra of signal and noise [C, S, S, S / 2 + 1] there."""
        classes, indices = classes.cpu().long(), indices.cpu().long()
        if len(classes) != len(indices):
            raise InputError(f"{len(classes)} classes for {len(indices)} indices; give one each")
        if len(classes) and not 0 <= int(classes.min()) <= int(classes.max()) < len(self.templates):
            raise InputError(f"classes must be in 0..{len(self.templates) - 1}")
        step = _CHUNK.get(self.device.type, 64)
        listed = indices.tolist()
        poses = draw_poses(self._seed, self._stream, listed, classes, self._radii, self.settings)
        for start in range(0, len(listed), step):
            rows = slice(start, min(start + step, len(listed)))
            yield rows, *self._simulate(poses, rows, listed[rows])

    def _simulate(
        self, poses: Poses, rows: slice, indices: list[int]
    ) -> tuple[Tensor, Tensor | None]:
        settings = self.settings
        # Dense matter scatters electrons away: particles are dark.
        scattered = _to_spectra(-self._place(poses, rows))
        transfer = self._transfer
        if transfer is None:
            transfer = contrast_transfer(settings, poses.defocus_um[rows].to(self.device))
        signal = scattered * transfer.float()
        noise = None
        if settings.snr is not None:
            keys = [derive(self._noise_seed, "cryoet noise", self._stream, i) for i in indices]
            noise = white_spectrum(torch.tensor(keys, device=self.device), settings.size_voxels)
            weights, power = self._noise_maps or self._make_noise_maps(transfer)
            squared = signal.real.square() + signal.imag.square()
            level = (ordered_sum(squared * weights) / settings.snr).sqrt().float()
            noise = noise * (level[:, None, None, None] * power)
        return signal * self._band, noise

    def _place(self, poses: Poses, rows: slice) -> Tensor:
        """Return the density of all bodies together [C, S, S, S]."""
        settings = self.settings
        zoom = settings.voxel_angstrom / self.templates.voxel_angstrom
        placed = (
            resample(
                self._maps[poses.bodies[rows, body].to(self.device)],
                poses.rotations[rows, body],
                poses.shifts_voxels[rows, body],
                settings.size_voxels,
                zoom,
            )
            for body in range(poses.bodies.shape[1])
        )
        return reduce(torch.add, placed)

    def _make_noise_maps(self, transfer: Tensor) -> NoiseMaps:
        """Return weights and the root of the power, on the device."""
        weights, power = noise_maps(self.settings, transfer)
        return weights.float().to(self.device), power.sqrt().float().to(self.device)


def _to_spectra(volumes: Tensor) -> Tensor:
    with _one_thread():
        halved = torch.fft.rfft(volumes, dim=3)
        spectra: Tensor = torch.fft.fft(torch.fft.fft(halved, dim=2), dim=1)
    return spectra


def _to_volumes(spectra: Tensor) -> Tensor:
    size = spectra.shape[1]
    with _one_thread():
        volumes: Tensor = torch.fft.irfftn(spectra, s=(size, size, size), dim=(1, 2, 3))
    return volumes


@contextmanager
def _one_thread() -> Iterator[None]:
    """Transform by one thread: several round differently, on some processors."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(threads)


def _standardise(volumes: Tensor) -> Tensor:
    """Scale to standard deviation 1; the mean is 0 already, for the band leaves it out."""
    variance = ordered_sum(volumes.square()) / volumes[0].numel()
    return volumes * variance.clamp(min=1e-30).rsqrt().float()[:, None, None, None]
