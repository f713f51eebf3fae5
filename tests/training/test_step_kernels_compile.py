"""The kernels of training can be compiled for a recent GPU, on a machine that has none."""

from __future__ import annotations

import pytest

pytest.importorskip("triton")

import triton
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource

from steepest.training.kernels import few_channels, norm, sgd

H100 = GPUTarget("cuda", 90, 32)
FLOATS = frozenset(
    (
        *("shares", "weight", "bias", "mean", "inverse", "mean_out", "inverse_out", "lr"),
        *("running_mean", "running_var", "weight_out", "bias_out"),
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


def test_sums_read_sixteen_bytes_at_a_time():
    code = assembly(norm.moments, 8, unroll=4, block_r=128, block_c=32)
    assert "ld.global.v4" in code


@pytest.mark.parametrize("residual", [False, True])
def test_normalising(residual):
    blocks = {"block_p": 128, "block_r": 256, "block_c": 32}
    code = assembly(norm.normalise, 8, has_residual=residual, relu=True, **blocks)
    assert "st.global.v4" in code


@pytest.mark.parametrize("block", [False, True])
def test_gradients_of_normalising(block):
    options = {"has_second": block, "has_result": block, "relu": True, "keep": block}
    code = assembly(norm.gradient_sums, 8, **options, unroll=2, block_r=128, block_c=32)
    assert "ld.global.v4" in code
    blocks = {"block_p": 128, "block_r": 256, "block_c": 32}
    assert "st.global.v4" in assembly(norm.gradient_of_x, 8, relu=not block, **blocks)


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
