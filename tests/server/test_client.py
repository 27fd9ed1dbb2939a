"""The client answers as the index does."""

import numpy as np
import pytest

from factlearn.client import Client, ClientError
from factlearn.facts import Fact
from factlearn.retrieval import FactIndex
from tests.server.running import TOKEN


def test_the_client_gives_what_the_index_gives(plain_service):
    index = plain_service.service.catalog.find(None).current().index
    with Client(plain_service.url) as client:
        assert (len(client), client.dimension, client.ids) == (len(index), index.dimension, index.ids)
        assert client.facts == index.facts
        asked = {"k": 7, "without": ["<*, *, mountain bike>"], "where": "year > 1995", "weights": (1, 2, 1)}
        assert client.query("<person, riding>", **asked) == index.query("<person, riding>", **asked)
        several = ["<dog>", Fact("person", "riding")]
        assert client.query_many(several, 4) == index.query_many(several, 4)
        vector = index.vectors[3]
        assert client.similar(vector, 5) == index.similar(vector, 5) == client.similar("set/3.png", 5)
        assert client.facts_of(vector, 3) == index.facts_of(vector, 3) == client.facts_of("set/3.png", 3)
        assert str(client.read("a dog but not a woman")) == str(index.read("a dog but not a woman"))
        assert [item["id"] for item in client.items("year > 2050")] == [i["id"] for i in index.items("year > 2050")]
        with pytest.raises(ClientError, match="no column") as refused:
            client.query("<dog>", where="nothing = 1")
        assert refused.value.status == 400
        with pytest.raises(ClientError, match="token"):
            client.remove(["set/1.png"])


def test_the_client_adds_and_removes_images(writable_service, picture):
    place = writable_service.service.catalog.find(None).address
    with Client(writable_service.url, "photos", token=TOKEN) as client:
        ids = client.add([picture, picture.read_bytes()], ids=["a", "b"], metadata=[{"n": "1"}, {"n": "2"}])
        assert ids == ["a", "b"]
        index = FactIndex.open(place)
        vectors = dict(zip(index.ids, index.vectors, strict=True))
        np.testing.assert_array_equal(vectors["a"], vectors["b"])
        assert {"a", "b"} <= {hit.id for hit in client.similar(picture, 5)}
        assert client.facts_of(picture, 3) == index.facts_of(vectors["a"], 3)
        assert client.thumbnail("a").startswith(b"\xff\xd8")
        assert client.remove(["a"]) == 1
        assert client.remove(where="n = '2'") == 1
        assert len(client) == len(FactIndex.open(place))


def test_a_service_that_is_not_there_is_told():
    with pytest.raises(ClientError, match="cannot be reached"):
        Client("http://127.0.0.1:9").query("<dog>")
