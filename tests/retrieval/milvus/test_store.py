"""The index in Milvus changes as the index in a folder does, and what is wrong with it is a sentence."""

import itertools
import sys

import numpy as np
import pytest

pytest.importorskip("pymilvus")
pytest.importorskip("milvus_lite")

from factlearn.errors import FactIndexError
from factlearn.facts import Fact
from factlearn.retrieval import FactIndex, Version, store_at
from factlearn.retrieval.milvus import writer
from factlearn.retrieval.milvus.filter import json_key, metadata_key
from tests.retrieval.conftest import FACTS, language_space
from tests.retrieval.milvus.images import LANGUAGE, collection, make, release


def test_images_are_added_replaced_and_removed_as_in_the_folder(address, tmp_path):
    images = collection(90)
    part = {name: column[:60] for name, column in images.items()}
    in_milvus, in_folder = make(address, part), make(tmp_path / "index", part)
    mixed = {name: [*column[80:], *column[:5]] for name, column in images.items()}
    mixed["vectors"] = np.stack(mixed["vectors"]) + np.float32(0.25)
    mixed["metadata"] = [{"fresh key": "it's new"}] * 15
    for index in (in_milvus, in_folder):
        index.add(**mixed, model=Version("m2", "m1"), known_facts=[Fact("woman", "holding", "horse")])
        assert index.remove(images["ids"][10:20]) == 10
        assert index.remove(["nothing such"]) == 0
        assert index.remove(pattern="set 1/*") > 0
        assert index.remove(where="`fresh key` like '%new' and id in ('0', '7', '14')") >= 0
        assert index.verify() == []
    assert sorted(in_milvus.ids) == sorted(in_folder.ids)
    assert len(in_milvus) == len(in_folder)
    assert in_milvus.facts == in_folder.facts
    assert in_milvus.models == in_folder.models
    for where in (None, "`fresh key` = 'it''s new'", "model = 'm1'"):
        assert in_milvus.query("<woman, *, horse>", 99, where=where) == in_folder.query(
            "<woman, *, horse>", 99, where=where
        )


def test_versions_without_images_are_forgotten_but_not_the_newest(address):
    images = collection(30)
    index = make(address, images)
    index.add(**images, model=Version("m2", "m1"))
    assert list(index.models) == ["m2"]


def test_the_last_image_cannot_be_removed(address):
    index = make(address, collection(5))
    with pytest.raises(FactIndexError, match="without images"):
        index.remove(pattern="*")
    assert len(index) == 5


def test_another_opener_sees_changes_after_reloading(address):
    images = collection(40)
    index = make(address, {name: column[:30] for name, column in images.items()})
    other = FactIndex.open(address)
    index.add(**{name: column[30:] for name, column in images.items()}, model="m1", known_facts=[Fact("golf")])
    assert len(other) == 30
    other.reload()
    assert len(other) == 40
    assert Fact("golf") in other.facts
    assert other.query("<golf>") == index.query("<golf>")


def test_an_index_reopened_from_disk_needs_no_word_vectors(address, tmp_path):
    index = make(address, collection(40))
    expected = index.query("<person, riding, bike>")
    release(tmp_path)
    reopened = FactIndex.open(address)
    assert reopened.language.fingerprint == LANGUAGE.fingerprint
    assert reopened.query("<person, riding, bike>") == expected
    assert reopened.facts == tuple(sorted(FACTS))
    assert reopened.path == address
    assert reopened.verify() == []


def test_long_records_are_kept_whole(address):
    facts = [
        Fact("person", f"{a} {b} {c}", "bike")
        for a, b, c in itertools.product(("riding", "holding", "golf", "dog"), repeat=3)
    ]
    facts = sorted({*FACTS, *facts})
    metadata = [{f"key {'k' * 2000} {number}": "v"} for number in range(40)]
    index = make(address, {**collection(40), "metadata": metadata}, known_facts=facts)
    assert index.facts == tuple(facts)
    assert FactIndex.open(address).query("<dog>", where=f"`key {'k' * 2000} 7` = 'v'") == index.query(
        "<dog>", where=f"`key {'k' * 2000} 7` is not null"
    )


