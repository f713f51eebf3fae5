from __future__ import annotations

import pytest
import torch
from model_state import same, snapshot
from torch import nn

from steepest.errors import InputError, ModelError
from steepest.models import MODELS, build, extract_features
from steepest.models.vit_s16 import VisionTransformer


def draw(*shape):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(0))


def sketch(name, **options):
    """Build a model that has shapes but no weights."""
    with torch.device("meta"):
        return MODELS.get(name)(7, 3, **options).eval()


def square(dims, sides, expansion=1):
    widths = (64, 128, 256, 512)
    return [(w * expansion, *[s] * dims) for w, s in zip(widths, sides, strict=True)]


@pytest.mark.parametrize(
    ("name", "shape", "width", "maps"),
    [
        ("cifar-resnet18", (32, 32), 512, square(2, (32, 16, 8, 4))),
        ("resnet18", (224, 224), 512, square(2, (56, 28, 14, 7))),
        ("cifar-resnet50", (32, 32), 2048, square(2, (32, 16, 8, 4), expansion=4)),
        ("resnet3d-18", (32, 32, 32), 512, square(3, (16, 8, 4, 2))),
        ("drn-d-22", (64, 48), 512, [(64, 16, 12), (128, 8, 6), (256, 8, 6), (512, 8, 6)]),
        ("vgg16", (224, 224), 4096, [(128, 56, 56), (256, 28, 28), (512, 14, 14), (512, 7, 7)]),
        ("vgg16-bn", (64, 64), 4096, [(128, 16, 16), (256, 8, 8), (512, 4, 4), (512, 2, 2)]),
        (
            "efficientnet-lite0",
            (61, 64),
            1280,
            [(24, 16, 16), (40, 8, 8), (112, 4, 4), (320, 2, 2)],
        ),
        ("small-cnn", (8, 8), 64, [(16, 8, 8), (32, 4, 4), (64, 2, 2)]),
    ],
)
def test_our_models_say_where_their_features_are(name, shape, width, maps):
    x = torch.empty(2, 3, *shape, device="meta")
    for placement in ("none", "head"):
        model = sketch(name, dropout=placement)
        found = extract_features(model, x, maps=True)
        assert found.logits.shape == model(x).shape
        assert list(found.penultimate.shape) == [2, width]
        assert [tuple(m.shape[1:]) for m in found.maps] == maps


def test_the_feature_is_what_the_head_reads():
    model = build("small-cnn", 5, 3, 0).eval()
    x = draw(4, 3, 8, 8)
    found = extract_features(model, x, maps=True)
    with torch.no_grad():
        assert torch.equal(model(x), found.logits)
        assert torch.equal(model.fc(found.penultimate), found.logits)
        assert torch.equal(model.features(x), found.maps[-1])
        assert torch.equal(model.features[:3](x), found.maps[0])
    assert extract_features(model, x).maps == ()


def test_the_feature_of_a_segmentation_net_is_the_mean_of_its_last_map():
    model = build("drn-d-22", 3, 1, 0).eval()
    x = draw(2, 1, 16, 24)
    with torch.no_grad():
        wanted = model.base(x).mean((2, 3))
    found = extract_features(model, x)
    torch.testing.assert_close(found.penultimate, wanted)
    assert list(found.logits.shape) == [2, 3, 16, 24]


@pytest.fixture
def small_vit():
    with torch.random.fork_rng(devices=[]):
        torch.default_generator.manual_seed(0)
        model = VisionTransformer(5, 1, image_size=32, width=24, depth=2, heads=3, mlp_width=48)
    return model.eval()


def test_the_feature_of_a_transformer_is_its_class_token(small_vit):
    found = extract_features(small_vit, draw(2, 1, 32, 32))
    assert list(found.penultimate.shape) == [2, 24]
    torch.testing.assert_close(small_vit.heads(found.penultimate), found.logits)


def test_a_transformer_has_no_maps_but_named_layers(small_vit):
    x = draw(2, 1, 32, 32)
    with pytest.raises(ModelError, match=r"VisionTransformer does not say which blocks .*blocks="):
        extract_features(small_vit, x, maps=True)
    layer = "encoder.layers.encoder_layer_0"
    found = extract_features(small_vit, x, maps=True, blocks=layer)
    assert [list(m.shape) for m in found.maps] == [[2, 5, 24]]


