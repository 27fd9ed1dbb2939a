"""The client answers as the index does."""

import functools
import inspect
import socket
import threading
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer

import numpy as np
import pytest

from factlearn.client import Client, ClientError
from factlearn.errors import FactlearnError, ImageError
from factlearn.facts import Fact
from factlearn.retrieval import FactIndex
from tests.server.running import TOKEN, serving

HERE_ONLY = {  # what an index on this machine has, and why not one behind a service
    "create": "made where the vectors are",
    "open": "a client is opened by its address",
    "store": "files of the other machine",
    "vectors": "the service hands out no vectors",
    "language": "texts are read by the service",
    "confidence": "part of every hit",
    "fitting": "part of every fact shown",
    "model": "the service's models",
    "models": "the service's models",
    "check_language": "checked by the service",
    "check_version": "checked by the service",
}
EMBEDDED_THERE = {"vectors", "paths", "model", "known_facts", "files", "language"}  # images are sent instead


def test_the_client_has_the_methods_of_the_index_with_their_arguments():
    """Fails as soon as the index gains a method or an argument that the client lacks."""
    index = {name for name in dir(FactIndex) if not name.startswith("_")} | {"store"}
    client = {name for name in dir(Client) if not name.startswith("_")}
    assert index - client == set(HERE_ONLY)
    assert "__len__" in vars(Client)
    for name in index & client:
        ours, theirs = getattr(FactIndex, name), getattr(Client, name)
        if not inspect.isfunction(ours):
            assert isinstance(theirs, property), name
            continue
        lacking = set(inspect.signature(ours).parameters) - set(inspect.signature(theirs).parameters)
        assert lacking - {"vector"} <= (EMBEDDED_THERE if name == "add" else set()), name


@pytest.mark.parametrize(
    "options",
    [
        {"any_of": ["<dog>", "<woman, holding, dog>"], "k": 30},
        {"anywhere": True, "k": 20, "offset": 3},
        {"also": ["<*, riding>"], "without": ["<*, *, mountain bike>"], "margin": 0.1},
        {"threshold": -0.6, "k": 100},
    ],
    ids=str,
)
def test_every_option_of_a_query_reaches_the_index(plain_service, options):
    index = plain_service.service.catalog.find(None).current().index
    reading = index.read("a person riding a bike or a woman but not a mountain bike")
    with Client(plain_service.url) as client:
        assert client.query("<person>", **options) == index.query("<person>", **options)
        assert client.query(reading, **options) == index.query(reading, **options)
        several = ["<dog>", reading]
        assert client.query_many(several, 5) == index.query_many(several, 5)
        assert client.query_many(["<dog>"], **options) == index.query_many(["<dog>"], **options)


def test_neighbours_take_the_same_options_by_vector_and_by_id(plain_service):
    index = plain_service.service.catalog.find(None).current().index
    options = {"k": 9, "offset": 2, "threshold": -20.0, "without": ["<dog>"], "margin": 0.3, "weights": (1, 2, 1)}
    with Client(plain_service.url) as client:
        expected = index.similar(index.vectors[3], **options)
        assert expected != index.similar(index.vectors[3], **{**options, "without": ()})
        assert client.similar(index.vectors[3], **options) == client.similar("set/3.png", **options) == expected


def test_the_client_optimizes_and_verifies(plain):
    with serving(plain.path) as running, Client(running.url, token=TOKEN) as client:
        steps = []
        trials = client.optimize(kinds=["flat", "pq"], per_pattern=2, say=steps.append)
        assert [trial.kind for trial in trials if trial.note == "chosen"] == ["flat"]
        assert steps
        with pytest.raises(FactlearnError, match="no kind 'tree'"):
            client.optimize(kinds=["tree"])
        assert client.verify() == []
        rows = next((plain.path / "segments").glob("*/rows.npy"))
        rows.write_bytes(rows.read_bytes()[:-1] + b"x")
        (problem,) = client.verify()
        assert "damaged" in problem
        assert str(plain.path) not in problem
        with pytest.raises(ClientError, match="cannot be searched"):
            Client(running.url, retries=0).query("<dog>")


