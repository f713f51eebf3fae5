from __future__ import annotations

import pytest
import torch

from steepest.data.cryoet import Templates, procedural_templates
from steepest.errors import DataError


def make(maps, names=("a", "b"), voxel=5.0):
    return Templates(names, names, maps, voxel, "test")


@pytest.mark.parametrize(
    ("maps", "message"),
    [
        (torch.ones(2, 4, 4, 4).double(), "float32"),
        (torch.ones(2, 4, 4), r"\[K, S, S, S\]"),
        (torch.ones(2, 4, 4, 5), r"\[K, S, S, S\]"),
        (torch.ones(3, 4, 4, 4), "3 maps, 2 names"),
        (torch.stack([torch.ones(4, 4, 4), torch.zeros(4, 4, 4)]), "'b' is empty"),
        (torch.ones(2, 4, 4, 4) - 2, "negative"),
        (torch.full((2, 4, 4, 4), torch.nan), "not finite"),
        (torch.full((2, 4, 4, 4), torch.inf), "not finite"),
    ],
)
def test_maps_that_cannot_be_templates_are_refused(maps, message):
    with pytest.raises(DataError, match=message):
        make(maps)


def test_names_are_unique_and_voxels_have_a_size():
    with pytest.raises(DataError, match="same name"):
        make(torch.ones(2, 4, 4, 4), ("a", "a"))
    with pytest.raises(DataError, match="voxels of 0"):
        make(torch.ones(2, 4, 4, 4), voxel=0.0)


def test_some_can_be_taken_in_another_order():
    maps = torch.rand(2, 4, 4, 4) + 0.1
    taken = make(maps).take(("b", "a"))
    assert taken.names == ("b", "a")
    assert torch.equal(taken.maps, maps.flip(0))
    with pytest.raises(DataError, match="'c' is not among them"):
        make(maps).take(("c",))


def test_a_radius_holds_most_of_the_mass():
    steps = (torch.arange(32) - 15.5) * 5.0
    distance = (steps[:, None, None] ** 2 + steps[:, None] ** 2 + steps**2).sqrt()
    balls = torch.stack([(distance < radius).float() for radius in (40.0, 60.0)])
    # 95 % of a ball's volume is within 0.983 of its radius.
    assert make(balls).radii_angstrom().tolist() == pytest.approx([39.3, 59.0], abs=1.5)


def test_fingerprints_tell_maps_apart():
    maps = torch.rand(2, 4, 4, 4) + 0.1
    told = make(maps).fingerprint()
    assert told == make(maps.clone()).fingerprint()
    others = [make(maps * 1.01), make(maps, ("a", "c")), make(maps, voxel=4.0)]
    assert len({told, *(other.fingerprint() for other in others)}) == 4


def test_there_are_fifty_shapes_of_the_size_of_complexes():
    shapes = procedural_templates()
    assert len(shapes) == 50
    assert repr(shapes) == "Templates(50 classes of 64³ voxels of 5 Å, procedural)"
    masses = shapes.maps.sum(dim=(1, 2, 3))
    assert 150 < float(masses.min()) < float(masses.max()) < 2500
    assert 60 < float(shapes.radii_angstrom().min()) < float(shapes.radii_angstrom().max()) < 150


def test_shapes_are_centred():
    maps = procedural_templates().maps.double()
    steps = torch.arange(64).double() - 31.5
    for axis in (1, 2, 3):
        others = [a for a in (1, 2, 3) if a != axis]
        centre = (maps.sum(dim=others) * steps).sum(dim=1) / maps.sum(dim=(1, 2, 3))
        assert float(centre.abs().max()) < 0.05


def test_shapes_can_be_told_apart_whatever_their_pose():
    """Compared are moments of inertia, and how the mass is spread over the radius."""
    shapes = procedural_templates()
    steps = (torch.arange(64).double() - 31.5) * 5.0
    grid = torch.stack(torch.meshgrid(steps, steps, steps, indexing="ij")).reshape(3, -1)
    mass = shapes.maps.reshape(50, -1).double()
    share = mass / mass.sum(dim=1, keepdim=True)
    inertia = torch.einsum("km,im,jm->kij", share, grid, grid)
    moments = torch.linalg.eigvalsh(inertia).clamp(min=0).sqrt() / 10.0
    shells = torch.nn.functional.one_hot((grid.norm(dim=0) / 10.0).long()).double()
    spread = share @ shells * 40.0
    peaks = mass.amax(dim=1, keepdim=True)
    features = torch.cat([moments, spread, 4.0 * peaks / peaks.mean()], dim=1)
    apart = torch.cdist(features, features) + 100.0 * torch.eye(50)
    first, second = divmod(int(apart.argmin()), 50)
    assert float(apart.min()) > 0.5, f"{shapes.names[first]} and {shapes.names[second]}"