@pytest.mark.parametrize("context", [torch.no_grad, torch.enable_grad, torch.inference_mode])
def test_features_are_detached_in_every_mode(context):
    model = build("small-cnn", 5, 1, 0).eval()
    x = draw(2, 1, 8, 8)
    with context():
        found = extract_features(model, x, maps=True)
    with torch.no_grad():
        assert torch.equal(found.logits, model(x))
        assert torch.equal(found.maps[0], model.features[:3](x))
    assert not any(t.requires_grad for t in (found.logits, found.penultimate, *found.maps))


@pytest.mark.parametrize("detach", [True, False])
def test_detached_features_cost_no_graph(detach):
    model, seen = build("small-cnn", 5, 1, 0).eval(), []
    model.fc.register_forward_hook(lambda *_: seen.append(torch.is_grad_enabled()))
    extract_features(model, draw(2, 1, 8, 8), detach=detach)
    assert seen == [not detach]


def test_gradients_flow_if_asked():
    model = build("small-cnn", 5, 1, 0)
    x = draw(4, 1, 8, 8)
    found = extract_features(model, x, maps=True, detach=False)
    first = model.get_parameter("features.0.weight")
    for tensor in (found.logits, found.penultimate, *found.maps):
        (slope,) = torch.autograd.grad(tensor.square().sum(), first, retain_graph=True)
        assert slope.abs().sum() > 0
    plain = torch.autograd.grad(model(x).square().sum(), first)[0]
    again = torch.autograd.grad(found.logits.square().sum(), first)[0]
    torch.testing.assert_close(again, plain)
    with torch.no_grad():
        assert not extract_features(model, x, detach=False).logits.requires_grad


def test_the_batch_split_does_not_matter():
    model = build("cifar-resnet18", 5, 3, 0).eval()
    x = draw(4, 3, 8, 8)
    whole = extract_features(model, x, maps=True)
    parts = [extract_features(model, x[i : i + 2], maps=True) for i in (0, 2)]
    torch.testing.assert_close(torch.cat([p.penultimate for p in parts]), whole.penultimate)
    for i, part in enumerate(whole.maps):
        torch.testing.assert_close(torch.cat([p.maps[i] for p in parts]), part)


class Own(nn.Module):
    """A user's model that knows nothing of us."""

    fail = False

    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(6, 4), nn.BatchNorm1d(4), nn.ReLU())
        self.out = nn.Linear(4, 3)

    def forward(self, x):
        z = self.out(self.body(x))
        if self.fail:
            raise RuntimeError("broken")
        return {"logits": z, "loss": z.sum()}


@pytest.fixture
def marked():
    """Return a model whose flags and gradients would show every change."""
    model = Own().eval()
    model.out.weight.requires_grad_(False)
    model.out.bias.grad = torch.ones(3)
    model.body[2].train()
    return model


@pytest.mark.parametrize("name", [None, "out"])
def test_a_model_is_left_as_found(marked, name):
    before = snapshot(marked)
    found = extract_features(marked, draw(2, 6), maps=True, blocks=("body",), penultimate=name)
    assert same(snapshot(marked), before)
    torch.testing.assert_close(found.penultimate, found.maps[0])
    torch.testing.assert_close(found.logits, marked.out(found.penultimate))


@pytest.mark.parametrize("name", [None, "out"])
@pytest.mark.parametrize("detach", [True, False])
def test_a_model_that_fails_is_left_as_found(marked, name, detach):
    marked.fail = True
    before = snapshot(marked)
    options = {"penultimate": name, "detach": detach}
    with pytest.raises(ModelError, match="the model failed on inputs"):
        extract_features(marked, draw(2, 6), maps=True, blocks=("body",), **options)
    assert same(snapshot(marked), before)


def test_a_model_that_writes_into_its_inputs_gets_copies():
    class Centred(nn.Sequential):
        def forward(self, x):
            x -= 0.5
            return super().forward(x)

    model, x = Centred(nn.Linear(4, 5), nn.Tanh(), nn.Linear(5, 3)).eval(), draw(6, 4)
    found = extract_features(model, x)
    assert torch.equal(x, draw(6, 4))
    torch.testing.assert_close(found.penultimate, model[:2](draw(6, 4)).detach())


def test_a_model_runs_in_the_mode_that_it_is_in():
    model = Own().train()
    before = model.body[1].running_mean.clone()
    extract_features(model, draw(4, 6), penultimate="out")
    assert not torch.equal(model.body[1].running_mean, before)
    assert model.training