# Refusals


def test_another_language_space_is_refused(address):
    images = collection(20)
    index = make(address, images)
    with pytest.raises(FactIndexError, match="language space"):
        FactIndex.open(address, language_space(seed=5))
    with pytest.raises(FactIndexError, match="language space"):
        index.add(**images, model="m1", language=language_space(seed=5))


def test_a_foreign_model_is_refused(address):
    images = collection(20)
    index = make(address, images)
    with pytest.raises(FactIndexError, match="foreign"):
        index.add(**images, model=Version("m9", "another"))


def test_an_index_is_overwritten_only_when_allowed(address):
    make(address, collection(20))
    with pytest.raises(FactIndexError, match="already"):
        make(address, collection(10))
    assert len(FactIndex.open(address)) == 20
    assert len(make(address, collection(10), overwrite=True)) == 10
    assert FactIndex.open(address).verify() == []


@pytest.mark.parametrize("name", ["pictures", "pictures_record"])
def test_a_collection_of_something_else_is_neither_opened_nor_overwritten(address, tmp_path, name):
    from pymilvus import MilvusClient

    client = MilvusClient(str(tmp_path / "images.db"))
    client.create_collection(name, dimension=4)
    with pytest.raises(FactIndexError, match="not an index"):
        FactIndex.open(address)
    with pytest.raises(FactIndexError, match="not an index"):
        make(address, collection(10), overwrite=True)
    assert client.list_collections() == [name]


def test_images_that_cannot_be_stored_leave_nothing_behind(address):
    images = collection(10)
    images["vectors"][7, 0, 0] = np.nan
    with pytest.raises(FactIndexError, match="row 7"):
        make(address, images)
    long = {**collection(10), "paths": ["x" * 70_000] * 10}
    with pytest.raises(FactIndexError, match="65535"):
        make(address, long)
    with pytest.raises(FactIndexError, match="not an index"):
        FactIndex.open(address)


def test_a_missing_file_or_server_is_a_sentence(tmp_path):
    with pytest.raises(FactIndexError, match="does not exist"):
        FactIndex.open(f"milvus:{tmp_path}/nowhere.db/pictures")
    assert not (tmp_path / "nowhere.db").exists()
    with pytest.raises(FactIndexError, match=r"cannot be reached \(tried for 1 s to open\)") as refused:
        FactIndex.open("milvus://someone:secret@127.0.0.1:1/pictures?timeout=1")
    assert "secret" not in str(refused.value)
    assert "\n" not in str(refused.value)


def test_a_missing_pymilvus_is_a_sentence(address, monkeypatch):
    monkeypatch.setitem(sys.modules, "pymilvus", None)
    with pytest.raises(FactIndexError, match=r"factlearn\[milvus\]"):
        make(address, collection(5))


@pytest.mark.parametrize("key", ["split", "x_1", "", "odd key", 'quo"te', "ключ", "@id", "2", "a.b"])
def test_metadata_keys_survive_being_stored(key):
    assert metadata_key(json_key(key)) == key
    assert json_key(key).isidentifier()


def test_a_server_optimizes_and_repairs_its_indexes_itself(address):
    index = make(address, collection(10))
    with pytest.raises(FactIndexError, match="searched by its server; only index folders can be optimized"):
        index.optimize()
    assert store_at(address).restore(address) == store_at(address).verify(address) == []
    assert store_at(address).upgrade(address) is False


# Damage


