from __future__ import annotations

import pickle
from dataclasses import replace

import pytest
import torch

from steepest.data.cryoet import Settings, Simulator
from steepest.data.cryoet.spectrum import band, occurrences, wedge
from steepest.errors import InputError

INDICES = torch.arange(12)
CLASSES = INDICES % 5
NOISY = Settings(snr=0.05)


@pytest.mark.parametrize("mode", [None, "tilt", "white", "aitom"])
def test_nothing_is_outside_the_wedge(templates, mode):
    settings = Settings() if mode is None else Settings(snr=0.05, snr_mode=mode)
    volumes = Simulator(templates, settings)(CLASSES, INDICES)
    energy = torch.fft.rfftn(volumes, dim=(1, 2, 3)).abs().double().square() * occurrences(32)
    for reached in (wedge(settings), band(settings)):
        outside = (energy * ~reached).sum(dim=(1, 2, 3)) / energy.sum(dim=(1, 2, 3))
        assert float(outside.max()) < 1e-12


def test_volumes_are_standardised(templates):
    volumes = Simulator(templates, NOISY)(CLASSES, INDICES)
    assert volumes.dtype == torch.float32
    assert volumes.shape == (12, 32, 32, 32)
    assert float(volumes.double().mean(dim=(1, 2, 3)).abs().max()) < 1e-6
    deviation = volumes.double().std(dim=(1, 2, 3), correction=0)
    torch.testing.assert_close(deviation, torch.ones(12).double(), rtol=0, atol=1e-6)


def test_particles_are_dark(templates):
    """Near the centre, where the particle is, values lie below the mean."""
    volumes = Simulator(templates, Settings(shift_voxels=0.0))(torch.tensor([4] * 12), INDICES)
    assert float(volumes[:, 10:22, 10:22, 10:22].mean()) < -0.3


@pytest.mark.parametrize(
    "settings",
    [NOISY, Settings(snr=0.05, snr_mode="aitom", defocus_um=(-6.0, -2.0), neighbours=2)],
    ids=["usual", "hard"],
)
def test_a_volume_is_the_same_to_the_last_bit_in_any_company(templates, settings):
    together = Simulator(templates, settings, seed=3)(CLASSES, INDICES)
    again = Simulator(templates, settings, seed=3)
    assert torch.equal(again(CLASSES, INDICES), together)
    order = torch.tensor([7, 2, 11, 0])
    assert torch.equal(again(CLASSES[order], order), together[order])
    assert torch.equal(again(CLASSES[5:6], INDICES[5:6]), together[5:6])


def test_threads_change_nothing(templates):
    simulator, threads = Simulator(templates, NOISY), torch.get_num_threads()
    once = simulator(CLASSES[:4], INDICES[:4])
    try:
        for other in (1, 2, 3):
            torch.set_num_threads(other)
            assert torch.equal(simulator(CLASSES[:4], INDICES[:4]), once)
    finally:
        torch.set_num_threads(threads)


def test_larger_chunks_agree_but_for_rounding(templates, monkeypatch):
    """A GPU simulates many volumes at a time."""
    settings = Settings(snr=0.05, snr_mode="aitom", defocus_um=(-6.0, -2.0), neighbours=1)
    simulator = Simulator(templates, settings)
    alone = simulator(CLASSES, INDICES)
    monkeypatch.setattr("steepest.data.cryoet.simulator._CHUNK", {"cpu": 5})
    torch.testing.assert_close(simulator(CLASSES, INDICES), alone, rtol=0, atol=1e-4)


def test_a_copy_in_another_process_gives_the_same(templates):
    simulator = Simulator(templates, NOISY, seed=2, stream="test")
    copy = pickle.loads(pickle.dumps(simulator))
    assert torch.equal(copy(CLASSES[:2], INDICES[:2]), simulator(CLASSES[:2], INDICES[:2]))


def test_seeds_streams_and_noise_seeds_are_independent(templates):
    def one(**options):
        return Simulator(templates, NOISY, **options)(CLASSES[:1], INDICES[:1])[0]

    usual = one()
    for options in ({"seed": 1}, {"stream": "test"}, {"noise_seed": 1}):
        assert abs(float((one(**options) * usual).mean())) < 0.2
    clean = Simulator(templates, Settings())
    for seeds in ((0, 1), (0, 2)):
        noisy = Simulator(templates, NOISY, seed=seeds[0], noise_seed=seeds[1])
        torch.testing.assert_close(
            noisy.parts(CLASSES, INDICES)[0], clean.parts(CLASSES, INDICES)[0]
        )


def test_signal_and_noise_add_up_to_the_volume(templates):
    simulator = Simulator(templates, NOISY)
    added = sum(simulator.parts(CLASSES, INDICES))
    added /= added.std(dim=(1, 2, 3), correction=0, keepdim=True)
    torch.testing.assert_close(simulator(CLASSES, INDICES), added, rtol=0, atol=1e-4)
    assert not Simulator(templates).parts(CLASSES, INDICES)[1].any()


@pytest.mark.parametrize(
    "change", [{"shift_voxels": 6.0}, {"defocus_um": (-6.0, -2.0)}, {"neighbours": 3}]
)
def test_hard_modes_change_volumes(templates, change):
    usual, hard = Settings(), replace(Settings(), **change)
    volumes = [Simulator(templates, s)(CLASSES, INDICES) for s in (usual, hard)]
    alike = (volumes[0] * volumes[1]).mean(dim=(1, 2, 3))
    assert float(alike.mean()) < 0.998


def test_neighbours_lie_around_the_particle(templates):
    """More dark matter near the walls of the box, none in the middle."""

    def wall(settings):
        signal, _ = Simulator(templates, settings).parts(torch.full((12,), 4), INDICES)
        energy = signal.square()
        return float(energy.mean() - energy[:, 6:26, 6:26, 6:26].mean() * (20 / 32) ** 3)

    assert wall(Settings(neighbours=4)) > 2 * wall(Settings())


def test_classes_must_be_among_the_templates(templates):
    simulator = Simulator(templates)
    with pytest.raises(InputError, match=r"0\.\.4"):
        simulator(torch.tensor([5]), torch.tensor([0]))
    with pytest.raises(InputError, match="2 classes for 1 indices"):
        simulator(torch.tensor([1, 2]), torch.tensor([0]))


def test_no_indices_give_no_volumes(templates):
    none = torch.tensor([], dtype=torch.int64)
    assert Simulator(templates)(none, none).shape == (0, 32, 32, 32)


def test_fingerprints_tell_simulators_apart(templates):
    told = [
        Simulator(templates, NOISY, **options).fingerprint()
        for options in ({}, {"seed": 1}, {"stream": "test"}, {"noise_seed": 5})
    ]
    told.append(Simulator(templates).fingerprint())
    told.append(Simulator(templates.take(templates.names[:4]), NOISY).fingerprint())
    assert len(set(told)) == 6
    assert Simulator(templates, NOISY).fingerprint() == told[0]


@pytest.mark.skipif(not torch.cuda.is_available(), reason="no GPU here")
def test_a_gpu_gives_the_same_volumes_but_for_rounding(templates):
    settings = Settings(snr=0.05, neighbours=1)
    here = Simulator(templates, settings)(CLASSES, INDICES)
    there = Simulator(templates, settings, device="cuda")(CLASSES, INDICES)
    torch.testing.assert_close(there.cpu(), here, rtol=0, atol=1e-3)