def test_a_model_may_name_its_layers_itself():
    model = Own().eval()
    model.head_layers = ["body.0"]
    model.block_layers = ("out",)
    x = draw(2, 6)
    found = extract_features(model, x, maps=True)
    assert torch.equal(found.penultimate, x)
    assert torch.equal(found.maps[0], found.logits)


def test_an_attribute_that_happens_to_have_the_name_is_passed_over():
    model = Own().eval()
    model.head_layers = nn.ModuleList([nn.Linear(2, 2)])
    assert list(extract_features(model, draw(2, 6)).penultimate.shape) == [2, 4]


def test_a_compiled_model_is_looked_into():
    class Compiled(nn.Module):
        def __init__(self, model):
            super().__init__()
            self._orig_mod = model

    model = build("small-cnn", 5, 1, 0).eval()
    found = extract_features(Compiled(model), draw(2, 1, 8, 8), maps=True)
    assert len(found.maps) == 3


@pytest.mark.parametrize("layer", [{"penultimate": "uot"}, {"maps": True, "blocks": ["uot"]}])
def test_an_unknown_layer_says_the_nearest(layer):
    with pytest.raises(InputError, match=r"no layer 'uot': did you mean 'out'\?"):
        extract_features(Own().eval(), draw(2, 6), **layer)


class Odd(nn.Module):
    """Uses one layer twice, one never, and changes an output in place."""

    def __init__(self):
        super().__init__()
        self.twice, self.never = nn.Linear(4, 4), nn.Linear(4, 4)
        self.changed, self.mixing = nn.Linear(4, 4), nn.Identity()
        self.out = nn.Linear(4, 3)

    def forward(self, x):
        x = self.changed(self.twice(self.twice(x))).relu_()
        self.mixing(x.flatten())
        return self.out(x)


@pytest.mark.parametrize(
    ("layer", "message"),
    [
        ("twice", "'twice' ran 2 times in one pass"),
        ("never", "'never' ran 0 times in one pass"),
        ("changed", "'changed' makes is changed in place behind it"),
        ("mixing", r"'mixing' makes \[8\], not a row for each of the 2 samples"),
    ],
)
def test_layers_that_cannot_be_told_are_refused(layer, message):
    with pytest.raises(ModelError, match=message):
        extract_features(Odd().eval(), draw(2, 4), maps=True, blocks=[layer])


def test_a_later_change_does_not_reach_a_map_in_inference_mode():
    model = Odd().eval()
    with torch.inference_mode():
        found = extract_features(model, draw(2, 4), maps=True, blocks=["changed"])
    assert found.maps[0].min() < 0
    torch.testing.assert_close(found.maps[0].relu(), found.penultimate)


def test_a_named_linear_layer_on_tokens_gives_their_mean():
    class Tokens(nn.Module):
        def __init__(self):
            super().__init__()
            self.out = nn.Linear(6, 3)

        def forward(self, x):
            return self.out(input=x).transpose(1, 2)

    x = draw(2, 5, 6)
    found = extract_features(Tokens().eval(), x, penultimate="out")
    torch.testing.assert_close(found.penultimate, x.mean(1))


@pytest.mark.parametrize("keep", ["last", "mean"])
def test_padding_is_no_part_of_a_feature(keep):
    class Tokens(nn.Module):
        def __init__(self):
            super().__init__()
            self.out = nn.Linear(6, 3)

        def forward(self, tokens, mask):
            logits = self.out(tokens)
            if keep == "last":
                return logits[torch.arange(len(mask)), mask.sum(1) - 1]
            logits *= mask[..., None]
            return logits.sum(1) / mask.sum(1, keepdim=True)

    model, tokens, length = Tokens().eval(), draw(3, 5, 6), [5, 2, 3]
    mask = (torch.arange(5) < torch.tensor(length)[:, None]).long()
    found = extract_features(model, {"tokens": tokens, "mask": mask}, penultimate="out")
    torch.testing.assert_close(model.out(found.penultimate), found.logits)
    assert not found.logits.requires_grad
    assert torch.is_grad_enabled()
    wanted = [
        t[n - 1] if keep == "last" else t[:n].mean(0) for t, n in zip(tokens, length, strict=True)
    ]
    torch.testing.assert_close(found.penultimate, torch.stack(wanted))
