"""The noise is what each mode says, measured on the volumes and on images of a tilt series."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
import torch

from steepest.core.seeds import generator
from steepest.data.cryoet import Settings, Simulator
from steepest.data.cryoet.noise import noise_maps, slice_weights, tilt_angles
from steepest.data.cryoet.spectrum import band, frequencies, occurrences

SIZE = 16
SNR = 0.05
COUNT = 30
INDICES = torch.arange(COUNT)
CLASSES = INDICES % 5


def settings(mode, **changes):
    usual = Settings(
        size_voxels=SIZE, voxel_angstrom=20.0, shift_voxels=1.0, snr=SNR, snr_mode=mode,
        low_pass_angstrom=60.0 if mode == "aitom" else None,
    )  # fmt: skip
    return replace(usual, **changes)


def variance(volumes):
    return volumes.double().var(dim=(1, 2, 3), correction=0)


def kept_fraction(chosen):
    return float((band(chosen) * occurrences(SIZE)).sum()) / SIZE**3


def project(volumes, angles):
    """Return the mean variance of the projections, from their exact Fourier transforms [N]."""
    steps = torch.arange(SIZE).double() - (SIZE - 1) / 2
    along = torch.fft.fftfreq(SIZE, 1 / SIZE).double()
    total = torch.zeros(len(volumes)).double()
    for angle in angles:
        wave_z = torch.exp(-2j * math.pi * along[:, None] * torch.sin(angle) * steps / SIZE)
        wave_x = torch.exp(-2j * math.pi * along[:, None] * torch.cos(angle) * steps / SIZE)
        image = torch.einsum("nzyx,rz,rx->nyr", volumes.to(torch.complex128), wave_z, wave_x)
        squared = torch.fft.fft(image, dim=1).abs().square()
        squared[:, 0, 0] = 0.0
        total += squared.sum(dim=(1, 2)) / SIZE**4
    return total / len(angles)


def image_noise_variance(noise, chosen):
    """Return the variance that one image must have had for such noise in the volume [N]."""
    kept = band(chosen)
    _, power = noise_maps(chosen, torch.zeros(SIZE, SIZE, SIZE // 2 + 1).double())
    spectra = torch.fft.rfftn(noise.double(), dim=(1, 2, 3))
    return (spectra.abs().square()[:, kept] / power[kept]).mean(dim=1)


def test_white_noise_over_the_box_has_the_nominal_ratio(templates):
    """Without a wedge nothing is taken from the noise, so the ratio shows as it is."""
    signal, noise = Simulator(templates, settings("white", max_tilt_degrees=90.0)).parts(
        CLASSES, INDICES
    )
    ratios = variance(signal) / variance(noise)
    assert float(ratios.mean()) == pytest.approx(SNR, rel=0.01)
    assert float(ratios.std()) < 0.04 * SNR


def test_the_wedge_takes_its_share_of_white_noise(templates):
    chosen = settings("white")
    signal, noise = Simulator(templates, chosen).parts(CLASSES, INDICES)
    before = variance(noise) / kept_fraction(chosen)
    assert float((variance(signal) / before).mean()) == pytest.approx(SNR, rel=0.01)


def test_aitom_noise_has_the_nominal_ratio_in_its_band(templates):
    signal, noise = Simulator(templates, settings("aitom")).parts(CLASSES, INDICES)
    ratios = variance(signal) / variance(noise)
    assert float(ratios.mean()) == pytest.approx(SNR, rel=0.02)


def test_half_of_the_aitom_noise_has_passed_the_transfer():
    chosen = settings("aitom")
    transfer = torch.linspace(0, 1, 9).double().expand(SIZE, SIZE, 9)
    _, power = noise_maps(chosen, transfer)
    counts = occurrences(SIZE) * band(chosen)
    flat = power[..., 0].max()
    assert float((counts * flat).sum()) == pytest.approx(0.5 * float((power * counts).sum()))
    shaped = (power - flat)[band(chosen)] / transfer[band(chosen)].square().clamp(min=1e-9)
    inside = transfer[band(chosen)] > 0
    assert float(shaped[inside].std() / shaped[inside].mean()) < 1e-9


def test_images_of_the_tilt_series_have_the_nominal_ratio(templates):
    chosen = settings("tilt")
    whole = Simulator(templates, replace(chosen, snr=None, max_tilt_degrees=90.0))
    signal, _ = whole.parts(CLASSES, INDICES)
    _, noise = Simulator(templates, chosen).parts(CLASSES, INDICES)
    ratios = project(signal, tilt_angles(chosen)) / image_noise_variance(noise, chosen)
    assert float(ratios.mean()) == pytest.approx(SNR, rel=0.03)
    assert float(ratios.std()) < 0.08 * SNR


def test_tilt_noise_is_that_of_a_volume_put_together_from_noisy_images():
    """Images of white noise, their exact slices, and their weighted mean at each frequency."""
    chosen, repeats = settings("tilt"), 24
    angles, weights = tilt_angles(chosen), slice_weights(chosen)[:, :, 0]
    draws = torch.randn(repeats, len(angles), SIZE, SIZE, generator=generator(0, "images")).double()
    z, _, x = frequencies(SIZE)
    along = (
        z[None, :, 0] * torch.sin(angles)[:, None, None]
        + x[:, 0] * torch.cos(angles)[:, None, None]
    )
    waves = torch.exp(-2j * math.pi * along[..., None] * torch.arange(SIZE) / SIZE)
    means = weights / weights.sum(dim=0)
    put = torch.einsum("rtyu,tzxu,tzx->rzyx", draws.to(torch.complex128), waves, means + 0j)
    measured = torch.fft.fft(put, dim=2).abs().square().mean(dim=(0, 2))
    _, power = noise_maps(chosen, torch.zeros(SIZE, SIZE, SIZE // 2 + 1).double())
    predicted, kept = power[:, 1], band(chosen)[:, 1]
    ratios = measured[kept] / predicted[kept]
    assert float(ratios.mean()) == pytest.approx(1.0, abs=0.02)
    assert float((ratios - 1).abs().max()) < 0.35
    assert float(predicted[0, 1:].diff().min()) > 0, "farther out, fewer images meet"


def test_no_frequency_of_the_band_is_without_noise():
    for mode in ("tilt", "white", "aitom"):
        chosen = settings(mode)
        _, power = noise_maps(chosen, torch.ones(SIZE, SIZE, SIZE // 2 + 1).double())
        assert bool((power[band(chosen)] > 0).all())
        assert not bool(power[~band(chosen)].any())


@pytest.mark.parametrize("mode", ["tilt", "white", "aitom"])
def test_two_noisy_copies_correlate_as_predicted(templates, mode):
    chosen = settings(mode, snr=0.4)
    first, second = (
        Simulator(templates, chosen, noise_seed=seed)(CLASSES, INDICES) for seed in (1, 2)
    )
    correlation = float((first * second).mean())
    if mode == "tilt":
        whole = Simulator(templates, replace(chosen, snr=None, max_tilt_degrees=90.0))
        images = project(whole.parts(CLASSES, INDICES)[0], tilt_angles(chosen)) / chosen.snr
        _, power = noise_maps(chosen, torch.zeros(SIZE, SIZE, SIZE // 2 + 1).double())
        noise = images * float((power * occurrences(SIZE)).sum()) / SIZE**6
        signal = variance(Simulator(templates, chosen).parts(CLASSES, INDICES)[0])
        predicted = float((1 / (1 + noise / signal)).mean())
    else:
        share = kept_fraction(chosen) if mode == "white" else 1.0
        predicted = 1 / (1 + share / chosen.snr)
    assert correlation == pytest.approx(predicted, abs=0.01)
    assert 0.1 < predicted < 0.6
