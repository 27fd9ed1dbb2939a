import numpy as np
import pyarrow as pa
import pytest

from factlearn.errors import FactIndexError
from factlearn.retrieval import STORES, FactIndex, Store, store, store_at
from factlearn.retrieval.about import About, with_version
from factlearn.retrieval.items import METADATA
from factlearn.retrieval.rows import pack
from factlearn.retrieval.where import matching
from tests.retrieval.conftest import FACTS, more_images

PLACES = {}


class MemoryStore(Store):
    """Indexes in this process; a key is an image's id."""

    exact = True
    place = about = None  # set for each index

    def __init__(self, path, about, language):
        self.place, self.about, self.language, self.images = path, about, language, {}

    @classmethod
    def open(cls, path):
        if path not in PLACES:
            raise FactIndexError(f"{path} is not an index.")
        return PLACES[path]

    @classmethod
    def create(cls, path, about, language, parts, *, overwrite):
        PLACES[path] = cls(path, about, language)
        for images, model in parts:
            PLACES[path].store(images, model)
        return PLACES[path]

    def reload(self):
        return self

    def load_language(self):
        return self.language

    def __len__(self):
        return len(self.images)

    def keys(self, where=None):
        def column(name):
            names = (name, METADATA + name)
            values = [next((item[each] for each in names if each in item), None) for _, item in self.images.values()]
            return pa.chunked_array([pa.array(values, pa.string())])

        keys = np.array(list(self.images), object)
        return keys if where is None else keys[matching(where, column)]

    def take(self, keys):
        return np.stack([self.images[key][0] for key in keys])

    def items(self, keys):
        return [self.images[key][1] for key in keys]

    @property
    def largest(self):
        return self.take(self.keys())[:, -3:].max(axis=0).astype(np.float64)

    def _scored(self, query, where):
        keys = self.keys(where)
        scores = self.take(keys) @ query
        order = np.argsort(-scores)
        return scores[order], keys[order]

    def sweep(self, queries, count, where):
        return [tuple(part[:count] for part in self._scored(query, where)) for query in queries]

    def above(self, query, least, where):
        scores, keys = self._scored(query, where)
        return keys[scores >= least]

    def add(self, images, version, facts, language):
        models = with_version(self.about.models, version)
        self.about = About(
            self.about.dimension, self.about.language, tuple(sorted({*self.about.facts, *facts})), models
        )
        self.store(images, version.fingerprint)

    def store(self, images, model):
        for place, (name, row) in enumerate(zip(images.ids, pack(images.vectors), strict=True)):
            item = {column: values[place] for column, values in images.columns.items()}
            self.images[name] = row, {**item, "model": model}

    def remove(self, ids):
        return sum(self.images.pop(name, None) is not None for name in ids)

    def problems(self):
        return []


@pytest.fixture
def memory():
    """The store, registered as a program outside the package would."""
    yield store("mem", summary="In this process.")(MemoryStore)
    STORES.unregister("mem")
    PLACES.clear()


def test_a_store_registered_from_outside_answers_as_a_folder_does(memory, index, collection, language):
    built = FactIndex.create("mem:photos", **collection, language=language, model="m1", known_facts=FACTS)
    for each in (built, index):
        each.add(**more_images(20), model="m2")
        assert each.remove(["more/3.png", *collection["ids"][:5]]) == 6
    opened = FactIndex.open("mem:photos")
    for options in ({}, {"also": ["<dog>"]}, {"without": ["<*, riding, bike>"]}, {"where": "year > 1995", "offset": 2}):
        assert opened.query("<person, *, bike>", **options) == index.query("<person, *, bike>", **options)
    assert opened.models == index.models
    assert (memory.scheme, memory.summary) == ("mem", "In this process.")


def test_a_store_inherits_what_it_has_no_special_way_to_do(memory, collection, language):
    built = FactIndex.create("mem:photos", **collection, language=language, model="m1")
    assert built.store.describe() == {}
    assert memory.verify("mem:photos") == memory.restore("mem:photos") == []
    assert memory.upgrade("mem:photos") is False
    assert [str(problem) for problem in memory.verify("mem:nowhere")] == ["mem:nowhere is not an index."]
    with pytest.raises(FactIndexError, match="only index folders can be optimized"):
        built.optimize()


def test_an_unregistered_store_is_gone(memory):
    STORES.unregister("mem")
    with pytest.raises(FactIndexError, match=r"no vector store 'mem'; give a folder.*milvus:"):
        FactIndex.open("mem://photos")


def test_the_scheme_of_an_address_selects_the_store():
    for address in ("milvus://host:19530/photos", "milvus:photos.db/photos", "milvus:"):
        assert store_at(address) is STORES["milvus"]
    for path in ("indexes/demo", "C:/indexes/demo", "photos: 2024", "http", ""):
        assert store_at(path) is STORES["folder"]
    with pytest.raises(FactIndexError, match=r"no vector store 'qdrant'; give a folder.*begins with milvus:"):
        store_at("qdrant://host/photos")


def test_an_existing_folder_is_a_folder_whatever_its_name(tmp_path, monkeypatch, collection, language):
    monkeypatch.chdir(tmp_path)
    FactIndex.create("plain", **collection, language=language, model="m1").path.rename("milvus:odd")
    assert len(FactIndex.open("milvus:odd")) == len(collection["ids"])
