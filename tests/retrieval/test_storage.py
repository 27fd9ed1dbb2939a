import json
import shutil
from pathlib import Path

import numpy as np
import pytest

from factlearn.errors import FactIndexError
from factlearn.retrieval import FactIndex
from factlearn.retrieval.folder import rows as store
from factlearn.retrieval.folder.manifest import _checksum
from factlearn.retrieval.folder.repair import restore
from tests.retrieval.conftest import compact, language_space, link, more_images

COPIES = ("index.copy.json", "items.copy.arrow", "removed.copy.npy")


def files_of(index):
    return sorted(file for file in index.path.rglob("*") if file.is_file() and file.name != "lock")


def answers(index):
    """All that an index says, in many ways."""
    vector = np.linspace(-1, 1, 24, dtype=np.float32).reshape(3, 8)
    hits = [
        index.query("<person, riding, *>", k=200),
        index.query("<woman, holding, golf>", weights=(1, 2, 0.5), offset=3),
        index.query("<*, *, bike>", where="split = 'test' and vendor is null"),
        index.query("<dog>", where="year > 2000 or id like 'late/%'"),
        index.query("<dog>", also=["<*, riding>"], threshold=-3),
        index.query("<person>", without=["<*, riding, bike>"]),
        index.similar(vector, k=7),
        *index.query_many(["<dog>", "<woman>"], where="model = 'm2'"),
    ]
    shown = [(str(each.fact), each.score) for each in index.facts_of(vector)]
    stored = [dict(item) for item in index.items()]
    about = [list(index.models), [str(fact) for fact in index.facts], len(index), index.dimension]
    return json.dumps([[hit.to_json() for found in hits for hit in found], shown, stored, about])


def damage(content, rng):
    """One bit flipped, or the end cut off."""
    if rng.random() < 0.3:
        return content[: rng.integers(len(content))]
    changed = bytearray(content)
    changed[rng.integers(len(content))] ^= 1 << int(rng.integers(8))
    return bytes(changed)


def attempt(action):
    """What an action gives, or the error that refuses it."""
    try:
        return action(), None
    except FactIndexError as error:
        return None, error


def check_damage(index, times):
    """Damage every file so often; how many were reported, and how many harmless."""
    rng = np.random.default_rng(times)
    expected = answers(FactIndex.open(index.path))
    reported = harmless = 0
    for file in files_of(index):
        content = file.read_bytes()
        for _ in range(times):
            file.write_bytes(damage(content, rng))
            problems = index.verify()
            assert any(str(file) in problem for problem in problems), f"{file} was damaged and found whole"
            served, error = attempt(lambda: answers(FactIndex.open(index.path)))
            if error is None:
                assert served == expected, f"{file} was damaged and served"
                harmless += 1
            else:
                assert str(file) in str(error)
                assert file.name not in COPIES, f"{file} answers no query and stopped one"
                reported += 1
        file.write_bytes(content)
    assert not index.verify()
    assert answers(FactIndex.open(index.path)) == expected
    return reported, harmless


@pytest.mark.parametrize("few", [0, 20_000], ids=["by structure", "by sweep"])
def test_any_damage_is_reported_or_harmless_and_found_by_verify(grown, monkeypatch, few):
    monkeypatch.setattr(store, "_FEW", few)
    reported, harmless = check_damage(grown, 3)
    assert reported + harmless == 3 * len(files_of(grown))