def test_changes_behind_the_index_are_reported_and_not_served(address, tmp_path):
    from pymilvus import MilvusClient

    images = {**collection(20), "ids": [f"{number:02d}" for number in range(20)]}
    index = make(address, images)
    client = MilvusClient(str(tmp_path / "images.db"))
    (row,) = client.query("pictures", filter=f'id == "{images["ids"][0]}"', output_fields=["*"])
    row["row"] = [value + 1.0 for value in row["row"]]
    client.upsert("pictures", [row])
    client.delete("pictures", filter=f'id == "{images["ids"][1]}"')
    problems = index.verify()
    assert len(problems) == 2
    assert any(repr(images["ids"][0]) in problem and "checksum" in problem for problem in problems)
    assert any("19 images instead of 20" in problem for problem in problems)
    with pytest.raises(FactIndexError, match="answers from 19 images instead of 20"):
        index.query("<dog>", 20)
    with pytest.raises(FactIndexError, match="answers from 19 images instead of 20"):
        FactIndex.open(address)
    client.insert("pictures", [{**row, "id": "01"}])
    with pytest.raises(FactIndexError, match="damaged at image"):
        index.query("<dog>", 20)


def test_what_is_left_of_an_index_can_be_accepted_and_the_rest_added_again(address, tmp_path, capsys):
    from pymilvus import MilvusClient

    images = {**collection(20), "ids": [f"{number:02d}" for number in range(20)]}
    make(address, images)
    MilvusClient(str(tmp_path / "images.db")).delete("pictures", filter='id in ["03", "04"]')
    assert store_at(address).restore(address) == []
    assert "18 images are there, 20 were recorded" in capsys.readouterr().err
    index = FactIndex.open(address)
    assert len(index) == 18
    assert index.verify() == []
    index.add(**images, model="m1")
    assert len(index) == 20


def test_an_interrupted_write_is_reported_until_it_is_made_again(address, monkeypatch):
    images = collection(30)
    index = make(address, {name: column[:20] for name, column in images.items()})
    rest = {name: column[20:] for name, column in images.items()}

    def killed(*_):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(writer._Change, "finish", killed)
        with pytest.raises(KeyboardInterrupt):
            index.add(**rest, model="m1")
    again = FactIndex.open(address)
    assert any("interrupted" in problem for problem in again.verify())
    assert again.query("<dog>")
    again.add(**rest, model="m1")
    assert again.verify() == []
    assert len(again) == 30


def test_a_state_that_a_killed_server_brings_back_is_not_taken_for_the_newest(address, tmp_path):
    from pymilvus import MilvusClient

    images = collection(30)
    index = make(address, {name: column[:20] for name, column in images.items()})
    client = MilvusClient(str(tmp_path / "images.db"))
    (old,) = client.query("pictures_record", filter='name == "head-000000000"', output_fields=["*"])
    index.add(**{name: column[20:] for name, column in images.items()}, model="m1")
    client.upsert("pictures_record", [old])
    again = FactIndex.open(address)
    assert len(again) == 30
    assert again.verify() == []
    assert again.remove(images["ids"][:1]) == 1
    assert not client.query("pictures_record", filter='name == "head-000000000"', output_fields=["name"])


def test_while_images_are_replaced_they_may_be_there_twice_and_afterwards_not(address):
    head = make(address, collection(20)).store.head
    assert [count for count in range(50) if head.allows(count)] == [20]
    during = head.during(written=5)
    assert [count for count in range(50) if during.allows(count)] == [20, 21, 22, 23, 24, 25]
    again = during.during(removed=2)  # interrupted, and then another change
    assert [count for count in range(50) if again.allows(count)] == [18, 19, 20, 21, 22, 23, 24, 25]
    assert [count for count in range(50) if again.after(21, head.record).allows(count)] == [21]


def test_a_damaged_record_is_refused(address, tmp_path):
    from pymilvus import MilvusClient

    index = make(address, collection(10))
    client = MilvusClient(str(tmp_path / "images.db"))
    client.delete("pictures_record", ids=[f"{index.store.head.record.name}/0"])
    with pytest.raises(FactIndexError, match="damaged"):
        FactIndex.open(address)
    client.delete("pictures_record", ids=["head-000000000"])
    with pytest.raises(FactIndexError, match="not written completely"):
        FactIndex.open(address)
    assert make(address, collection(10), overwrite=True).verify() == []
