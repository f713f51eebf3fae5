"""The fused kernels give what plain formulas give in double precision."""

import math
import subprocess
import sys

import pytest
import torch
from torch.fx.experimental.proxy_tensor import make_fx

from steepest.errors import InputError
from steepest.gradnorm import kernels
from steepest.gradnorm.kernels.shapes import from_convolution, from_linear
from steepest.gradnorm.kernels.tiles import block_of

pytest.importorskip("triton")

from kernel_support import close, draw, expected, find, laid_out, output_size, squares
from triton_process import TritonProcess

from steepest.gradnorm.kernels.bulk import fits_bulk_copies


@pytest.fixture(scope="module")
def interpreted():
    kernels = TritonProcess(find)
    yield kernels
    kernels.close()


LINEAR = [  # N, T, K, O
    (2, 1, 16, 16),
    (3, 5, 7, 3),
    (2, 70, 20, 33),
    (1, 130, 65, 17),
]


@pytest.mark.parametrize("shape", LINEAR)
def test_a_linear_layer_either_way(interpreted, shape):
    n, t, k, o = shape
    a, g = draw(n, t, k), draw(n, t, o, seed=1)
    want, size = squares(a, g)
    close(interpreted.outer_squares(a, g, False), want)
    total, found = interpreted.gram_squares(a, g, False)
    close(total, want)
    close(found, size)


def test_half_precision_is_summed_in_single(interpreted):
    a, g = draw(2, 40, 24, dtype=torch.float16), draw(2, 40, 8, seed=1, dtype=torch.float16)
    want, size = squares(a, g)
    close(interpreted.outer_squares(a, g, True), want)
    total, found = interpreted.gram_squares(a, g, True)
    close(total, want)
    close(found, size)


def test_inputs_may_be_views_with_any_strides(interpreted):
    a = draw(3, 20, 64).transpose(1, 2)[:2, ::2, 3:]
    g = draw(2, 1, 5, seed=1).expand(2, 32, 5)
    want, _ = squares(a, g)
    close(interpreted.outer_squares(a, g, False), want)
    close(interpreted.gram_squares(a, g, False)[0], want)


def test_opposite_gradients_cancel_and_the_size_shows_it(interpreted):
    a = draw(2, 6, 8).repeat(1, 2, 1)
    g = draw(2, 6, 4, seed=1)
    total, size = interpreted.gram_squares(a, torch.cat([g, -g], 1), False)
    assert (total.abs() < 1e-5 * size).all()


CONVOLUTIONS = {  # C, O, size, kernel, stride, padding, dilation
    "three colours": (3, 8, (7, 6), (3, 3), (1, 1), (1, 1), (1, 1)),
    "one channel, large kernel": (1, 5, (9, 9), (7, 7), (2, 2), (3, 3), (1, 1)),
    "plain": (16, 16, (6, 6), (3, 3), (1, 1), (1, 1), (1, 1)),
    "uneven everything": (20, 18, (9, 8), (3, 2), (2, 1), (1, 0), (1, 2)),
    "strided": (17, 34, (8, 8), (3, 3), (2, 2), (1, 1), (1, 1)),
    "one tap": (24, 10, (5, 7), (1, 1), (1, 1), (0, 0), (1, 1)),
    "one strided tap": (16, 16, (5, 5), (1, 1), (2, 2), (0, 0), (1, 1)),
    "wide row": (18, 4, (4, 9), (1, 5), (1, 1), (0, 2), (1, 1)),
    "dilated": (16, 6, (9, 7), (3, 3), (1, 1), (2, 2), (2, 2)),
    "several blocks of positions": (16, 4, (7, 11), (2, 3), (1, 1), (1, 1), (1, 1)),
    "a sequence": (16, 6, (21,), (3,), (2,), (1,), (1,)),
    "a sequence of few channels": (2, 6, (21,), (4,), (1,), (0,), (2,)),
    "a volume": (16, 5, (2, 3, 4), (3, 3, 3), (1, 1, 1), (1, 1, 1), (1, 1, 1)),
    "an uneven volume": (17, 5, (4, 3, 5), (2, 1, 3), (2, 1, 2), (1, 0, 1), (1, 1, 2)),
    "a volume of few channels": (2, 5, (4, 4, 4), (3, 3, 3), (1, 1, 1), (1, 1, 1), (1, 1, 1)),
}


