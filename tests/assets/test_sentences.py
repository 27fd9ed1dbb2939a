"""Sentence encoders: the same numbers as the reference, units encoded as a whole, damaged packages refused."""

import json

import numpy as np
import pytest
import torch
from safetensors.numpy import save

from factlearn.assets import fetch
from factlearn.assets.sentences import WORDPIECES_FILE, SentenceVectors
from factlearn.assets.weights import WEIGHTS_FILE
from factlearn.errors import AssetError, LanguageError
from factlearn.facts import Fact
from factlearn.language import LanguageSpace
from tests.assets.encoders import PIECES, SIZE, TOKENIZER, convert, minilm_package, random_arrays

DIMENSION, LAYERS = SIZE

REFERENCE = {
    "person": [-0.11306, 0.02634, -0.04948, -0.02472, -0.08261, -0.03034, 0.18631, 0.03604],
    "riding bike": [0.0239, 0.04073, -0.0558, 0.01333, -0.07815, 0.02353, 0.12655, 0.00966],
    "Façade, Zürich!": [0.0378, 0.11525, 0.04488, -0.02891, 0.02366, -0.02421, -0.02543, -0.00664],
    "pneumonoultramicroscopicsilicovolcanoconiosis":
        [-0.00156, -0.01093, -0.01985, -0.03978, -0.11197, -0.04952, 0.04637, 0.08176],
    "犬": [-0.05884, 0.02303, -0.00194, 0.07837, -0.14111, 0.00368, 0.03095, 0.00013],
    "": [-0.11881, 0.04832, -0.00266, -0.01095, 0.05188, 0.01028, 0.11545, 0.00072],
}  # fmt: skip


@pytest.fixture
def encoder(tmp_path):
    out = tmp_path / "out"
    out.mkdir()
    convert(minilm_package(tmp_path / "a.tgz"), out)
    return SentenceVectors(out)


@pytest.fixture
def asset(cache, named, tmp_path):
    """The same encoder as an asset that a config may name."""
    package = minilm_package(tmp_path / "tiny.tgz")
    named(name="tiny", from_user=convert, files=(WEIGHTS_FILE, WORDPIECES_FILE))
    fetch("tiny", path=package)
    return "tiny"


def torchs_encoder(arrays):
    """The layers as PyTorch's own."""
    weights = {name: torch.from_numpy(array).float() for name, array in arrays.items()}
    layers = []
    for number in range(LAYERS):
        place = f"encoder.layer.{number}."
        layer = torch.nn.TransformerEncoderLayer(
            DIMENSION, DIMENSION // 32, 4 * DIMENSION, 0.0, "gelu", 1e-12, batch_first=True
        )
        state = {}
        for part in ("weight", "bias"):
            state |= {
                f"self_attn.in_proj_{part}": torch.cat(
                    [weights[f"{place}attention.self.{name}.{part}"] for name in ("query", "key", "value")]
                ),
                f"self_attn.out_proj.{part}": weights[f"{place}attention.output.dense.{part}"],
                f"linear1.{part}": weights[f"{place}intermediate.dense.{part}"],
                f"linear2.{part}": weights[f"{place}output.dense.{part}"],
                f"norm1.{part}": weights[f"{place}attention.output.LayerNorm.{part}"],
                f"norm2.{part}": weights[f"{place}output.LayerNorm.{part}"],
            }
        layer.load_state_dict(state)
        layers.append(layer.eval())
    return weights, torch.nn.Sequential(*layers)


@pytest.mark.parametrize("text", ["dog", "doggy riding bikes!", "", "dog " * 300])
def test_a_text_is_the_mean_over_pytorchs_own_layers_scaled_to_length_one(encoder, text):
    weights, layers = torchs_encoder(random_arrays())
    pieces = {"dog": "dog", "doggy riding bikes!": "dog ##gy riding bike ##s !", "": "", "dog " * 300: "dog " * 254}
    rows = [PIECES.index(piece) for piece in ["[CLS]", *pieces[text].split(), "[SEP]"]]
    word, position, kind = (
        weights[f"embeddings.{name}_embeddings.weight"] for name in ("word", "position", "token_type")
    )
    scale, shift = (weights[f"embeddings.LayerNorm.{part}"] for part in ("weight", "bias"))
    with torch.no_grad():
        x = word[rows] + position[: len(rows)] + kind[0]
        mean = layers(torch.nn.functional.layer_norm(x, (DIMENSION,), scale, shift, 1e-12)[None])[0].mean(0)
    np.testing.assert_allclose(encoder[text], mean / mean.norm(), atol=1e-6)
    assert encoder[text].dtype == np.float32


