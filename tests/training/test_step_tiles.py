"""How tensors are shared out among the programs of a kernel."""

from __future__ import annotations

import pytest

from steepest.training.fast.kernels import tiles

SIZES = [(2, 1), (70, 10), (2048, 512), (8192, 256), (32768, 128), (70001, 33), (131072, 64)]


def is_power(number):
    return number > 0 and number & (number - 1) == 0


@pytest.mark.parametrize(("rows", "channels"), SIZES)
@pytest.mark.parametrize("kind", ["moments", "gradients", "written"])
def test_every_row_is_summed_by_one_program(rows, channels, kind):
    how = getattr(tiles.choice_for(rows), kind)
    sums = tiles.sums_for(rows, channels, how)
    # No part is empty, or a mean of no rows would be added up.
    assert (sums.parts - 1) * sums.rows < rows <= sums.parts * sums.rows
    assert (sums.columns - 1) * sums.channels < channels <= sums.columns * sums.channels
    assert sums.rows % sums.block_rows == 0
    assert sums.parts * sums.columns <= max(how.programs, sums.columns)
    assert is_power(sums.block_rows)
    assert is_power(sums.channels)


@pytest.mark.parametrize(("rows", "channels"), SIZES)
def test_every_row_is_written_by_one_program(rows, channels):
    part = tiles.part_for(rows, channels, tiles.choice_for(rows).applying)
    assert (part.programs - 1) * part.rows < rows <= part.programs * part.rows
    assert (part.columns - 1) * part.channels < channels <= part.columns * part.channels
    assert is_power(part.rows)
    assert is_power(part.channels)


def test_the_choice_depends_on_the_number_of_rows_alone():
    many, some, few = tiles.CHOICES
    found = [tiles.choice_for(rows) for rows in (131072, 65536, 65535, 16384, 16383, 1)]
    assert found == [many, many, some, some, few, few]


def test_only_many_shares_are_made_one_first():
    first, later = (
        tiles.sums_for(rows, channels, tiles.choice_for(rows).moments)
        for rows, channels in ((131072, 64), (2048, 512))
    )
    assert first.added_up_first
    assert not later.added_up_first


def test_powers_are_those_not_below():
    assert [tiles.power_above(n) for n in (1, 2, 3, 64, 65)] == [1, 2, 4, 64, 128]