@pytest.mark.parametrize("channels_last", [False, True], ids=["contiguous", "channels last"])
@pytest.mark.parametrize("name", CONVOLUTIONS)
def test_a_convolution_either_way(interpreted, name, channels_last):
    channels, outputs, size, *window = CONVOLUTIONS[name]
    a = draw(1 if len(size) == 3 else 2, channels, *size)
    g = draw(len(a), outputs, *output_size(size, *window), seed=1)
    want, bound = expected(a, g, window)
    a, g = laid_out(a, channels_last), laid_out(g, channels_last)
    tf32 = channels_last
    total, again = interpreted.convolution_squares(a, g, *window, tf32, False)
    close(total, want)
    close(again, want)
    total, found = interpreted.convolution_squares(a, g, *window, tf32, True)
    close(total, want)
    close(found, bound)


SAME = ((3, 3), (1, 1), (1, 1), (1, 1))


@pytest.mark.parametrize("flip", [False, True])
@pytest.mark.parametrize("taps", [1, 2, 3])
def test_taps_may_share_a_program(interpreted, taps, flip):
    window = ((2, 5), (1, 2), (1, 2), (2, 1))
    a = draw(2, 18, 5, 9)
    g = draw(2, 20, *output_size((5, 9), *window), seed=1)
    got = interpreted.squares_by_rows(a, g, window, (1, 2, 8), 16, 32, taps, flip, 4, 2)
    close(got, expected(a, g, window)[0])


@pytest.mark.parametrize("positions", [16, 32, 64])
def test_blocks_of_pairs_may_have_any_size(interpreted, positions):
    a, g = draw(1, 20, 6, 7), draw(1, 5, 6, 7, seed=1)
    total, size = interpreted.squares_by_pairs(a, g, SAME, positions, 16, 4, 2)
    want, bound = expected(a, g, SAME)
    close(total, want)
    close(size, bound)


BOXES = {  # C, O, size, kernel, padding, dilation
    "plain": (72, 80, (4, 5), (3, 3), (1, 1), (1, 1)),
    "dilated, unpadded": (80, 72, (5, 9), (2, 3), (0, 1), (3, 2)),
    "one tap": (128, 72, (3, 23), (1, 1), (0, 0), (1, 1)),
    "a sequence": (72, 72, (70,), (3,), (1,), (1,)),
    "a volume": (72, 72, (2, 3, 3), (3, 1, 2), (1, 0, 1), (1, 1, 1)),
}


@pytest.mark.parametrize("name", BOXES)
def test_wide_layers_are_read_in_boxes(interpreted, name):
    channels, outputs, size, kernel, padding, dilation = BOXES[name]
    window = (kernel, (1,) * len(size), padding, dilation)
    a = laid_out(draw(2, channels, *size, dtype=torch.float16), channels_last=True)
    out = output_size(size, *window)
    g = laid_out(draw(2, outputs, *out, seed=1, dtype=torch.float16), channels_last=True)
    assert fits_bulk_copies(from_convolution(a, g, *window), a.device)
    total, _ = interpreted.convolution_squares(a, g, *window, True, False)
    close(total, expected(a, g, window)[0])


def test_boxes_need_aligned_rows_channels_last_and_single_steps():
    def fits(a, stride=(1, 1)):
        problem = from_convolution(a, a, (1, 1), stride, (0, 0), (1, 1))
        return fits_bulk_copies(problem, a.device)

    wide = laid_out(draw(2, 128, 4, 4, dtype=torch.float16), channels_last=True)
    assert fits(wide)
    assert not fits(wide, stride=(2, 2))
    assert not fits(wide.contiguous())
    assert not fits(wide.float())
    assert not fits(wide[:, :, :1, :1].expand(2, 128, 4, 4))
    assert not fits(laid_out(draw(2, 127, 4, 4, dtype=torch.float16), channels_last=True))
    assert not fits(laid_out(draw(2, 64, 4, 4, dtype=torch.float16), channels_last=True))


def test_padding_hides_what_lies_beside_the_input_in_memory(interpreted):
    around = torch.full((2, 16, 8, 8), math.nan)
    around[:, :, 2:6, 2:6] = draw(2, 16, 4, 4)
    a, g = around[:, :, 2:6, 2:6], draw(2, 16, 4, 4, seed=1)
    want, _ = expected(a, g, SAME)
    close(interpreted.convolution_squares(a, g, *SAME, True, False)[0], want)
    close(interpreted.convolution_squares(a, g, *SAME, True, True)[0], want)


SUMS = [(2, 3, 5, 7), (2, 70, 33), (1, 16, 4, 4, 4), (3, 1, 1, 1)]


@pytest.mark.parametrize("channels_last", [False, True], ids=["contiguous", "channels last"])
@pytest.mark.parametrize("shape", SUMS)
def test_sums_by_channel(interpreted, shape, channels_last):
    x, g = draw(*shape, dtype=torch.bfloat16), draw(*shape, seed=1, dtype=torch.bfloat16)
    x, g = laid_out(x, channels_last), laid_out(g, channels_last)
    products, plain = interpreted.channel_sums(x, g)
    want = (x.double() * g.double()).flatten(2).sum(2)
    torch.testing.assert_close(products.double(), want, rtol=1e-5, atol=1e-5)
    torch.testing.assert_close(plain.double(), g.double().flatten(2).sum(2), rtol=1e-5, atol=1e-5)


