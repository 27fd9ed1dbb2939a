import gzip
import io
import zipfile
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from gensim.models import KeyedVectors
from hypothesis import given, settings
from hypothesis import strategies as st
from pyarrow import parquet

from factlearn.assets import fetch
from factlearn.assets.vectors import VECTORS_FILE, WORDS_FILE, OfUserFile, of_glove_wheel
from factlearn.errors import AssetError

WORD = st.text(st.characters(codec="utf-8", exclude_categories=["C", "Z"]), min_size=1, max_size=12)


def _read(folder: Path) -> tuple[list[str], np.ndarray]:
    text = (folder / WORDS_FILE).read_bytes().decode("utf-8")
    return text.removesuffix("\n").split("\n"), np.load(folder / VECTORS_FILE)


def _keyed(words: list[str], vectors: np.ndarray) -> KeyedVectors:
    keyed = KeyedVectors(vectors.shape[1])
    keyed.add_vectors(words, vectors)
    return keyed


def _converted(path: Path, dimension: int, folder: Path) -> tuple[list[str], np.ndarray]:
    folder.mkdir()
    OfUserFile(dimension)(path, folder)
    assert {file.name for file in folder.iterdir()} == {WORDS_FILE, VECTORS_FILE}
    return _read(folder)


@settings(deadline=None, max_examples=40)
@given(
    words=st.lists(WORD, min_size=1, max_size=8, unique=True),
    dimension=st.integers(1, 7),
    seed=st.integers(0, 99),
)
def test_every_form_that_gensim_writes_comes_back(
    tmp_path_factory: pytest.TempPathFactory, words: list[str], dimension: int, seed: int
) -> None:
    folder = tmp_path_factory.mktemp("vectors")
    vectors = np.random.default_rng(seed).standard_normal((len(words), dimension)).astype(np.float32)
    keyed = _keyed(words, vectors)
    keyed.save_word2vec_format(str(folder / "a.bin"), binary=True)
    keyed.save_word2vec_format(str(folder / "a.vec"), binary=False)
    (folder / "nameless.gz").write_bytes(gzip.compress((folder / "a.bin").read_bytes()))
    for number, name in enumerate(("a.bin", "a.vec", "nameless.gz")):
        found, values = _converted(folder / name, dimension, folder / str(number))
        assert found == words
        assert values.dtype == np.float32
        np.testing.assert_allclose(values, vectors, rtol=1e-5, atol=1e-6)


def test_glove_text_has_no_header_and_may_have_words_with_spaces(tmp_path: Path) -> None:
    path = tmp_path / "glove.txt"
    path.write_text("the 0.1 -2 3e-1\n. . . 1 2 3\nnaïve\x85 4 5 6\n", encoding="utf-8")
    words, vectors = _converted(path, 3, tmp_path / "out")
    assert words == ["the", ". . .", "naïve\x85"]
    np.testing.assert_allclose(vectors, [[0.1, -2, 0.3], [1, 2, 3], [4, 5, 6]], rtol=1e-6)


def test_a_large_binary_file_is_read_across_its_chunks(tmp_path: Path) -> None:
    words = [f"word{number}" for number in range(5000)]
    vectors = np.random.default_rng(0).standard_normal((5000, 100)).astype(np.float32)
    _keyed(words, vectors).save_word2vec_format(str(tmp_path / "a.bin"), binary=True)
    found, values = _converted(tmp_path / "a.bin", 100, tmp_path / "out")
    assert found == words
    np.testing.assert_array_equal(values, vectors)


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"", "holds no word vectors"),
        (b"the 1 2 3\ncat 1 2\n", "Line 2 of .* is not a word and 3 numbers"),
        (b"2 3\nthe 1 2 3\ncat x 2 3\n", "Line 3 of .* is not a word and 3 numbers"),
        (b"the 1 nan 3\n", "not finite"),
        (b"2 5\nthe 1 2 3 4 5\n", "vectors of 5 dimensions instead of 3"),
        (b"2 3\nthe " + b"\x01" * 12 + b"cat " + b"\x01" * 5, "truncated"),
        (gzip.compress(b"the 1 2 3\n", mtime=0)[:-6], "not a whole gzip file"),
    ],
)
def test_damaged_vectors_are_refused(tmp_path: Path, content: bytes, words: str) -> None:
    (tmp_path / "a.txt").write_bytes(content)
    with pytest.raises(AssetError, match=words):
        OfUserFile(3)(tmp_path / "a.txt", tmp_path)


def _wheel(path: Path, words: list[str], vectors: np.ndarray) -> Path:
    matrix, table = io.BytesIO(), io.BytesIO()
    np.save(matrix, vectors)
    parquet.write_table(pa.table({"index": words}), table)
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("kumo/data/glove_6B_50d_emb.npy", matrix.getvalue())
        archive.writestr("kumo/data/glove_6B_index.parquet", table.getvalue())
    return path


def test_the_glove_wheel_gives_its_words_in_row_order(tmp_path: Path) -> None:
    vectors = np.arange(100, dtype=np.float32).reshape(2, 50)
    out = tmp_path / "out"
    out.mkdir()
    of_glove_wheel(_wheel(tmp_path / "a.whl", ["the", "of"], vectors), out)
    words, values = _read(out)
    assert words == ["the", "of"]
    np.testing.assert_array_equal(values, vectors)


def test_a_glove_wheel_of_another_shape_is_refused(tmp_path: Path) -> None:
    wheel = _wheel(tmp_path / "a.whl", ["the"], np.zeros((2, 50), np.float32))
    with pytest.raises(AssetError, match="1 words but vectors of shape"):
        of_glove_wheel(wheel, tmp_path)
    pickled = np.array([[{"a": 1}]], dtype=object)
    with pytest.raises(AssetError, match="damaged"):
        of_glove_wheel(_wheel(tmp_path / "b.whl", ["the"], pickled), tmp_path)
    (tmp_path / "c.whl").write_bytes(b"PK no")
    with pytest.raises(AssetError, match="damaged"):
        of_glove_wheel(tmp_path / "c.whl", tmp_path)


@pytest.mark.assets
def test_the_real_glove_vectors_know_words_that_belong_together() -> None:
    words, vectors = _read(fetch("glove-6b-50d"))
    assert len(words) == len(set(words)) == len(vectors) == 400_000
    rows = {word: vectors[words.index(word)] for word in ("bike", "bicycle", "tuxedo")}
    unit = {word: row / np.linalg.norm(row) for word, row in rows.items()}
    assert unit["bike"] @ unit["bicycle"] > 0.8 > unit["bike"] @ unit["tuxedo"]
