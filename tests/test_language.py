import numpy as np
import pytest
from gensim.models import KeyedVectors

from factlearn.errors import LanguageError
from factlearn.facts import Fact, FactQuery
from factlearn.language import LanguageSpace

from .conftest import FACTS


@pytest.fixture
def space(vectors_file):
    return LanguageSpace.open(str(vectors_file))


def test_a_unit_of_several_words_is_the_mean_of_its_words(space):
    expected = (space.words["red"] + space.words["ball"]) / 2
    np.testing.assert_allclose(space.unit("red ball"), expected, rtol=1e-6)


def test_open_units_are_zero_and_masked(space):
    vectors, mask = space.embed([Fact("tree"), FactQuery.parse("<person, *, bike>")])
    assert mask.tolist() == [[True, False, False], [True, False, True]]
    assert not vectors[~mask].any()
    np.testing.assert_array_equal(vectors[1, 2], space.words["bike"])


def test_normalised_units_have_length_one_and_keep_their_direction(vectors_file, space):
    normal = LanguageSpace.open(str(vectors_file), normalise=True)
    vector = normal.unit("red ball")
    assert np.linalg.norm(vector) == pytest.approx(1)
    np.testing.assert_allclose(vector * np.linalg.norm(space.unit("red ball")), space.unit("red ball"), rtol=1e-5)


def test_a_centred_space_has_mean_zero_over_the_units(space):
    centred = space.centred_on(FACTS)
    units = {unit for fact in FACTS for unit in fact.units}
    np.testing.assert_allclose(np.mean([centred.unit(unit) for unit in units], axis=0), 0, atol=1e-6)


def test_a_word_without_a_vector_is_named_with_its_fact_and_close_spellings(space):
    with pytest.raises(LanguageError, match=r"'ridin' \(in <person, ridin, bike>\).*close spellings: riding"):
        space.embed([Fact("person", "ridin", "bike")])


def test_an_alias_gives_a_unit_other_words(vectors_file, space):
    aliased = LanguageSpace.open(str(vectors_file), aliases={"tandem": "bike"})
    np.testing.assert_array_equal(aliased.unit("tandem"), space.unit("bike"))
    assert aliased.fingerprint != space.fingerprint


def test_a_zero_vector_is_an_error_not_a_nan():
    vectors = KeyedVectors(2)
    vectors.add_vectors(["nothing", "this", "that"], np.array([[0, 0], [1, 0], [-1, 0]], np.float32))
    space = LanguageSpace.of_vectors(vectors, normalise=True)
    for unit in ("nothing", "this that"):
        with pytest.raises(LanguageError, match="length 0"):
            space.unit(unit)


def test_word2vec_binary_text_and_glove_files_give_the_same_vectors(tmp_path, space):
    space.words.save_word2vec_format(str(tmp_path / "v.bin"), binary=True)
    space.words.save_word2vec_format(str(tmp_path / "v.txt"))
    lines = (tmp_path / "v.txt").read_text().splitlines()[1:]
    (tmp_path / "glove.txt").write_text("\n".join(lines) + "\n")
    for name in ("v.bin", "v.txt", "glove.txt"):
        other = LanguageSpace.open(str(tmp_path / name))
        np.testing.assert_allclose(other.unit("red ball"), space.unit("red ball"), rtol=1e-5)


def test_a_saved_space_answers_known_units_without_its_word_vectors(tmp_path, space, vectors_file):
    centred = space.centred_on(FACTS)
    expected, _ = centred.embed(FACTS)
    centred.save(tmp_path / "language")
    modes = {path.stat().st_mode for path in (tmp_path / "language").iterdir()}
    assert len(modes) == 1  # whoever may read one file may read the other
    loaded = LanguageSpace.load(tmp_path / "language")
    np.testing.assert_array_equal(loaded.embed(FACTS)[0], expected)
    assert loaded._vectors is None
    assert loaded.fingerprint == centred.fingerprint
    np.testing.assert_array_equal(loaded.unit("ball"), centred.unit("ball"))


def test_word_vectors_that_changed_since_are_refused(tmp_path, space):
    file = tmp_path / "v.txt"
    space.words.save_word2vec_format(str(file))
    opened = LanguageSpace.open(str(file))
    opened.embed(FACTS)
    opened.save(tmp_path / "language")
    file.write_text(file.read_text().replace("person", "people"))
    with pytest.raises(LanguageError, match="have changed since they were first used"):
        LanguageSpace.load(tmp_path / "language").unit("ball")


@pytest.mark.parametrize("content", [b"", b"\xff\xfe\x00rubbish", b"word one two\n"])
def test_a_file_that_holds_no_vectors_is_refused(tmp_path, content):
    (tmp_path / "v.txt").write_bytes(content)
    with pytest.raises(LanguageError):
        LanguageSpace.open(str(tmp_path / "v.txt")).unit("person")


def test_a_missing_file_is_named(tmp_path):
    with pytest.raises(LanguageError, match="do not exist"):
        LanguageSpace.open(str(tmp_path / "none.bin")).unit("person")


def test_units_that_only_queries_name_are_neither_saved_nor_kept_forever(tmp_path, space):
    space.embed(FACTS)
    words = space.words.index_to_key
    asked = [f"{first} {second}" for first in words for second in words]
    asked = [" ".join([text] * times) for times in range(1, 3 + 4096 // len(asked)) for text in asked]
    assert len(set(asked)) > 4096
    for text in asked:
        space.embed([FactQuery((text,))])
    assert len(space._units) == len({unit for fact in FACTS for unit in fact.units})
    assert 0 < len(space._asked) <= 4096
    np.testing.assert_array_equal(space.unit(asked[0]), LanguageSpace.of_vectors(space.words).unit(asked[0]))
    space.save(tmp_path / "language")
    assert LanguageSpace.load(tmp_path / "language")._units.keys() == space._units.keys()
