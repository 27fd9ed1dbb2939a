import shutil
from pathlib import Path

import numpy as np
import pytest

from factlearn.errors import FactIndexError
from factlearn.retrieval import FactIndex
from factlearn.retrieval.folder.repair import restore
from tests.retrieval.conftest import language_space
from tests.retrieval.folder.damage import answers, damage, files_of


def test_whatever_is_damaged_is_restored_but_for_vectors_that_are_gone(grown, tmp_path):
    rng = np.random.default_rng(5)
    expected = answers(FactIndex.open(grown.path))
    before = {item["id"]: (dict(item), row.tobytes()) for item, row in zip(grown.items(), grown.vectors, strict=True)}
    covered = grown.store.segments[0].entry.name
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
        assert not restored.store.exact or {"structures", covered} & set(file.parts)
        assert now == {name: entry for name, entry in before.items() if name not in lost}, file
        shutil.rmtree(copy)


@pytest.mark.parametrize(("old", "new"), [(b"<f4", b">f4"), (b"27)", b"26)"), (b"False", b"True ")])
def test_restoring_ignores_a_corrupt_header_of_the_rows(index, collection, old, new):
    (file,) = index.path.glob("segments/*/rows.npy")
    assert file.read_bytes().count(old) == 1
    file.write_bytes(file.read_bytes().replace(old, new))
    with pytest.raises(FactIndexError, match=r"rows\.npy"):
        FactIndex.open(index.path).query("<dog>")
    assert restore(index.path) == []
    np.testing.assert_array_equal(FactIndex.open(index.path, verify=True).vectors, collection["vectors"])


def test_a_folder_called_version_is_restored_like_any_other(index):
    path = index.path.rename(index.path.with_name("version 2"))
    (path / "index.json").write_text("{")
    assert restore(path) == []
    assert FactIndex.open(path, verify=True).ids == index.ids
