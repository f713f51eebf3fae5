"""Thinned networks: one set of masks for all samples, whichever way the model is run."""

from __future__ import annotations

import gc

import pytest
import torch
from model_state import same, snapshot
from thinned import all_draws, images, settled
from torch import nn

from steepest.core.seeds import generator
from steepest.errors import ModelError
from steepest.models import build, extract_features
from steepest.modules import draws
from steepest.modules.draws import dropout_draws


def test_a_draw_is_the_model_with_masked_features():
    model = settled(build("small-cnn", 3, 1, 0, {"dropout": "head", "dropout_rate": 0.3}))
    x = images(5, 1, 8, 8)
    features = model.avgpool(model.features(x)).flatten(1)
    for draw, logits in enumerate(dropout_draws(model, x, 3, seed=9)):
        keep = torch.rand(64, generator=generator(9, "dropout", "dropout", draw)) >= 0.3
        torch.testing.assert_close(logits, model.fc(features * keep / 0.7).detach())


@pytest.mark.parametrize("placement", ["head", "blocks"])
def test_masks_are_the_same_for_any_batch(placement):
    model = settled(build("small-cnn", 3, 1, 0, {"dropout": placement}))
    x = images(6, 1, 8, 8)
    whole = all_draws(model, x)
    parts = [all_draws(model, x[rows]) for rows in (slice(0, 1), slice(1, 4), slice(4, 6))]
    torch.testing.assert_close(torch.cat(parts, 1), whole)
    twins = all_draws(model, x[:1].repeat(3, 1, 1, 1))
    torch.testing.assert_close(twins[:, 0], twins[:, 2])
    assert whole.std(0).min() > 0


def test_seeds_and_draws_differ_and_more_draws_continue_fewer():
    model = settled(build("small-cnn", 3, 1, 0, {"dropout": "head"}))
    x = images(2, 1, 8, 8)
    few, many, other = all_draws(model, x, 3), all_draws(model, x, 8), all_draws(model, x, 3, 6)
    assert torch.equal(many[:3], few)
    assert not torch.equal(other, few)
    assert torch.equal(all_draws(model, x, 3), few)


@pytest.mark.parametrize("layer", [nn.Dropout1d, nn.Dropout2d, nn.Dropout3d])
def test_channels_are_dropped_as_a_whole(layer):
    ndim = {nn.Dropout1d: 3, nn.Dropout2d: 4, nn.Dropout3d: 5}[layer]
    model = nn.Sequential(layer(0.5), nn.Identity()).eval()
    x = torch.ones(3, 8, *[4] * (ndim - 2))
    for logits in dropout_draws(model, x, 3, 0):
        assert set(logits.unique().tolist()) == {0.0, 2.0}
        assert torch.equal(logits, logits[:1, :, *[slice(0, 1)] * (ndim - 2)].expand_as(logits))
        assert 0 < logits[0].flatten(1)[:, 0].sum() < 16


def test_alpha_dropout_keeps_mean_and_spread():
    model = nn.Sequential(nn.AlphaDropout(0.4)).eval()
    x = images(2, 40_000)
    (logits,) = dropout_draws(model, x, 1, 0)
    assert abs(logits.mean()) < 0.02
    assert logits.std() == pytest.approx(1, abs=0.02)
    dropped = (logits[0] == logits[0].mode().values).double().mean()
    assert dropped == pytest.approx(0.4, abs=0.02)


class Twice(nn.Module):
    def __init__(self):
        super().__init__()
        self.drop = nn.Dropout(0.5)

    def forward(self, x):
        return torch.cat([self.drop(x), self.drop(x)], dim=1)


def test_a_layer_that_runs_twice_has_a_mask_for_each_call():
    first, second = next(dropout_draws(Twice().eval(), torch.ones(2, 32), 1, 0)).chunk(2, dim=1)
    assert not torch.equal(first, second)
    again = next(dropout_draws(Twice().eval(), torch.ones(2, 32), 1, 0))
    assert torch.equal(again, torch.cat([first, second], dim=1))


def test_rates_of_zero_and_one():
    model = settled(build("small-cnn", 3, 1, 0, {"dropout": "head", "dropout_rate": 0.0}))
    x = images(2, 1, 8, 8)
    assert torch.equal(all_draws(model, x), model(x).detach().expand(4, -1, -1))
    for layer in (nn.Dropout(1.0), nn.AlphaDropout(1.0)):
        assert not next(dropout_draws(nn.Sequential(layer).eval(), x[:, 0], 1, 0)).any()


def test_layers_that_drop_by_themselves_or_in_place_drop_the_mask_alone():
    class Always(nn.Dropout):
        def forward(self, x):
            return nn.functional.dropout(x, self.p, training=True)

    x = torch.ones(2, 50)
    plain = all_draws(nn.Sequential(nn.Dropout(0.5), nn.Identity()).eval(), x)
    assert torch.equal(all_draws(nn.Sequential(Always(0.5), nn.Identity()).eval(), x), plain)
    inside = nn.Sequential(nn.Dropout(0.5, inplace=True), nn.Identity()).eval()
    assert torch.equal(all_draws(inside, x), plain)
    assert torch.equal(x, torch.ones(2, 50))


