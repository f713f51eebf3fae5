"""The kernels of training can be compiled for a recent GPU, on a machine that has none."""

from __future__ import annotations

import pytest

pytest.importorskip("triton")

import triton
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource

from steepest.training.fast.kernels import few_channels, norm, sgd, tiles

# On Python 3.13 and later, Triton's own reading of its functions warns.
pytestmark = pytest.mark.filterwarnings("ignore:AnnAssign.__init__ missing:DeprecationWarning")

H100 = GPUTarget("cuda", 90, 32)
FLOATS = frozenset(
    (
        *("shares", "weight", "bias", "mean", "inverse", "mean_out", "inverse_out", "lr"),
        *("running_mean", "running_var", "weight_out", "bias_out", "out"),
    )
)
HALVES = frozenset(("x", "residual", "out", "first_g", "second_g", "result", "kept", "g", "x_out"))
TYPES = {"momentum": "fp32", "weight_decay": "fp32", "eps": "fp32", "table": "*i64"}
WINDOW = {"channels": 3, "kernel": 3, "stride": 1, "padding": 1, "block_k": 32}


def assembly(program, warps, halves=HALVES, **constants):
    """Return what the compiler makes of a kernel."""

    def kind(name):
        if name in constants:
            return "constexpr"
        if name in halves:
            return "*bf16"
        return TYPES.get(name, "*fp32" if name in FLOATS else "i32")

    names = program.arg_names
    signature = {name: kind(name) for name in names} | (
        {"places": "*i32"} if "places" in names else {}
    )
    aligned = [["tt.divisibility", 16]]
    attributes = {
        (i,): aligned
        for i, name in enumerate(names)
        if signature[name] not in ("constexpr", "fp32")
    }
    fixed = {(names.index(name),): value for name, value in constants.items()}
    source = ASTSource(program, signature, fixed, attributes)
    # Said aloud, because from Triton 3.9 on its default is about to change, and warns.
    options = {"num_warps": warps, "enable_fp_fusion": True}
    return triton.compile(source, target=H100, options=options).asm["ptx"]


@pytest.fixture(autouse=True)
def own_cache(tmp_path, monkeypatch):
    monkeypatch.setenv("TRITON_CACHE_DIR", str(tmp_path))


CHOICES = pytest.mark.parametrize("choice", tiles.CHOICES, ids=lambda choice: str(choice.rows))


def summing(how):
    """Return the constants of a kernel that makes sums of many rows."""
    return {"unroll": how.unroll, "block_r": how.size // how.channels, "block_c": how.channels}


def applying(choice, how):
    """Return the constants of a kernel that uses sums of many rows."""
    sums = tiles.sums_for(max(choice.rows, 4096), 256, how)
    wide = choice.applying.channels
    parts = 1 if sums.added_up_first else tiles.power_above(sums.parts)
    return {"block_p": parts, "block_r": choice.applying.size // wide, "block_c": wide}


@CHOICES
def test_sums_read_sixteen_bytes_at_a_time(choice):
    code = assembly(norm.moments, choice.moments.warps, **summing(choice.moments))
    assert "ld.global.v4" in code


@CHOICES
@pytest.mark.parametrize("residual", [False, True])
def test_normalising(choice, residual):
    options = {"has_residual": residual, "relu": True, **applying(choice, choice.moments)}
    assert "st.global.v4" in assembly(norm.normalise, choice.applying.warps, **options)


@CHOICES
@pytest.mark.parametrize("block", [False, True])
def test_gradients_of_normalising(choice, block):
    options = {"has_second": block, "has_result": block, "relu": True, "keep": block}
    how = choice.written if block else choice.gradients
    code = assembly(norm.gradient_sums, how.warps, **options, **summing(how))
    assert "ld.global.v4" in code
    options = {"relu": not block, **applying(choice, how)}
    assert "st.global.v4" in assembly(norm.gradient_of_x, choice.applying.warps, **options)


@pytest.mark.parametrize("moments", [False, True])
def test_shares_are_read_sixteen_bytes_at_a_time(moments):
    code = assembly(norm.make_one, 8, set(), are_moments=moments, block_p=512, block_c=8)
    assert "ld.global.v4" in code


def test_few_channels_use_tensor_cores():
    halves = {"x", "weight", "out", "g"}
    for program in (few_channels._forward, few_channels._weight_shares):
        code = assembly(program, 4, halves, **WINDOW, block_r=128, block_o=64)
        assert "wgmma" in code


@pytest.mark.parametrize("half", [False, True])
def test_descent_reads_sixteen_bytes_at_a_time(half):
    options = {"has_momentum": True, "nesterov": False, "is_half": half, "is_float16": False}
    code = assembly(sgd._update, 4, **options, block=2048, columns=4)
    assert "ld.global.v4" in code
    assert "st.global.v4" in code
