"""Brush streams and polygons against independent ways to say the same."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from steepest.errors import InputError
from steepest.labelling.exchange.vocabulary import Vocabulary
from steepest.labelling.label_studio.masks import (
    decode_brush,
    draw_map,
    encode_brush,
    fill_polygon,
    vote_map,
)

WORDS = Vocabulary("segmentation", ("road", "car"))

# Written by Label Studio's own encoder, for a mask of 3 x 5 pixels.
STREAM = [0, 0, 0, 60, 57, 27, 252, 96, 22, 255, 231, 0, 183, 255, 133, 192, 0]
MASK = np.array([[0, 1, 1, 1, 0], [0, 1, 1, 1, 0], [0, 0, 0, 0, 0]], dtype=bool)


def polygon(points, name="car", **more):
    value = {"points": points, "polygonlabels": [name]}
    size = {"original_width": 10, "original_height": 10}
    return {"type": "polygonlabels", "value": value, **size, **more}


def test_a_stream_of_label_studio_is_read():
    assert np.array_equal(decode_brush(STREAM, 3, 5), MASK)


@settings(max_examples=60, deadline=None)
@given(arrays(bool, st.tuples(st.integers(1, 9), st.integers(1, 40))))
def test_a_mask_survives_the_way_there_and_back(mask):
    assert np.array_equal(decode_brush(encode_brush(mask), *mask.shape), mask)


def test_long_runs_need_several_counters():
    mask = np.ones((300, 400), dtype=bool)
    mask[150] = False
    assert np.array_equal(decode_brush(encode_brush(mask), 300, 400), mask)


def test_words_that_are_not_repeated_are_read():
    values = [0, 0, 0, 255, 9, 9, 9, 200]  # two pixels whose opacities are 255 and 200
    bits = f"{8:032b}{7:05b}" + "".join(f"{s - 1:04b}" for s in (3, 4, 8, 16))
    bits += "0" + "00" + f"{7:03b}" + "".join(f"{v:08b}" for v in values)
    bits += "0" * (-len(bits) % 8)
    stream = [int(bits[i : i + 8], 2) for i in range(0, len(bits), 8)]
    assert decode_brush(stream, 1, 2).tolist() == [[True, True]]


@pytest.mark.parametrize(
    ("stream", "message"),
    [
        (STREAM[:9], "too early"),
        ([], "too early"),
        ([0, 0, 0, 64, *STREAM[4:]], "64 values"),
        (["a"], "list of bytes"),
        ([300], "list of bytes"),
        (None, "list of bytes"),
    ],
)
def test_a_damaged_stream_is_refused(stream, message):
    with pytest.raises(InputError, match=message):
        decode_brush(stream, 3, 5)


def test_a_stream_that_counts_too_far_is_refused():
    whole = encode_brush(np.ones((4, 4), dtype=bool))
    small = encode_brush(np.ones((1, 1), dtype=bool))
    with pytest.raises(InputError, match="more values"):
        decode_brush([*small[:4], *whole[4:]], 1, 1)


def is_inside(corners, x, y):
    """Whether a point is inside, by the angle under which it sees the corners."""
    around = np.array(corners, dtype=float) - (x, y)
    angles = np.arctan2(around[:, 1], around[:, 0])
    turns = np.diff(np.append(angles, angles[0]))
    turns = (turns + np.pi) % (2 * np.pi) - np.pi
    return abs(turns.sum()) > 1


@settings(max_examples=40, deadline=None)
@given(st.lists(st.tuples(st.integers(0, 100), st.integers(0, 100)), min_size=3, max_size=3))
def test_a_triangle_holds_the_pixels_whose_centres_it_holds(points):
    nudged = [(x + 0.123 * (i + 1), y + 0.071 * (i + 1)) for i, (x, y) in enumerate(points)]
    mask = fill_polygon(nudged, 7, 9)
    corners = [(x * 9 / 100, y * 7 / 100) for x, y in nudged]
    expected = [[is_inside(corners, c + 0.5, r + 0.5) for c in range(9)] for r in range(7)]
    assert mask.tolist() == expected


def test_a_rectangle_holds_exactly_its_pixels():
    mask = fill_polygon([[20, 10], [60, 10], [60, 50], [20, 50]], 10, 10)
    assert mask.sum() == 16
    assert mask[1:5, 2:6].all()


@pytest.mark.parametrize("points", [[], [[1, 2], [3, 4]], [[1, 2], [3], [4, 5]], [[0, 0]] * 2, 7])
def test_a_polygon_of_too_little_is_refused(points):
    with pytest.raises(InputError, match="polygon"):
        fill_polygon(points, 5, 5)


def test_later_regions_are_painted_over_earlier_ones():
    square = [[0, 0], [100, 0], [100, 100], [0, 100]]
    half = [[0, 0], [50, 0], [50, 100], [0, 100]]
    drawn = draw_map([polygon(square, "road"), polygon(half, "car")], WORDS, None)
    assert drawn[:, :5].tolist() == [[1] * 5] * 10
    assert drawn[:, 5:].tolist() == [[0] * 5] * 10


@pytest.mark.parametrize(
    ("regions", "message"),
    [
        ([{"type": "rectanglelabels"}], "rectanglelabels are no masks"),
        ([polygon([[0, 0]] * 3, original_width=None)], "how large"),
        ([polygon([[0, 0]] * 3, original_width=1 << 20, original_height=1 << 20)], "too large"),
        ([polygon([[0, 0]] * 3, original_width=1, original_height=1 << 28)], "too large"),
        ([polygon([[0, 0]] * 3), polygon([[0, 0]] * 3, original_width=9)], "different sizes"),
        ([polygon([[0, 0]] * 3, "lorry")], "unknown class 'lorry'"),
        ([], "no region"),
    ],
)
def test_regions_that_make_no_map_are_refused(regions, message):
    with pytest.raises(InputError, match=message):
        draw_map(regions, WORDS, None)


def test_votes_that_are_equal_leave_a_pixel_unknown():
    maps = [np.array([[0, 1, 1]]), np.array([[0, 0, 1]])]
    assert vote_map([lambda m=m: m.astype(np.uint8) for m in maps]).tolist() == [[0, 255, 1]]