def test_layouts_may_differ(interpreted):
    x, g = draw(2, 6, 4, 5), laid_out(draw(2, 6, 4, 5, seed=1), channels_last=True)
    products, _ = interpreted.channel_sums(x, g)
    torch.testing.assert_close(products, (x * g).sum((2, 3)), rtol=1e-4, atol=1e-5)


def test_the_operators_trace_without_running():
    def total(a, g):
        first, _ = kernels.convolution_squares(a, g, *SAME, True, False)
        second, size = kernels.convolution_squares(a, g, *SAME, True, True)
        products, plain = kernels.channel_sums(g, g)
        rows = g.flatten(2).transpose(1, 2)
        third = kernels.outer_squares(rows, rows, True) + kernels.gram_squares(rows, rows, True)[0]
        return first + second + size + third + products.sum(1) + plain.sum(1)

    traced = make_fx(total, tracing_mode="fake")(draw(2, 3, 8, 8), draw(2, 4, 8, 8))
    called = {str(node.target) for node in traced.graph.nodes if "steepest" in str(node.target)}
    assert called == {
        "steepest.convolution_outer_squares.default",
        "steepest.convolution_gram_squares.default",
        "steepest.channel_sums.default",
        "steepest.outer_squares.default",
        "steepest.gram_squares.default",
    }


def test_results_have_the_promised_shapes_in_a_trace():
    with torch._subclasses.FakeTensorMode():
        a, g = torch.empty(4, 3, 8, 8), torch.empty(4, 5, 8, 8, dtype=torch.bfloat16)
        for gram in (False, True):
            for result in kernels.convolution_squares(a, g, *SAME, True, gram):
                assert result.shape == (4,)
                assert result.dtype == torch.float32
        assert [x.shape for x in kernels.channel_sums(g, g)] == [(4, 5), (4, 5)]


def test_plain_cpu_tensors_are_not_taken():
    assert not kernels.available(draw(2, 2))


def test_only_common_precisions_are_taken(interpreted):
    assert interpreted.available(draw(2, 2))
    assert interpreted.available(draw(2, 2, dtype=torch.bfloat16))
    assert not interpreted.available(draw(2, 2, dtype=torch.float64))


def test_the_package_imports_without_triton():
    program = (
        "import sys; sys.modules['triton'] = None\n"
        "import torch; from steepest.gradnorm import kernels\n"
        "print(kernels.available(torch.ones(2)))"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == "False"


def test_a_window_of_the_wrong_rank_is_an_error():
    a = draw(2, 3, 8, 8)
    with pytest.raises(InputError, match="one number per dimension"):
        kernels.convolution_squares(a, a, (3,), (1,), (1,), (1,), False, False)


def test_different_precisions_are_an_error():
    with pytest.raises(InputError, match="convert one"):
        kernels.outer_squares(draw(2, 3, 4), draw(2, 3, 4).half(), True)


def test_a_sample_beyond_32_bits_is_an_error():
    a = torch.empty(1, 2**16, 2**16, device="meta")
    with pytest.raises(InputError, match="too large"):
        from_linear(a, a)


@pytest.mark.parametrize(
    ("size", "most"),
    [((32, 32), 16), ((14, 14), 4), ((7, 7), 1), ((1, 197), 4), ((2, 3, 40), 5)],
)
def test_blocks_of_64_positions_waste_little(size, most):
    a = torch.empty(2, 16, *size)
    ones = (1,) * len(size)
    problem = from_convolution(a, a, (3,) * len(size), ones, ones, ones)
    block = block_of(problem, 64)
    assert math.prod(block) == 64
    counts = [-(-s // b) for s, b in zip(problem.g.spatial, block, strict=True)]
    assert math.prod(counts) == most


@pytest.mark.parametrize(
    ("positions", "fan_in", "fan_out", "taps", "gram"),
    [
        (1024, 27, 64, 9, False),
        (1024, 576, 64, 9, False),
        (256, 1152, 128, 9, False),
        (64, 2304, 256, 9, True),
        (64, 128, 256, 1, True),
        (16, 4608, 512, 9, True),
        (196, 4608, 512, 9, True),
        (196, 2304, 256, 9, False),
        (197, 384, 384, 1, False),
        (128, 768, 3072, 1, True),
        (3136, 64, 256, 1, False),
    ],
)
def test_the_faster_way_is_the_measured_one(positions, fan_in, fan_out, taps, gram):
    assert kernels.prefer_gram(positions, fan_in, fan_out, taps) == gram
