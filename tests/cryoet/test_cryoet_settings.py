from __future__ import annotations

import dataclasses

import pytest

from steepest.data.cryoet import Settings
from steepest.errors import InputError, UnknownNameError


def test_the_defaults_are_those_documented():
    settings = Settings()
    assert (settings.size_voxels, settings.voxel_angstrom) == (32, 10.0)
    assert (settings.max_tilt_degrees, settings.tilt_images) == (60.0, 41)
    assert settings.defocus_um == (-5.0, -5.0)
    assert settings.snr is None
    assert settings.snr_mode == "tilt"


@pytest.mark.parametrize(("kv", "angstrom"), [(100, 0.037014), (200, 0.025079), (300, 0.019687)])
def test_the_wavelength_is_that_of_the_tables(kv, angstrom):
    assert Settings(voltage_kv=kv).wavelength_angstrom == pytest.approx(angstrom, rel=1e-4)


def test_only_the_aitom_mode_has_a_low_pass_of_its_own():
    assert Settings(snr=0.05).kept_angstrom == 0.0
    assert Settings(snr=0.05, snr_mode="aitom").kept_angstrom == 40.0
    assert Settings(snr_mode="aitom").kept_angstrom == 0.0
    assert Settings(snr=0.05, snr_mode="aitom", low_pass_angstrom=25.0).kept_angstrom == 25.0


@pytest.mark.parametrize(
    "change",
    [
        {"size_voxels": 31}, {"size_voxels": 4}, {"size_voxels": 32.0}, {"size_voxels": True},
        {"voxel_angstrom": 0.0}, {"voxel_angstrom": float("nan")}, {"voxel_angstrom": "10"},
        {"shift_voxels": -1.0}, {"shift_voxels": 17.0}, {"voltage_kv": 0.0},
        {"aberration_mm": -1.0}, {"defocus_um": (-2.0, -6.0)}, {"defocus_um": (-5.0,)},
        {"defocus_um": (-5.0, float("inf"))}, {"amplitude_contrast": 1.5},
        {"envelope_nyquist": 0.0}, {"max_tilt_degrees": 91.0}, {"max_tilt_degrees": 0.0},
        {"tilt_images": 1}, {"tilt_images": 41.0}, {"snr": 0.0}, {"snr": -0.1}, {"snr": True},
        {"low_pass_angstrom": 0.0}, {"neighbours": -1}, {"neighbours": 1.0}, {"neighbours": 101},
        {"neighbour_gap_angstrom": -1.0},
    ],
)  # fmt: skip
def test_a_value_out_of_range_is_named(change):
    with pytest.raises(InputError, match=next(iter(change))):
        Settings(**change)


def test_an_unknown_mode_names_the_nearest():
    with pytest.raises(UnknownNameError, match="'tilt'"):
        Settings(snr_mode="tilts")


def test_too_few_tilts_for_the_box_are_refused():
    with pytest.raises(InputError, match="raise tilt_images"):
        Settings(tilt_images=21)
    assert Settings(size_voxels=16, tilt_images=21)


def test_equal_settings_alone_share_a_fingerprint():
    told = Settings().fingerprint()
    assert told == Settings().fingerprint()
    changed = [{"snr": 0.05}, {"shift_voxels": 6.0}, {"defocus_um": (-6.0, -2.0)}]
    assert len({told, *(Settings(**change).fingerprint() for change in changed)}) == 4


def test_settings_cannot_be_changed():
    with pytest.raises(dataclasses.FrozenInstanceError):
        Settings().snr = 0.1
