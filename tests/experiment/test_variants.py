"""Strategies with options under labels: what is understood, and what is refused."""

from __future__ import annotations

import pytest
from small import config

from steepest.errors import InputError, UnknownNameError
from steepest.experiment.variants import Variant, parse_variants, split_list, variant_tables


def parsed(text):
    return {v.label: (v.name, v.options) for v in parse_variants([text])}


def test_a_list_is_split_at_commas_outside_of_brackets_and_quotes():
    assert split_list("a, b(c=1,d=[2,3]),e(f='x,)'),,") == ["a", "b(c=1,d=[2,3])", "e(f='x,)')"]
    assert split_list(" , ") == []


def test_plain_names_labels_and_options_are_understood():
    text = "random,entropy,l2=entropy-gradnorm(norm=l2), few = egl(draws=4, norm='tensor-sum')"
    assert parsed(text) == {
        "random": ("random", None),
        "entropy": ("entropy", None),
        "l2": ("entropy-gradnorm", {"norm": "l2"}),
        "few": ("egl", {"draws": 4, "norm": "tensor-sum"}),
    }


def test_a_label_alone_renames_and_empty_brackets_mean_defaults():
    assert parsed("a=margin,b=egl()") == {"a": ("margin", None), "b": ("egl", {})}


def test_options_come_from_the_brackets_alone_and_else_from_the_configuration():
    common = config(strategy__options={"norm": "tensor-sum"})
    variants = parse_variants(["entropy-gradnorm,same=entropy-gradnorm,margin"])
    variants += parse_variants([Variant("bare", "entropy-gradnorm", {})])
    made = {v.label: v.config(common, 8) for v in variants}
    assert {label: c.strategy.options for label, c in made.items()} == {
        "entropy-gradnorm": {"norm": "tensor-sum"},
        "same": {"norm": "tensor-sum"},
        "margin": {},
        "bare": {},
    }
    assert {c.seed for c in made.values()} == {8}
    assert variant_tables(variants[1:2], common) == {
        "same": {"name": "entropy-gradnorm", "options": {"norm": "tensor-sum"}}
    }


def test_what_is_said_twice_counts_once():
    assert list(parsed("margin,l2=egl(norm=l2),margin,l2=egl(norm=l2)")) == ["margin", "l2"]


@pytest.mark.parametrize(
    ("text", "error", "message"),
    [
        ("margn", UnknownNameError, "did you mean 'margin'"),
        ("a=marginn(x=1)", UnknownNameError, "unknown strategy 'marginn'"),
        ("a=egl(drows=4)", UnknownNameError, "did you mean 'draws'"),
        ("a=egl(draws=x)", InputError, "expected int"),
        ("a=egl(draws=-1)", InputError, "draws must be 0"),
        ("a=egl(draws)", InputError, "write it as name=value"),
        ("a=egl(draws=1,draws=1)", InputError, "draws is given twice"),
        ("a=egl(draws=4", InputError, r"close it with '\)'"),
        ("a=egl(norm='l2)", InputError, 'close it with "\'"'),
        ("a=egl(draws=[4)]", InputError, "not open"),
        ("a=egl)", InputError, "not open"),
        ("a=egl(draws=4)x", InputError, "LABEL=NAME"),
        ("egl(draws=4)", InputError, r"write LABEL=egl\(draws=4\)"),
        ("a=egl(draws=1),a=egl(draws=2)", InputError, "'a' is given twice"),
        ("margin,margin=margin()", InputError, "'margin' is given twice"),
        ("random=margin", InputError, "name of another strategy"),
        ("entropy=margin", InputError, "choose another label"),
        ("=margin", InputError, "label ''"),
        ("a=", UnknownNameError, "unknown strategy ''"),
    ],
)
def test_what_is_not_a_variant_is_refused_in_one_line(text, error, message):
    with pytest.raises(error, match=message) as caught:
        parse_variants([text])
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    "label", ["..", ".", ".hidden", "a/b", "../a", "/a", "a\\b", "a b", "a:b", "-a", "ä", "a" * 101]
)
def test_a_label_stays_in_its_folder(label):
    with pytest.raises(InputError, match="letters, digits"):
        Variant(label, "margin")


@pytest.mark.parametrize("label", ["a", "7", "A-b_c.d+e", "a..b", "a" * 100])
def test_usual_labels_are_taken(label):
    assert parsed(f"{label}=margin") == {label: ("margin", None)}
