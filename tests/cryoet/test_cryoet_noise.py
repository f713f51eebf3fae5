from __future__ import annotations

import pytest
import torch

from steepest.core.seeds import derive, generator
from steepest.data.cryoet.noise import _scramble, ordered_sum, white_spectrum

SIZE = 16
KEYS = torch.tensor([derive(0, "noise", i) for i in range(200)])


@pytest.fixture(scope="module")
def spectra():
    return white_spectrum(KEYS, SIZE)


def to_volumes(spectra):
    return torch.fft.irfftn(spectra, s=(SIZE,) * 3, dim=(1, 2, 3))


def test_integers_are_scrambled_as_python_would():
    word = (1 << 64) - 1
    for x in (0, 1, 12345, -1, -(1 << 63), (1 << 62) + 7):
        y = x & word
        y = ((y ^ (y >> 30)) * 0xBF58476D1CE4E5B9) & word
        y = ((y ^ (y >> 27)) * 0x94D049BB133111EB) & word
        assert int(_scramble(torch.tensor([x]))) & word == y ^ (y >> 31)


def test_it_is_the_spectrum_of_a_real_volume(spectra):
    again = torch.fft.rfftn(to_volumes(spectra), dim=(1, 2, 3))
    torch.testing.assert_close(again, spectra, rtol=0, atol=1e-5)


def test_every_frequency_has_a_mean_square_of_one(spectra):
    squared = spectra.abs().square().mean(dim=0)
    assert float(squared.mean()) == pytest.approx(1.0, abs=0.005)
    assert float((squared - 1).abs().max()) < 0.6
    for plane in (0, SIZE // 2):
        assert float(squared[..., plane].mean()) == pytest.approx(1.0, abs=0.02)
    own_opposite = squared[:: SIZE // 2, :: SIZE // 2, :: SIZE // 2]
    assert float(own_opposite.mean()) == pytest.approx(1.0, abs=0.12)


def test_volumes_are_white_and_normal(spectra):
    volumes = to_volumes(spectra) * SIZE**1.5
    assert float(volumes.mean()) == pytest.approx(0.0, abs=0.005)
    assert float(volumes.var()) == pytest.approx(1.0, abs=0.01)
    assert float((volumes**4).mean()) == pytest.approx(3.0, abs=0.05)
    assert float((volumes.abs() > 3).double().mean()) == pytest.approx(0.0027, abs=0.0004)
    for axis in (1, 2, 3):
        beside = volumes * volumes.roll(1, axis)
        assert float(beside.mean()) == pytest.approx(0.0, abs=0.006)


def test_volumes_are_independent_of_each_other(spectra):
    flat = to_volumes(spectra).flatten(1)
    together = torch.corrcoef(flat) - torch.eye(len(flat))
    assert float(together.abs().max()) < 0.1
    assert float(together.square().mean().sqrt()) == pytest.approx(SIZE**-1.5, rel=0.1)


def test_noise_depends_on_its_key_alone(spectra):
    assert torch.equal(white_spectrum(KEYS[[7, 3]], SIZE), spectra[[7, 3]])


def test_sums_do_not_depend_on_the_batch_and_are_exact_enough():
    values = torch.randn(5, 3, 7, 11, generator=generator(0, "sums"))
    sums = ordered_sum(values)
    torch.testing.assert_close(sums, values.double().sum(dim=(1, 2, 3)), rtol=0, atol=1e-12)
    for row in range(5):
        assert torch.equal(ordered_sum(values[row : row + 1]), sums[row : row + 1])
