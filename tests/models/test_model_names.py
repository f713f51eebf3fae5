"""The names of all weights are those of published files, for one model of each family."""

from __future__ import annotations

import itertools
import re

import pytest
import torch

from steepest.models import MODELS, names

BASIC = """
conv1.weight bn1.{STATE}
layer{1,2,3,4}.{0,1}.conv{1,2}.weight
layer{1,2,3,4}.{0,1}.bn{1,2}.{STATE}
layer{2,3,4}.0.downsample.0.weight
layer{2,3,4}.0.downsample.1.{STATE}
fc.{weight,bias}
"""
BOTTLENECK = """
conv1.weight bn1.{STATE}
layer{1,4}.{0,1,2}.conv{1,2,3}.weight layer{1,4}.{0,1,2}.bn{1,2,3}.{STATE}
layer2.{0,1,2,3}.conv{1,2,3}.weight layer2.{0,1,2,3}.bn{1,2,3}.{STATE}
layer3.{0,1,2,3,4,5}.conv{1,2,3}.weight layer3.{0,1,2,3,4,5}.bn{1,2,3}.{STATE}
layer{1,2,3,4}.0.downsample.0.weight
layer{1,2,3,4}.0.downsample.1.{STATE}
fc.{weight,bias}
"""
VGG = """
features.{0,2,5,7,10,12,14,17,19,21,24,26,28}.{weight,bias}
classifier.{0,3,6}.{weight,bias}
"""
VGG_BN = """
features.{0,3,7,10,14,17,20,24,27,30,34,37,40}.{weight,bias}
features.{1,4,8,11,15,18,21,25,28,31,35,38,41}.{STATE}
classifier.{0,3,6}.{weight,bias}
"""
DRN = """
base.{0,1,2,7,8}.0.weight
base.{0,1,2,7,8}.1.{STATE}
base.{3,4,5,6}.{0,1}.conv{1,2}.weight
base.{3,4,5,6}.{0,1}.bn{1,2}.{STATE}
base.{3,4,5,6}.0.downsample.0.weight
base.{3,4,5,6}.0.downsample.1.{STATE}
seg.{weight,bias} up.weight
"""
VIT = """
class_token conv_proj.{weight,bias} encoder.pos_embedding
encoder.layers.encoder_layer_{0,1,2,3,4,5,6,7,8,9,10,11}.ln_{1,2}.{weight,bias}
encoder.layers.encoder_layer_{0,1,2,3,4,5,6,7,8,9,10,11}.self_attention.in_proj_{weight,bias}
encoder.layers.encoder_layer_{0,1,2,3,4,5,6,7,8,9,10,11}.self_attention.out_proj.{weight,bias}
encoder.layers.encoder_layer_{0,1,2,3,4,5,6,7,8,9,10,11}.mlp.{0,3}.{weight,bias}
encoder.ln.{weight,bias}
heads.head.{weight,bias}
"""
SMALL = """
features.{0,3,6}.weight
features.{1,4,7}.{STATE}
fc.{weight,bias}
"""
LITE = """
_conv_stem.weight _bn0.{STATE}
_blocks.{1,2,3,4,5,6,7,8,9,10,11,12,13,14,15}._expand_conv.weight
_blocks.{1,2,3,4,5,6,7,8,9,10,11,12,13,14,15}._bn0.{STATE}
_blocks.{0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15}._{depthwise,project}_conv.weight
_blocks.{0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15}._bn{1,2}.{STATE}
_conv_head.weight _bn1.{STATE} _fc.{weight,bias}
"""
WRITTEN = {
    "efficientnet-lite0": LITE,
    "cifar-resnet18": BASIC,
    "resnet18": BASIC,
    "resnet3d-18": BASIC,
    "cifar-resnet50": BOTTLENECK,
    "resnet50": BOTTLENECK,
    "vgg16": VGG,
    "vgg16-bn": VGG_BN,
    "drn-d-22": DRN,
    "vit-s16": VIT,
    "small-cnn": SMALL,
    "linear": "head.{weight,bias}",
    "mlp": "hidden.{0,3}.{weight,bias} fc.{weight,bias}",
}
STATE = "weight,bias,running_mean,running_var,num_batches_tracked"


def expand(written):
    """Write out every choice in braces, as a shell does."""
    listed = []
    for word in written.replace("STATE", STATE).split():
        pieces = [piece.split(",") for piece in re.split(r"[{}]", word)]
        listed += ["".join(choice) for choice in itertools.product(*pieces)]
    return listed


@pytest.mark.parametrize("name", names())
def test_the_names_of_all_weights_are_those_written_here(name):
    with torch.device("meta"):
        found = list(MODELS.get(name)(7).state_dict())
    written = expand(WRITTEN[name])
    assert sorted(found) == sorted(written)
    assert len(set(written)) == len(written)


def test_choices_are_written_out():
    assert expand("a.{0,1}.b{x,y} c") == ["a.0.bx", "a.0.by", "a.1.bx", "a.1.by", "c"]