def test_a_client_without_the_token_is_told_that_reading_needs_one(plain):
    with serving(plain.path, token_to_read=True) as running:
        with pytest.raises(ClientError, match="needs a token") as refused:
            len(Client(running.url))
        assert refused.value.status == 401
        assert len(Client(running.url, token=TOKEN)) == len(plain)


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
        assert client.parse("a dog") == index.parse("a dog")
        assert client.paths == index.paths
        assert client.vocabulary == index.vocabulary
        for ours, theirs in zip(index.items("year > 2050"), client.items("year > 2050"), strict=True):
            given = {name: value for name, value in ours.items() if value is not None and name in theirs}
            assert {name: theirs[name] for name in given} == given
            assert {"id", "path", "metadata.year"} <= given.keys()
        with pytest.raises(ClientError, match="no column") as refused:
            client.query("<dog>", where="nothing = 1")
        assert refused.value.status == 400
        with pytest.raises(ClientError, match="token"):
            client.remove(["set/1.png"])


def test_the_client_adds_and_removes_images(writable_service, picture):
    place = writable_service.service.catalog.find(None).address
    with Client(writable_service.url, "photos", token=TOKEN) as client:
        shown = [Fact("dog"), Fact("person", "riding", "bike")]
        given = {"metadata": [{"n": "1"}, {"n": "2"}], "facts": [None, shown]}
        ids = client.add([picture, picture.read_bytes()], ids=["a", "b"], **given)
        assert ids == ["a", "b"]
        index = FactIndex.open(place)
        (hit,) = client.query("<dog>", 1, where="id = 'b'")
        assert [hit] == index.query("<dog>", 1, where="id = 'b'")
        assert hit.facts == tuple(shown)
        vectors = dict(zip(index.ids, index.vectors, strict=True))
        np.testing.assert_array_equal(vectors["a"], vectors["b"])
        assert {"a", "b"} <= {hit.id for hit in client.similar(picture, 5)}
        assert client.facts_of(picture, 3) == index.facts_of(vectors["a"], 3)
        assert client.thumbnail("a").startswith(b"\xff\xd8")
        assert client.remove(["a"]) == 1
        assert client.remove(pattern="b*", where="n = '2'") == 1
        assert len(client) == len(FactIndex.open(place))


def test_a_service_that_is_not_there_is_told():
    with pytest.raises(ClientError, match="cannot be reached"):
        Client("http://127.0.0.1:9").query("<dog>")


def test_addresses_and_tokens_that_cannot_be_are_told():
    for url in ("http://127.0.0.1:99999", "http://[::1"):
        with pytest.raises(FactlearnError, match="is no address of a service"):
            Client(url)
    with pytest.raises(ClientError, match="cannot be reached"):
        len(Client("127.0.0.1"))
    for token in ("schlüssel-zum-dienst", "two\nlines-of-a-file"):
        with pytest.raises(FactlearnError, match="not plain ASCII"):
            Client(token=token)


def test_a_service_that_does_not_answer_in_time_is_told():
    with socket.create_server(("127.0.0.1", 0)) as silent:
        url = f"http://127.0.0.1:{silent.getsockname()[1]}"
        with pytest.raises(ClientError, match=r"gave no answer in 0\.2 s"):
            Client(url, timeout=0.2).query("<dog>")


def test_an_address_at_which_something_else_answers_is_told(tmp_path):
    (tmp_path / "api").mkdir()
    (tmp_path / "api" / "v1").write_text("<h1>Another site</h1>")
    handler = functools.partial(SimpleHTTPRequestHandler, directory=tmp_path)
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as other:
        threading.Thread(target=other.serve_forever, daemon=True).start()
        with pytest.raises(ClientError, match="is not a factlearn service"):
            len(Client(f"http://127.0.0.1:{other.server_port}"))
        other.shutdown()


def test_what_cannot_be_sent_is_refused_before_anything_is_changed(plain, picture, tmp_path):
    with serving(plain.path) as running, Client(running.url, token=TOKEN) as client:
        with pytest.raises(FactlearnError, match="1 ids do not fit 2 images"):
            client.add([picture, picture], ids=["a"])
        with pytest.raises(ImageError, match=r"gone\.png cannot be read \(No such file or directory\)"):
            client.similar(tmp_path / "gone.png")
        assert client.remove(["nothing", "set/1.png"]) == plain.remove(["nothing", "set/1.png"]) + 1 == 1
        with pytest.raises(FactlearnError, match="no index 'other'"):
            Client(running.url, "other", token=TOKEN).remove(["set/2.png"])
        with pytest.raises(ClientError, match="needs a token") as refused:
            Client(running.url, token="not-the-right-token").remove(["set/2.png"])
        assert refused.value.status == 401
