"""Word vectors made of subwords: spelled as the reference spells them, and never unknown."""

import json
import zipfile

import numpy as np
import pytest
from safetensors.numpy import save

from factlearn.assets import fetch, pip
from factlearn.assets.subwords import PIECES_FILE, OfWordLlama, SubwordVectors
from factlearn.assets.vectors import VECTORS_FILE
from factlearn.errors import AssetError
from factlearn.facts import Fact
from factlearn.language import LanguageSpace

REFERENCE = {
    "bike": (["▁bi", "ke"], 7.84097, 0.370117),
    "snowboarding": (["▁snow", "board", "ing"], 6.79738, -0.296143),
    "facepalming": (["▁face", "pal", "ming"], 8.22142, 0.57373),
    "façade": (["▁fa", "ç", "ade"], 7.30563, -0.197347),
    "犬": (["▁", "<0xE7>", "<0x8A>", "<0xAC>"], 2.69166, 0.159777),
}
BYTES = [f"<0x{number:02X}>" for number in range(256)]
PIECES = ["<unk>", *BYTES, "▁", "d", "o", "g", "s", "i", "n", "▁d", "og", "▁dog", "in", "▁do"]
MERGES = ["▁ d", "o g", "▁d og", "i n", "▁d o"]
TABLE = "wordllama/weights/l2_supercat_256.safetensors"
TOKENIZER = "wordllama/tokenizers/l2_supercat_tokenizer_config.json"


def wheel(path, table, merges=MERGES):
    tokenizer = {"model": {"vocab": {piece: row for row, piece in enumerate(PIECES)}, "merges": merges}}
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr(TABLE, save({"embedding.weight": table}))
        archive.writestr(TOKENIZER, json.dumps(tokenizer))
    return path


@pytest.fixture
def table():
    return np.random.default_rng(0).standard_normal((len(PIECES), 256)).astype(np.float16)


@pytest.fixture
def folder(tmp_path, table):
    out = tmp_path / "out"
    out.mkdir()
    OfWordLlama(64)(wheel(tmp_path / "a.whl", table), out)
    return out


def test_words_are_spelled_by_the_earliest_merges_first(folder):
    vectors = SubwordVectors(folder)
    assert vectors.pieces("dog") == ["▁dog"]
    assert vectors.pieces("dogs") == ["▁dog", "s"]
    assert vectors.pieces("doing") == ["▁do", "in", "g"]
    assert vectors.pieces("é") == ["▁", "<0xC3>", "<0xA9>"]


def test_a_vector_is_the_mean_of_its_pieces_cut_to_the_leading_columns(folder, table):
    vectors = SubwordVectors(folder)
    rows = [PIECES.index("▁dog"), PIECES.index("s")]
    np.testing.assert_allclose(vectors["dogs"], table[rows, :64].astype(np.float64).mean(0), rtol=1e-6)
    assert vectors.vector_size == 64


def test_every_word_is_known_and_whole_ones_rank_first(folder):
    known = SubwordVectors(folder).key_to_index
    assert "zzz" in known
    assert "" not in known
    assert known["dog"] < known["dogs"] == known["zzz"]
    assert SubwordVectors(folder).index_to_key == ["d", "dog", "do"]


def test_a_language_space_over_the_asset_embeds_facts_and_comes_back(cache, tmp_path, table):
    fetch("wordllama-128", path=wheel(tmp_path / "own.whl", table))
    space = LanguageSpace.open("wordllama-128", normalise=True)
    facts = [Fact("dog", "doing", "sins")]
    vectors, mask = space.embed(facts)
    assert vectors.shape == (1, 3, 128)
    assert mask.all()
    space.save(tmp_path / "space")
    np.testing.assert_array_equal(
        LanguageSpace.load(tmp_path / "space").embed([Fact("dog", "doing", "sins")])[0], vectors
    )


def test_a_damaged_wheel_is_refused_in_one_sentence(tmp_path, table):
    out = tmp_path / "out"
    out.mkdir()
    (tmp_path / "broken.whl").write_bytes(b"no zip")
    with pytest.raises(AssetError, match="it is damaged"):
        OfWordLlama(64)(tmp_path / "broken.whl", out)
    with pytest.raises(AssetError, match="pieces but a table of shape"):
        OfWordLlama(64)(wheel(tmp_path / "short.whl", table[:-1]), out)
    assert not (out / PIECES_FILE).exists()
    assert not (out / VECTORS_FILE).exists()


def test_a_wheel_for_another_platform_is_asked_for_by_its_own_tags():
    options = pip._platform("wordllama-0.4.0.post1-cp311-cp311-manylinux2014_x86_64.manylinux_2_17_x86_64.whl")
    assert options == [
        "--implementation", "cp", "--python-version", "3.11", "--abi", "cp311",
        "--platform", "manylinux2014_x86_64", "--platform", "manylinux_2_17_x86_64",
    ]  # fmt: skip
    assert pip._platform("a-1-py3-none-any.whl") == pip._platform("a-1.tar.gz") == []


@pytest.mark.assets
def test_the_real_table_gives_the_reference_implementations_vectors():
    """Computed by wordllama 0.4.0.post1 for the same words: pieces, and the vector's length and first number."""
    vectors = SubwordVectors(fetch("wordllama-256"))
    for word, (pieces, length, first) in REFERENCE.items():
        assert vectors.pieces(word) == pieces
        assert float(np.linalg.norm(vectors[word])) == pytest.approx(length, rel=1e-4)
        assert float(vectors[word][0]) == pytest.approx(first, rel=1e-3)
