from __future__ import annotations

import copy

import numpy as np
import pytest
import torch

from steepest.data import SealedLabels
from steepest.data.sealed import readings_recorded
from steepest.errors import DataError, HiddenLabelError, InputError


@pytest.fixture
def sealed():
    return SealedLabels(torch.tensor([7, 3, 9]))


@pytest.mark.parametrize(
    "read",
    [
        lambda s: s[0],
        lambda s: s[:2],
        list,
        sorted,
        lambda s: 7 in s,
        lambda s: s.tolist(),
        np.asarray,
        np.array,
        lambda s: np.add(s, 1),
        lambda s: torch.zeros(3) + s,
        lambda s: torch.zeros(3).index_select(0, s),
        lambda s: torch.eye(3)[s],
    ],
)
def test_every_way_round_unseal_is_refused(sealed, read):
    with pytest.raises(HiddenLabelError, match="labeller or a named oracle analysis"):
        read(sealed)


@pytest.mark.parametrize("convert", [torch.tensor, torch.as_tensor, torch.LongTensor, torch.stack])
def test_torch_cannot_convert_sealed_labels(sealed, convert):
    # torch may refuse before it asks for an item, or replace that error by its own; what counts
    # is that no label comes out.
    with pytest.raises((HiddenLabelError, TypeError, ValueError, RuntimeError)):
        convert(sealed)


def test_length_is_no_secret(sealed):
    assert len(sealed) == 3


def test_repr_and_str_show_no_label(sealed):
    sealed.unseal("oracle labeller")
    for text in (repr(sealed), str(sealed), f"{sealed}"):
        assert "oracle labeller" in text
        assert not set(text) & {"7", "9"}


def test_unseal_returns_the_labels_and_keeps_every_purpose(sealed):
    assert sealed.purposes == ()
    assert sealed.unseal("oracle labeller").tolist() == [7, 3, 9]
    sealed.unseal("class balance analysis")
    assert sealed.purposes == ("oracle labeller", "class balance analysis")


@pytest.mark.parametrize("purpose", ["", "  ", None])
def test_unseal_without_a_purpose_is_refused(sealed, purpose):
    with pytest.raises(InputError, match="say what"):
        sealed.unseal(purpose)
    assert sealed.purposes == ()


def test_unsealed_labels_are_a_copy(sealed):
    sealed.unseal("first")[:] = 0
    assert sealed.unseal("second").tolist() == [7, 3, 9]


def test_the_given_tensor_can_change_later():
    given = torch.tensor([1, 2])
    sealed = SealedLabels(given)
    given[:] = 0
    assert sealed.unseal("check").tolist() == [1, 2]


def test_a_copy_is_sealed_too(sealed):
    other = copy.deepcopy(sealed)
    with pytest.raises(HiddenLabelError):
        other[0]
    assert other.unseal("check").tolist() == [7, 3, 9]
    assert sealed.purposes == ()


def test_fit_says_whether_labels_are_classes(sealed):
    assert sealed.fit(10)
    assert not sealed.fit(9)
    assert not SealedLabels(torch.tensor([-1])).fit(2)


@pytest.mark.parametrize("labels", [torch.tensor([1.0]), torch.zeros(2, 2, dtype=torch.int64)])
def test_labels_must_be_one_row_of_whole_numbers(labels):
    with pytest.raises(DataError, match="int64"):
        SealedLabels(labels)


def test_readings_are_recorded_for_all_labels_within_the_block_alone(sealed):
    other = SealedLabels(torch.tensor([1]))
    sealed.unseal("before")
    with readings_recorded() as outer:
        sealed.unseal("outer")
        with readings_recorded() as inner:
            other.unseal_rows([0], "inner")
        other.unseal("outer again")
    sealed.unseal("after")
    assert (outer, inner) == (["outer", "outer again"], ["inner"])
