from __future__ import annotations

import math
from dataclasses import replace

import pytest
import torch

from steepest.data.cryoet.settings import Settings
from steepest.data.cryoet.spectrum import (
    band,
    contrast_transfer,
    frequencies,
    occurrences,
    squared_per_angstrom,
    wedge,
)

USUAL = Settings()


def radii(size=32):
    z, y, x = frequencies(size)
    return (z**2 + y**2 + x**2).sqrt()


def test_the_tilts_reach_two_thirds_of_the_sphere():
    inside = (radii() <= 16) * occurrences(32)
    fraction = float((wedge(USUAL) * inside).sum() / inside.sum())
    assert fraction == pytest.approx(0.666, abs=0.001)


@pytest.mark.parametrize("most", [30.0, 40.0, 75.0, 90.0])
def test_other_tilts_reach_their_share(most):
    inside = (radii(64) <= 32) * occurrences(64)
    reached = wedge(replace(USUAL, size_voxels=64, max_tilt_degrees=most, tilt_images=181))
    assert float((reached * inside).sum() / inside.sum()) == pytest.approx(most / 90, abs=0.01)


def test_the_wedge_lies_about_the_beam():
    reached = wedge(USUAL)
    assert bool(reached[0].all()), "the plane across the beam is the image without a tilt"
    assert bool(reached[0, :, 0].all()), "the tilt axis is in every image"
    assert not bool(reached[1:, 0, 0].any()), "the beam's own axis is in none"


def test_the_transfer_is_that_of_the_formula():
    settings = Settings(voltage_kv=200, aberration_mm=2.0, amplitude_contrast=0.1)
    found = contrast_transfer(settings, torch.tensor([-3.0]))[0, 2, 3, 4]
    k = math.sqrt(2**2 + 3**2 + 4**2) / 320.0
    wavelength = 0.0250793
    phase = math.pi / 2 * (2.0e7 * wavelength**3 * k**4 - 2 * -3.0e4 * wavelength * k**2)
    mixed = math.sqrt(1 - 0.1**2) * math.sin(phase) + 0.1 * math.cos(phase)
    assert float(found) == pytest.approx(mixed * math.exp(-((k / (0.4 * 0.05)) ** 2)), rel=1e-4)


def test_volumes_of_other_defocus_have_transfers_of_their_own():
    both = contrast_transfer(USUAL, torch.tensor([-6.0, -4.0]))
    assert torch.equal(both[1:], contrast_transfer(USUAL, torch.tensor([-4.0])))
    assert not torch.allclose(both[0], both[1])
    # The weaker the defocus, the farther out the first zero of the transfer.
    along = [transfer[0, 0, :] for transfer in both]
    assert [int((transfer < 0).nonzero()[0]) for transfer in along] == [10, 12]


def test_the_band_leaves_out_the_mean_and_what_the_low_pass_takes():
    assert not bool(band(USUAL)[0, 0, 0])
    assert torch.equal(band(USUAL).sum() + 1, wedge(USUAL).sum())
    kept = band(replace(USUAL, low_pass_angstrom=40.0))
    assert float(radii()[kept].max()) == 8.0
    assert float(squared_per_angstrom(USUAL)[kept].max()) == pytest.approx(1 / 40.0**2)


def test_a_half_spectrum_counts_for_the_whole():
    whole = torch.fft.fftn(torch.rand(8, 8, 8, generator=torch.Generator().manual_seed(0)))
    half = whole[:, :, :5]
    total = float((half.abs() ** 2 * occurrences(8)).sum())
    assert total == pytest.approx(float((whole.abs() ** 2).sum()), rel=1e-5)