def test_texts_that_can_be_spelled_are_known_and_whole_words_rank_first(encoder):
    known = encoder.key_to_index
    assert encoder.vector_size == DIMENSION
    assert encoder.index_to_key == ["a", "d", "dog", "cat", "riding", "bike", "犬"]
    assert known["dog"] < known["doggy"] == known["riding bike"]
    assert not [text for text in ("", "\u200b", "猫", "dog 猫", "d" * 101) if text in known]


def test_a_unit_is_encoded_as_a_whole_and_the_space_comes_back(asset, encoder, tmp_path):
    space = LanguageSpace.open(asset, aliases={"hound": "dog"}, normalise=True)
    facts = [Fact("dog", "riding bike"), Fact("hound", "riding_bike")]
    vectors, mask = space.embed(facts)
    assert mask[:, :2].all()
    np.testing.assert_allclose(vectors[0, 1], encoder["riding bike"], atol=1e-6)
    np.testing.assert_array_equal(vectors[0], vectors[1])
    mean = encoder["riding"] + encoder["bike"]
    assert vectors[0, 1] @ (mean / np.linalg.norm(mean)) < 0.99
    space.save(tmp_path / "space")
    np.testing.assert_array_equal(LanguageSpace.load(tmp_path / "space").embed(facts)[0], vectors)


def test_a_word_of_unknown_characters_is_an_error_as_others_like_it_would_share_its_vector(asset):
    with pytest.raises(LanguageError, match=r"^The word '猫' \(in <dog 猫>\) has no vector in tiny; .*alias the unit"):
        LanguageSpace.open(asset).embed([Fact("dog 猫")])


def changed(part, **values):
    return json.dumps({**TOKENIZER, part: {**TOKENIZER[part], **values}}).encode()


TOKENIZERS = {
    "no JSON": b"{",
    "no object": b"[]",
    "another kind": changed("model", type="BPE"),
    "upper case": changed("normalizer", lowercase=False),
    "no piece for unknown words": changed("model", vocab={"[CLS]": 0, "[SEP]": 1}),
    "two pieces of one number": changed("model", vocab={**TOKENIZER["model"]["vocab"], "extra": 0}),
    "a number that is text": changed("model", vocab={**TOKENIZER["model"]["vocab"], "extra": "15"}),
    "half a character": changed("model", vocab={**TOKENIZER["model"]["vocab"], "\ud800": len(PIECES)}),
}


@pytest.mark.parametrize("what", TOKENIZERS)
def test_a_tokenizer_that_is_damaged_or_another_is_refused(tmp_path, what):
    out = tmp_path / "out"
    out.mkdir()
    with pytest.raises(AssetError, match="does not hold MiniLM's weights and tokenizer"):
        convert(minilm_package(tmp_path / "a.tgz", tokenizer=TOKENIZERS[what]), out)
    assert not list(out.iterdir())


def test_weights_that_are_damaged_or_another_networks_are_refused(tmp_path):
    arrays = random_arrays()
    (tmp_path / "broken.tgz").write_bytes(minilm_package(tmp_path / "a.tgz").read_bytes()[:-5_000])
    with pytest.raises(AssetError, match=r"broken\.tgz does not hold MiniLM's"):
        convert(tmp_path / "broken.tgz", tmp_path)
    with pytest.raises(AssetError, match="does not hold MiniLM's"):
        convert(minilm_package(tmp_path / "a.tgz", weights=save(arrays)[:-1]), tmp_path)
    narrow = arrays | {"encoder.layer.1.output.dense.weight": np.ones((DIMENSION, 3), np.float16)}
    with pytest.raises(AssetError, match="has shape"):
        convert(minilm_package(tmp_path / "a.tgz", weights=save(narrow)), tmp_path)
    del arrays["encoder.layer.0.intermediate.dense.bias"]
    with pytest.raises(AssetError, match=r"has no parameter encoder\.layer\.0\.intermediate\.dense\.bias"):
        convert(minilm_package(tmp_path / "a.tgz", weights=save(arrays)), tmp_path)


@pytest.mark.assets
def test_the_real_encoder_gives_the_reference_implementations_vectors():
    """Printed by Hugging Face's transformers 4.57.6 and tokenizers 0.22.2 for the same files: the first numbers."""
    vectors = SentenceVectors(fetch("minilm-384"))
    for text, first in REFERENCE.items():
        vector = vectors[text]
        assert vector.shape == (384,)
        assert float(np.linalg.norm(vector)) == pytest.approx(1, abs=1e-6)
        np.testing.assert_allclose(vector[:8], first, atol=1e-4)
