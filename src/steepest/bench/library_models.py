"""Models that measurements load: small ones of the kinds that libraries hold, and two large ones.

Each takes one tensor. Models of other packages are made from their configurations.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.nn.utils.rnn import pack_padded_sequence

from steepest.models.resnet import ResNet3d18

WORDS = 500
_TEXT: dict[str, Any] = {
    "vocab_size": WORDS, "hidden_size": 128, "num_hidden_layers": 4, "num_attention_heads": 4,
    "intermediate_size": 256, "pad_token_id": 0,
}  # fmt: skip


def _from(package: str, name: str) -> Any:  # noqa: ANN401 - of a package that may be absent
    return getattr(import_module(package), name)


def mlp(classes: int) -> nn.Module:
    """Make three linear layers on 64 features."""
    sizes = (nn.Linear(64, 256), nn.ReLU(), nn.Linear(256, 256), nn.ReLU())
    return nn.Sequential(*sizes, nn.Linear(256, classes))


class Reader(nn.Module):
    """An LSTM on words [N, T], whole or packed by lengths that the first words give.

    Args:
        classes: The number of classes.
        packed: Whether texts have their own lengths.
    """

    def __init__(self, classes: int, *, packed: bool) -> None:
        super().__init__()
        self.words, self.read = nn.Embedding(WORDS, 64), nn.LSTM(64, 128, batch_first=True)
        self.head, self.packed = nn.Linear(128, classes), packed

    def forward(self, words: Tensor) -> Tensor:
        """Map words [N, T] to logits [N, classes]."""
        inputs: Any = self.words(words)
        if self.packed:
            lengths = _lengths(words)[:, 0].cpu()
            inputs = pack_padded_sequence(inputs, lengths, batch_first=True, enforce_sorted=False)
        logits: Tensor = self.head(self.read(inputs)[1][0][-1])
        return logits


def lstm(classes: int) -> nn.Module:
    """Make an LSTM on whole texts."""
    return Reader(classes, packed=False)


def packed_lstm(classes: int) -> nn.Module:
    """Make an LSTM on packed texts."""
    return Reader(classes, packed=True)


class UNet(nn.Module):
    """A net for label maps with two levels below the first.

    Args:
        classes: The number of classes.
    """

    def __init__(self, classes: int) -> None:
        super().__init__()
        self.down = nn.ModuleList(_block(*io) for io in ((3, 16), (16, 32), (32, 64)))
        self.widen = nn.ModuleList(nn.ConvTranspose2d(i, i // 2, 2, 2) for i in (64, 32))
        self.up = nn.ModuleList(_block(i, i // 2) for i in (64, 32))
        self.head = nn.Conv2d(16, classes, 1)

    def forward(self, x: Tensor) -> Tensor:
        """Map images [N, 3, H, W] to logits [N, classes, H, W]."""
        first = self.down[0](x)
        second = self.down[1](F.max_pool2d(first, 2))
        x = self.down[2](F.max_pool2d(second, 2))
        for widen, up, beside in zip(self.widen, self.up, (second, first), strict=True):
            x = up(torch.cat([widen(x), beside], 1))
        logits: Tensor = self.head(x)
        return logits


def _block(channels: int, wide: int) -> nn.Module:
    layers: list[nn.Module] = []
    for given in (channels, wide):
        layers += [
            nn.Conv2d(given, wide, 3, padding=1),
            nn.BatchNorm2d(wide),
            nn.ReLU(inplace=True),
        ]
    return nn.Sequential(*layers)


class Texts(nn.Module):
    """A model of words with a mask; the first word of a text says how long it is.

    Args:
        inner: Takes ``input_ids`` and ``attention_mask``.
        read: Makes logits of what it returns.
    """

    def __init__(self, inner: nn.Module, read: Callable[[Any, Tensor], Tensor]) -> None:
        super().__init__()
        self.inner, self.read = inner, read

    def forward(self, words: Tensor) -> Tensor:
        """Map words [N, T] to logits [N, C]."""
        mask = (torch.arange(words.shape[1], device=words.device) < _lengths(words)).long()
        return self.read(self.inner(input_ids=words * mask, attention_mask=mask), mask)


def _lengths(words: Tensor) -> Tensor:
    """Return lengths [N, 1] between half of the places and all of them."""
    return words.shape[1] - words[:, :1] % (words.shape[1] // 2)


def _logits(outputs: Any, _: Tensor) -> Tensor:  # noqa: ANN401 - of any package
    logits: Tensor = outputs.logits
    return logits


def _classifier(name: str, classes: int, **own: Any) -> nn.Module:  # noqa: ANN401
    config = _from("transformers", f"{name}Config")(**{**_TEXT, "num_labels": classes, **own})
    return _from("transformers", f"{name}ForSequenceClassification")(config)  # type: ignore[no-any-return]


def bert(classes: int) -> nn.Module:
    """Make a small BERT."""
    return Texts(_classifier("Bert", classes), _logits)


def llama(classes: int) -> nn.Module:
    """Make a small Llama on padded texts."""
    return Texts(_classifier("Llama", classes, num_key_value_heads=2), _logits)


def mixtral(classes: int) -> nn.Module:
    """Make a small Mixtral of four experts."""
    own = {"num_key_value_heads": 2, "num_local_experts": 4, "num_hidden_layers": 2}
    model = _classifier("Mixtral", classes, experts_implementation="eager", **own)
    return Texts(model, _logits)


def lora(classes: int) -> nn.Module:
    """Make a small BERT of which low-rank adapters and the head are trained."""
    config = _from("peft", "LoraConfig")(
        task_type="SEQ_CLS", r=4, target_modules=["query", "value"]
    )
    return Texts(_from("peft", "get_peft_model")(_classifier("Bert", classes), config), _logits)


def t5_encoder(classes: int) -> nn.Module:
    """Make the encoder of a small T5, whose states are averaged."""
    config = _from("transformers", "T5Config")(
        vocab_size=WORDS, d_model=128, d_kv=32, d_ff=256, num_layers=3, num_heads=4
    )
    encoder = _from("transformers", "T5EncoderModel")(config)

    def read(outputs: Any, mask: Tensor) -> Tensor:  # noqa: ANN401
        states = outputs.last_hidden_state * mask[..., None]
        found: Tensor = (states.sum(1) / mask.sum(1, keepdim=True))[:, :classes]
        return found

    return Texts(encoder, read)


class Logits(nn.Module):
    """A model of one tensor that returns an object with logits.

    Args:
        inner: The model.
    """

    def __init__(self, inner: nn.Module) -> None:
        super().__init__()
        self.inner = inner

    def forward(self, x: Tensor) -> Tensor:
        """Return its logits."""
        logits: Tensor = self.inner(x).logits
        return logits


def _of_pixels(kind: str, task: str, classes: int, **own: Any) -> nn.Module:  # noqa: ANN401
    config = _from("transformers", f"{kind}Config")(num_labels=classes, **own)
    return Logits(_from("transformers", f"{kind}For{task}")(config))


_BLOCKS = {"hidden_size": 128, "num_hidden_layers": 4, "num_attention_heads": 4}


def vit(classes: int) -> nn.Module:
    """Make a small vision transformer."""
    own = {**_BLOCKS, "intermediate_size": 512, "image_size": 64, "patch_size": 8}
    return _of_pixels("ViT", "ImageClassification", classes, **own)


def segformer(classes: int) -> nn.Module:
    """Make a small SegFormer."""
    own = {"depths": [1] * 4, "hidden_sizes": [16, 32, 64, 64], "decoder_hidden_size": 64}
    return _of_pixels("Segformer", "SemanticSegmentation", classes, **own)


def timesformer(classes: int) -> nn.Module:
    """Make a small TimeSformer on four frames."""
    own = {**_BLOCKS, "intermediate_size": 256, "image_size": 32, "patch_size": 8, "num_frames": 4}
    return _of_pixels("Timesformer", "VideoClassification", classes, **own)


class Graphs(nn.Module):
    """Two graph convolutions on nodes [N, V, 16]; all graphs have the same edges.

    Args:
        classes: The number of classes.
    """

    edges: Tensor

    def __init__(self, classes: int) -> None:
        super().__init__()
        convolution = _from("torch_geometric.nn", "GINConv")
        self.first, self.second = (convolution(nn.Linear(size, 64)) for size in (16, 64))
        self.head = nn.Linear(64, classes)
        ring = torch.arange(20)
        edges = torch.stack([ring.repeat(3), torch.cat([(ring + s) % 20 for s in (1, 2, 7)])])
        self.register_buffer("edges", edges)

    def forward(self, nodes: Tensor) -> Tensor:
        """Map nodes [N, V, 16] to logits [N, classes]; those of all graphs stand in one list."""
        graphs, size = nodes.shape[:2]
        start = torch.arange(graphs, device=nodes.device)[:, None] * size
        edges = (self.edges[:, None] + start).flatten(1)
        x = self.second(self.first(nodes.flatten(0, 1), edges).relu(), edges).relu()
        logits: Tensor = self.head(x.unflatten(0, (graphs, size)).mean(1))
        return logits


class TextEncoder(nn.Module):
    """Post-norm transformer encoder with a pooled classifier, as BERT is built.

    Every embedding is looked up per sample, positions too, so that each layer has the samples
    first: that is what all contenders can measure.

    Args:
        classes: The number of classes.
        vocabulary: The number of tokens.
        width: Features per token.
        depth: The number of layers.
        heads: Attention heads per layer.
        longest: The most tokens that a text may have.
    """

    def __init__(
        self,
        classes: int,
        vocabulary: int = 30522,
        width: int = 768,
        depth: int = 12,
        heads: int = 12,
        longest: int = 512,
    ) -> None:
        super().__init__()
        self.tokens = nn.Embedding(vocabulary, width)
        self.positions = nn.Embedding(longest, width)
        self.segments = nn.Embedding(2, width)
        for table in (self.tokens, self.positions, self.segments):
            nn.init.normal_(table.weight, std=0.02)
        self.norm = nn.LayerNorm(width, eps=1e-12)
        self.layers = nn.ModuleList(
            nn.TransformerEncoderLayer(
                width,
                heads,
                4 * width,
                activation="gelu",
                layer_norm_eps=1e-12,
                batch_first=True,
            )
            for _ in range(depth)
        )
        self.pooler = nn.Linear(width, width)
        self.classifier = nn.Linear(width, classes)

    def forward(self, tokens: Tensor) -> Tensor:
        """Map tokens [N, T] to logits [N, classes]; the second half is the second segment."""
        places = torch.arange(tokens.shape[1], device=tokens.device).repeat(len(tokens), 1)
        halves = (places >= tokens.shape[1] // 2).long()
        x = self.norm(self.tokens(tokens) + self.positions(places) + self.segments(halves))
        for layer in self.layers:
            x = layer(x)
        logits: Tensor = self.classifier(torch.tanh(self.pooler(x[:, 0])))
        return logits


def bert_base(classes: int) -> nn.Module:
    """Make an encoder of the size of BERT-base: 109.5 million parameters."""
    return TextEncoder(classes)


def resnet3d_18_s1(classes: int, channels: int) -> nn.Module:
    """Make the costly ResNet-18 for volumes, whose stem keeps the resolution."""
    return ResNet3d18(classes, channels, "s1")
