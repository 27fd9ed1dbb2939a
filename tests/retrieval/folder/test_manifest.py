import json

import pytest

from factlearn.errors import FactIndexError
from factlearn.retrieval import FactIndex
from factlearn.retrieval.folder.manifest import _checksum


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