@pytest.mark.slow
@pytest.mark.parametrize("few", [0, 20_000], ids=["by structure", "by sweep"])
def test_of_500_flips_and_cuts_over_all_files_none_is_served(grown, monkeypatch, few):
    monkeypatch.setattr(store, "_FEW", few)
    times = -(-500 // len(files_of(grown)))
    reported, harmless = check_damage(grown, times)
    print(f"{len(files_of(grown))} files, {reported + harmless} damages: {reported} reported, {harmless} harmless")
    assert reported + harmless >= 500


def test_what_the_head_of_the_rows_says_is_not_believed(index, monkeypatch):
    monkeypatch.setattr(store, "_FEW", 0)
    link(index.path)
    expected = index.query("<person, riding, *>", k=3)
    (file,) = index.path.rglob("segments/*/rows.npy")
    content = file.read_bytes()
    for bit in np.random.default_rng(0).choice(128 * 8, 300, replace=False).tolist():
        changed = bytearray(content)
        changed[bit // 8] ^= 1 << (bit % 8)
        file.write_bytes(changed)
        served, error = attempt(lambda: FactIndex.open(index.path).query("<person, riding, *>", k=3))
        assert served == expected if error is None else "rows.npy" in str(error)


def test_a_missing_file_is_reported_by_name_when_opened(grown):
    for file in files_of(grown):
        content = file.read_bytes()
        file.unlink()
        assert any(file.name in problem for problem in grown.verify())
        if file.name in COPIES:
            assert FactIndex.open(grown.path).query("<dog>")
        else:
            with pytest.raises(FactIndexError, match=file.name):
                FactIndex.open(grown.path)
        file.write_bytes(content)


def test_damage_is_reported_with_the_segments_name(grown):
    file = sorted(grown.path.glob("segments/*/rows.npy"))[-1]
    content = bytearray(file.read_bytes())
    content[-1] ^= 1
    file.write_bytes(content)
    for problem in grown.verify():
        assert f"segment {file.parent.name} is damaged" in problem
    with pytest.raises(FactIndexError, match=f"segment {file.parent.name}"):
        FactIndex.open(grown.path).query("<dog>")
    with pytest.raises(FactIndexError, match=f"segment {file.parent.name}"):
        FactIndex.open(grown.path, verify=True)


def test_a_writer_does_not_copy_damaged_vectors_into_a_new_segment(grown):
    compact(grown.path)
    grown.add(**more_images(3, prefix="last"), model="m2")
    file = sorted(grown.path.glob("segments/*/rows.npy"))[0]
    content = bytearray(file.read_bytes())
    content[-1] ^= 1
    file.write_bytes(content)
    with pytest.raises(FactIndexError, match="damaged"):
        link(grown.path)
    assert len(grown.verify()) == 1


def test_a_file_swapped_with_one_of_another_index_is_reported(tmp_path, collection, index, language):
    vectors = collection["vectors"][::-1]
    other = FactIndex.create(tmp_path / "other", **{**collection, "vectors": vectors}, language=language, model="m1")
    (ours,), (theirs,) = index.path.glob("segments/*/rows.npy"), other.path.glob("segments/*/rows.npy")
    shutil.copy(theirs, ours)
    with pytest.raises(FactIndexError, match=r"rows\.npy.* is damaged"):
        FactIndex.open(index.path).query("<dog>")


def test_whatever_is_damaged_is_restored_but_for_vectors_that_are_gone(grown, tmp_path):
    rng = np.random.default_rng(5)
    expected = answers(FactIndex.open(grown.path))
    before = {item["id"]: (dict(item), row.tobytes()) for item, row in zip(grown.items(), grown.vectors, strict=True)}
    covered = grown.backend.segments[0].entry.name
    for file in [*files_of(grown), *grown.path.glob("segments/*/rows.npy")]:
        copy = Path(shutil.copytree(grown.path, tmp_path / "copy"))
        damaged = copy / file.relative_to(grown.path)
        damaged.write_bytes(damage(file.read_bytes(), rng))
        lost = {item["id"] for item in restore(copy, language_space())}
        assert file.name == "rows.npy" or not lost
        restored = FactIndex.open(copy, verify=True)
        assert lost or "structures" in file.parts or answers(restored) == expected
        items = zip(restored.items(), restored.vectors, strict=True)
        now = {item["id"]: (dict(item), row.tobytes()) for item, row in items}
        assert not restored.backend.exact or {"structures", covered} & set(file.parts)
        assert now == {name: entry for name, entry in before.items() if name not in lost}, file
        shutil.rmtree(copy)


@pytest.mark.parametrize(("old", "new"), [(b"<f4", b">f4"), (b"27)", b"26)"), (b"False", b"True ")])
def test_restoring_does_not_believe_the_head_of_the_rows(index, collection, old, new):
    (file,) = index.path.glob("segments/*/rows.npy")
    assert file.read_bytes().count(old) == 1
    file.write_bytes(file.read_bytes().replace(old, new))
    with pytest.raises(FactIndexError, match=r"rows\.npy"):
        FactIndex.open(index.path).query("<dog>")
    assert restore(index.path) == []
    np.testing.assert_array_equal(FactIndex.open(index.path, verify=True).vectors, collection["vectors"])


# Versions and kinds of manifest


def with_version(path, version):
    body = json.loads((path / "index.json").read_text())
    body = {**body, "version": version}
    del body["checksum"]
    whole = {**body, "checksum": _checksum(body)}
    (path / "index.json").write_text(json.dumps(whole, indent=2, ensure_ascii=False) + "\n")


def test_an_index_of_a_later_format_is_refused_with_the_version(index):
    with_version(index.path, 99)
    with pytest.raises(FactIndexError, match=r"version 99.*newer"):
        FactIndex.open(index.path)


def test_an_index_of_the_first_format_is_refused_with_the_way_to_upgrade_it(index):
    with_version(index.path, 1)
    with pytest.raises(FactIndexError, match=r"version 1.*factlearn index upgrade"):
        FactIndex.open(index.path)


def test_even_a_change_of_a_manifest_that_means_nothing_is_found(index):
    for name in ("index.json", "index.copy.json"):
        file = index.path / name
        content = file.read_text()
        file.write_text(content.replace('": ', '":  ', 1))
        assert [name in problem for problem in index.verify()] == [True]
        file.write_text(content)


@pytest.mark.parametrize("content", ["", "[]", "null", "{}", '{"format": "else"}', '{"format": "factlearn index"}'])
def test_a_manifest_of_another_kind_is_refused(index, content):
    (index.path / "index.json").write_text(content)
    with pytest.raises(FactIndexError, match=r"index\.json"):
        FactIndex.open(index.path)


def test_a_folder_without_an_index_is_refused(tmp_path):
    for path in (tmp_path, tmp_path / "missing"):
        with pytest.raises(FactIndexError, match="not an index"):
            FactIndex.open(path)


# Making and replacing


def test_an_existing_index_is_replaced_only_on_request(index, collection, language):
    with pytest.raises(FactIndexError, match="overwriting"):
        FactIndex.create(index.path, **collection, language=language, model="m2")
    assert FactIndex.open(index.path).model == "m1"
    replaced = FactIndex.create(index.path, **collection, language=language, model="m2", overwrite=True)
    assert replaced.model == "m2"
    assert [entry.name for entry in index.path.parent.iterdir()] == [index.path.name]


def test_a_folder_that_is_not_an_index_is_never_replaced(tmp_path, collection, language):
    (tmp_path / "precious.txt").write_text("keep me")
    with pytest.raises(FactIndexError, match="not an index"):
        FactIndex.create(tmp_path, **collection, language=language, model="m", overwrite=True)
    assert (tmp_path / "precious.txt").read_text() == "keep me"


def test_the_same_collection_is_written_to_the_same_bytes(tmp_path, index, collection, language):
    again = FactIndex.create(tmp_path / "again", **collection, language=language, model="m1", known_facts=index.facts)
    assert (again.path / "index.json").read_text() == (index.path / "index.json").read_text()