class Careless(nn.Module):
    """Relies on dropout in place, and does not take what it returns."""

    def __init__(self):
        super().__init__()
        self.body, self.drop = nn.Identity(), nn.Dropout(0.5, inplace=True)
        self.fc = nn.Identity()

    def forward(self, x):
        h = self.body(x) * 1
        self.drop(h)
        return self.fc(h)


def test_dropout_in_place_reaches_those_who_hold_the_tensor():
    found = all_draws(Careless().eval(), torch.ones(2, 50))
    assert set(found.unique().tolist()) == {0.0, 2.0}
    assert len({tuple(f[0].tolist()) for f in found}) == 4


def test_the_model_is_as_found_between_draws_and_after_an_error():
    model = settled(build("small-cnn", 3, 1, 0, {"dropout": "blocks"}))
    x = images(2, 1, 8, 8)
    before, plain = snapshot(model), model(x).detach()
    iterator = dropout_draws(model, x, 3, 0)
    first = next(iterator)
    assert torch.equal(model(x), plain)
    assert not torch.equal(first, plain)
    with pytest.raises(ModelError, match="failed on inputs"):
        list(dropout_draws(model, x[:, :, 0], 2, 0))
    list(iterator)
    assert same(snapshot(model), before)


def test_inference_mode_and_gradients_do_not_matter():
    model = settled(build("small-cnn", 3, 1, 0, {"dropout": "head"}))
    x = images(2, 1, 8, 8)
    wanted = all_draws(model, x)
    with torch.inference_mode():
        assert torch.equal(all_draws(model, x.clone()), wanted)
    assert not next(dropout_draws(model, x.requires_grad_(), 1, 0)).requires_grad


def test_a_model_without_dropout_layers_says_the_remedy():
    with pytest.raises(ModelError, match="--model-option dropout=head"):
        dropout_draws(build("small-cnn", 3, 1, 0).eval(), images(2, 1, 8, 8), 2, 0)


def test_a_model_of_the_users_own_is_told_of_no_option_that_it_may_not_have():
    with pytest.raises(ModelError, match=r"Linear has no dropout .* nn\.Dropout") as caught:
        dropout_draws(nn.Linear(4, 3).eval(), images(2, 4), 2, 0)
    assert "--model-option" not in str(caught.value)


def test_a_model_in_training_mode_is_refused():
    model = build("small-cnn", 3, 1, 0, {"dropout": "head"})
    with pytest.raises(ModelError, match=r"model\.eval\(\)"):
        dropout_draws(model, images(2, 1, 8, 8), 2, 0)


class Aside(nn.Module):
    """Has a dropout layer that never runs."""

    def __init__(self):
        super().__init__()
        self.drop, self.fc = nn.Dropout(0.5), nn.Linear(4, 3)

    def forward(self, x):
        return self.fc(nn.functional.dropout(x, 0.5, training=self.training))


def test_dropout_layers_that_never_run_are_an_error():
    with pytest.raises(ModelError, match="none of the model's dropout layers runs"):
        list(dropout_draws(Aside().eval(), torch.ones(2, 4), 2, 0))


class Tokens(nn.Module):
    def __init__(self):
        super().__init__()
        self.drop = nn.Dropout(0.5)

    def forward(self, x):
        return self.drop(x.transpose(0, 1))[0]


def test_activations_without_a_row_for_each_sample_are_refused():
    with pytest.raises(ModelError, match=r"'drop' reads \[5, 2, 4\], not a row"):
        list(dropout_draws(Tokens().eval(), torch.ones(2, 5, 4), 2, 0))


def test_masks_are_remembered_within_bounds_and_gone_with_the_model(monkeypatch):
    model = settled(build("small-cnn", 3, 1, 0, {"dropout": "head"}))
    x = images(2, 1, 8, 8)
    wanted = all_draws(model, x, 4)
    made = []
    original = draws.generator
    monkeypatch.setattr(draws, "generator", lambda *p: made.append(p) or original(*p))
    assert torch.equal(all_draws(model, x, 4), wanted)
    assert not made
    monkeypatch.setattr(draws, "_LIMIT_BYTES", 4 * 64)
    all_draws(model, x, 6)
    assert [p[-1] for p in made] == [4, 5]
    all_draws(model, x, 6)
    assert len(made) == 4
    gc.collect()  # models of earlier tests may be waiting for it
    known = len(draws._MASKS)
    del model
    gc.collect()
    assert len(draws._MASKS) == known - 1


class Padded(nn.Module):
    """A transformer that reads zeros as padding; fused, it would pack its samples."""

    block_layers = ("encoder.layers.0",)

    def __init__(self):
        super().__init__()
        layer = nn.TransformerEncoderLayer(4, 2, 8, dropout=0.3, batch_first=True)
        self.encoder, self.head = nn.TransformerEncoder(layer, 1), nn.Linear(4, 3)

    def forward(self, x):
        padding = x[..., 0] == 0
        return self.head(self.encoder(x, src_key_padding_mask=padding)[:, 0])


def test_fused_attention_does_not_hide_the_layers_within():
    torch.manual_seed(0)
    model, x = Padded().eval(), images(5, 6, 4).float()
    x[3:, 4:] = 0
    draws = all_draws(model, x)
    torch.testing.assert_close(draws[:, 3:], all_draws(model, x[3:]))
    assert draws.std(0).min() > 0
    assert extract_features(model, x, maps=True).maps[0].shape == (5, 6, 4)
    assert torch.backends.mha.get_fastpath_enabled()
