"""Small models of architectures that other people made; no weights are fetched."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

WORDS, LENGTH, CLASSES, SAMPLES = 60, 9, 3, 4

SMALL: dict[str, Any] = {
    "vocab_size": WORDS, "hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 2,
    "intermediate_size": 24, "max_position_embeddings": 32, "num_labels": CLASSES,
    "pad_token_id": 0, "hidden_dropout_prob": 0.0,
}  # fmt: skip
PIXELS: dict[str, Any] = {"image_size": 32, "patch_size": 8, "num_labels": CLASSES}

Built = tuple[nn.Module, Any]


def words(*, padded: bool = True) -> dict[str, Tensor]:
    draws = torch.Generator().manual_seed(1)
    ids = torch.randint(4, WORDS, (SAMPLES, LENGTH), generator=draws)
    ids[:, -1] = 3  # The end, where a model looks for one.
    mask = torch.ones_like(ids)
    if padded:
        mask[1, 5:], mask[2, 7:] = 0, 0
    return {"input_ids": ids * mask, "attention_mask": mask}


def noise(*shape: int) -> Tensor:
    return torch.randn(SAMPLES, *shape, generator=torch.Generator().manual_seed(2))


class Logits(nn.Module):
    """A model whose logits are made of what it returns."""

    def __init__(self, inner: nn.Module, read: Callable[[Any], Tensor]) -> None:
        super().__init__()
        self.inner, self.read = inner, read

    def forward(self, *given: Tensor, **named: Tensor) -> Tensor:
        return self.read(self.inner(*given, **named))


def of_words(name: str, *, padded: bool = True, **own: Any) -> Callable[[], Built]:
    def make() -> Built:
        import transformers

        config = getattr(transformers, f"{name}Config")(**{**SMALL, **own})
        model = getattr(transformers, f"{name}ForSequenceClassification")(config)
        return model, words(padded=padded)

    return make


def of_pixels(name: str, *, small: bool = True, **own: Any) -> Callable[[], Built]:
    def make() -> Built:
        import transformers

        sizes = {**SMALL, **PIXELS} if small else PIXELS
        config = getattr(transformers, f"{name}Config")(**{**sizes, **own})
        return getattr(transformers, f"{name}ForImageClassification")(config), noise(3, 32, 32)

    return make


def t5() -> Built:
    import transformers

    config = transformers.T5Config(
        vocab_size=WORDS, d_model=16, d_kv=8, d_ff=24, num_layers=2, num_heads=2
    )
    model = transformers.T5EncoderModel(config)
    return Logits(model, lambda out: out.last_hidden_state.mean(1)[:, :CLASSES]), words()


def segformer() -> Built:
    import transformers

    config = transformers.SegformerConfig(
        depths=[1] * 4, hidden_sizes=[16, 32, 64, 64], decoder_hidden_size=64, num_labels=CLASSES
    )
    return transformers.SegformerForSemanticSegmentation(config), noise(3, 64, 64)


def video(name: str, **own: Any) -> Callable[[], Built]:
    def make() -> Built:
        import transformers

        config = getattr(transformers, f"{name}Config")(**{**SMALL, **PIXELS, **own})
        return getattr(transformers, f"{name}ForVideoClassification")(config), noise(4, 3, 32, 32)

    return make


def sound(name: str, **own: Any) -> Callable[[], Built]:
    def make() -> Built:
        import transformers

        small = {
            "conv_dim": (8, 8), "conv_stride": (4, 2), "conv_kernel": (6, 3),
            "num_feat_extract_layers": 2, "num_conv_pos_embeddings": 4,
            "num_conv_pos_embedding_groups": 2, "classifier_proj_size": 8,
            "apply_spec_augment": False,
        }  # fmt: skip
        config = getattr(transformers, f"{name}Config")(**{**SMALL, **small, **own})
        return getattr(transformers, f"{name}ForSequenceClassification")(config), noise(200)

    return make


def lora() -> Built:
    from peft import LoraConfig, get_peft_model

    model, inputs = of_words("Bert")()
    return get_peft_model(model, LoraConfig(task_type="SEQ_CLS", r=2)), inputs


class Graphs(nn.Module):
    """Graphs of as many nodes, in one list; edges are pairs of numbers within a graph."""

    def __init__(self, first: nn.Module, second: nn.Module) -> None:
        super().__init__()
        self.first, self.second, self.head = first, second, nn.Linear(8, CLASSES)

    def forward(self, nodes: Tensor, edges: Tensor) -> Tensor:
        graphs, size = nodes.shape[:2]
        start = torch.arange(graphs)[:, None, None] * size
        pairs = (edges + start).transpose(0, 1).flatten(1)
        x = self.second(self.first(nodes.flatten(0, 1), pairs).relu(), pairs).relu()
        return self.head(x.unflatten(0, (graphs, size)).mean(1))


def graph(kind: str) -> Callable[[], Built]:
    def make() -> Built:
        from torch_geometric import nn as layers

        if kind == "GINConv":
            first, second = (layers.GINConv(nn.Linear(n, 8)) for n in (5, 8))
        else:
            first, second = (getattr(layers, kind)(n, 8) for n in (5, 8))
        edges = torch.randint(6, (SAMPLES, 2, 12), generator=torch.Generator().manual_seed(3))
        return Graphs(first, second), (noise(6, 5), edges)

    return make


MODELS: dict[str, Callable[[], Built]] = {
    "albert": of_words("Albert", embedding_size=8),
    "bart": of_words("Bart", padded=False, d_model=16, encoder_layers=1, decoder_layers=1,
                     encoder_ffn_dim=24, decoder_ffn_dim=24, encoder_attention_heads=2,
                     decoder_attention_heads=2, eos_token_id=3),
    "beit": of_pixels("Beit"),
    "bert": of_words("Bert"),
    "bloom": of_words("Bloom", n_layer=2, n_head=2),
    "convnext": of_pixels("ConvNext", depths=[1, 1], hidden_sizes=[8, 12], num_stages=2,
        patch_size=4),
    "deberta": of_words("DebertaV2", relative_attention=True, pos_att_type=["p2c", "c2p"]),
    "deit": of_pixels("DeiT"),
    "dinov2": of_pixels("Dinov2"),
    "distilbert": of_words("DistilBert", dim=16, n_layers=2, n_heads=2, hidden_dim=24),
    "electra": of_words("Electra", embedding_size=8),
    "fnet": of_words("FNet", padded=False),
    "gcn": graph("GCNConv"),
    "gat": graph("GATConv"),
    "gin": graph("GINConv"),
    "gpt2": of_words("GPT2", n_embd=16, n_layer=2, n_head=2),
    "gpt-neox": of_words("GPTNeoX"),
    "llama": of_words("Llama", num_key_value_heads=1),
    "lora": lora,
    "mistral": of_words("Mistral", num_key_value_heads=1),
    "mixtral": of_words("Mixtral", num_key_value_heads=1, num_local_experts=3),
    "mobilebert": of_words("MobileBert", embedding_size=8, intra_bottleneck_size=8),
    "mobilenet": of_pixels("MobileNetV2", depth_multiplier=0.25),
    "opt": of_words("OPT", ffn_dim=24, word_embed_proj_dim=16),
    "poolformer": of_pixels("PoolFormer", hidden_sizes=[8, 8, 8, 8], depths=[1, 1, 1, 1]),
    "qwen2": of_words("Qwen2", num_key_value_heads=1),
    "regnet": of_pixels("RegNet", small=False, embedding_size=8, hidden_sizes=[8, 8, 16, 16],
        depths=[1, 1, 1, 1], groups_width=4),
    "resnet": of_pixels("ResNet", small=False, embedding_size=8, hidden_sizes=[8, 8, 16, 16],
        depths=[1, 1, 1, 1]),
    "roberta": of_words("Roberta", pad_token_id=0),
    "segformer": segformer,
    "swin": of_pixels("Swin", small=False, embed_dim=8, depths=[1, 1], num_heads=[2, 2],
        window_size=2, patch_size=4),
    "swinv2": of_pixels("Swinv2", small=False, embed_dim=8, depths=[1, 1], num_heads=[2, 2],
        window_size=2, patch_size=4),
    "t5": t5,
    "timesformer": video("Timesformer", num_frames=4),
    "videomae": video("VideoMAE", num_frames=4),
    "vit": of_pixels("ViT"),
    "wav2vec2": sound("Wav2Vec2"),
}  # fmt: skip
