import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from factlearn.errors import FactIndexError
from factlearn.retrieval import FactIndex
from factlearn.retrieval.folder import store
from tests.retrieval.conftest import compact, link, more_images
from tests.retrieval.folder.damage import COPIES, answers, attempt, damage, files_of


def check_damage(index, times):
    """Damage every file so many times; how many were reported, and how many were harmless."""
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


def test_a_corrupt_header_of_the_rows_is_never_trusted(index, monkeypatch):
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


CUT_WHILE_OPEN = """
import os, sys
from pathlib import Path
from factlearn.errors import FactIndexError
from factlearn.retrieval import FactIndex
path, name = Path(sys.argv[1]), sys.argv[2]
index = FactIndex.open(path)
index.query("<dog>", k=3)
for file in path.glob(f"segments/*/{name}"):
    os.truncate(file, 0)
refused = 0
for ask in (lambda: index.query("<person>", k=50), lambda: index.items(), lambda: index.vectors):
    try:
        ask()
    except FactIndexError as error:
        assert "cut" in str(error), error
        refused += 1
print(refused)
"""


@pytest.mark.parametrize(("name", "refused"), [("rows.npy", 2), ("items.arrow", 2)])
def test_a_file_that_is_cut_while_it_is_open_is_an_error_and_not_the_end_of_the_process(grown, name, refused):
    done = subprocess.run(
        [sys.executable, "-c", CUT_WHILE_OPEN, str(grown.path), name],
        capture_output=True,
        text=True,
        check=False,
        cwd=Path(__file__).parents[3],
    )
    assert done.returncode == 0, done.stderr
    assert int(done.stdout) >= refused
