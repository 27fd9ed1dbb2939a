"""A real Milvus server: the same answers, its failures as sentences, and nothing lost that was acknowledged.

`make milvus-test` runs these; see `server.py`. What takes longer is in `benchmarks/milvus_server.py`.
"""

import random
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

pytest.importorskip("pymilvus")

from factlearn.errors import FactIndexError
from factlearn.retrieval import FactIndex
from factlearn.retrieval.copying import copy
from factlearn.retrieval.milvus import lease
from tests.cli.commands import factlearn
from tests.retrieval.milvus.images import (
    LANGUAGE,
    check_random_queries,
    collection,
    described,
    in_two_steps,
    random_filter,
)
from tests.retrieval.milvus.server import Server, why_not

pytestmark = [pytest.mark.slow, pytest.mark.skipif(why_not() is not None, reason=f"{why_not()}")]
PASSWORD = "s3cret-pass"
USER = f"root:{PASSWORD}@"


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    from pymilvus import MilvusClient

    with Server(tmp_path_factory.mktemp("server"), **{"common.security.authorizationEnabled": "true"}) as running:
        client = MilvusClient(f"http://127.0.0.1:{running.port}", token="root:Milvus")
        client.update_password("root", "Milvus", PASSWORD)
        client.close()
        yield running


@pytest.fixture(scope="module")
def both(server, tmp_path_factory):
    """The same images on the server and in a folder, in two steps by two versions of the model."""
    images = collection()
    folder = tmp_path_factory.mktemp("both") / "index"
    in_milvus, in_folder = (in_two_steps(place, images) for place in (server.address(credentials=USER), folder))
    return in_milvus, in_folder, images


def address(server, options="", credentials=USER):
    return server.address(credentials=credentials, options=options)


def more(prefix, count=20):
    images = collection(count, seed=7)
    return {**images, "ids": [f"{prefix}/{number}" for number in range(count)]}


def test_random_queries_answer_as_the_folder_and_as_brute_force(both):
    check_random_queries(both, 200, seed=1)


def test_random_filters_let_the_same_images_pass(both):
    in_milvus, _, images = both
    pick, known = random.Random(3), described(images)
    for _ in range(100):
        where, says = random_filter(pick, known, depth=3)
        expected = sorted(image["id"] for image in known if says(image) is True)
        assert [item["id"] for item in in_milvus.items(where)] == expected, where


def test_an_index_is_copied_to_the_server_and_back(both, server, tmp_path):
    in_milvus, in_folder, _ = both
    back = copy(in_milvus, tmp_path / "back")
    order = [np.argsort(np.asarray(index.ids, object)) for index in (back, in_folder)]
    np.testing.assert_array_equal(back.vectors[order[0]], in_folder.vectors[order[1]])
    assert back.models == in_folder.models
    assert back.query("<dog>", 300) == in_folder.query("<dog>", 300)


def test_a_query_does_not_wait_for_the_server_to_catch_up(both):
    in_milvus = both[0]
    times = []
    for _ in range(30):
        began = time.perf_counter()
        in_milvus.query("<person, riding, *>")
        times.append(time.perf_counter() - began)
    assert np.median(times) < 0.15  # three strongly consistent calls take a second


READER = """
import sys
from factlearn.retrieval import FactIndex
index = FactIndex.open(sys.argv[1])
print(len(index), flush=True)
for line in sys.stdin:
    print(len(index.query("<dog>", 1000, where="id like 'seen/%'")), len(index), flush=True)
"""


def test_another_process_sees_what_was_written_before_it_opened_and_soon_what_comes_later(both, server):
    index = both[0]
    count = len(index)

    def reader():
        return subprocess.Popen(
            [sys.executable, "-c", READER, address(server)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )

    def seen(process):
        process.stdin.write("\n")
        process.stdin.flush()
        return [int(number) for number in process.stdout.readline().split()]

    def soon(process, expected):
        until = time.monotonic() + 2
        while (found := seen(process)) != expected and time.monotonic() < until:
            time.sleep(0.05)
        return found == expected

    with reader() as early:
        assert int(early.stdout.readline()) == count
        index.add(**more("seen"), model="m2")
        with reader() as late:
            assert int(late.stdout.readline()) == count + 20
            assert seen(late) == [20, count + 20]
            late.stdin.close()
        assert soon(early, [20, count])  # images at once, their number after `reload`
        index.remove(pattern="seen/*")
        assert soon(early, [0, count])
        early.stdin.close()


def test_of_two_writers_at_the_same_time_one_is_kept_out(both, server, monkeypatch):
    monkeypatch.setattr(lease, "PATIENCE", 1.0)
    writers, said = [FactIndex.open(address(server)) for _ in range(2)], []

    def add(turn):
        try:
            writers[turn].add(**more(f"writer {turn}"), model="m2")
        except FactIndexError as error:
            said.append(str(error))

    with ThreadPoolExecutor(2) as pool:
        list(pool.map(add, range(2)))
    assert len(said) == 1
    assert "is being written by another process" in said[0]
    index = both[0]
    index.reload()
    assert index.verify() == []
    assert index.remove(pattern="writer */*") == 20


def test_images_that_are_not_there_are_an_error_and_not_a_smaller_answer(server, tmp_path):
    from pymilvus import MilvusClient

    index = FactIndex.create(
        server.address("partial", USER, "?timeout=1"),
        **more("p"),
        language=LANGUAGE,
        model="m1",
    )
    client = MilvusClient(f"http://127.0.0.1:{server.port}", token=f"root:{PASSWORD}")
    client.delete("partial", filter='id == "p/3"')
    client.query("partial", filter="", output_fields=["count(*)"], consistency_level="Strong")
    with pytest.raises(FactIndexError, match="answers from 19 images instead of 20"):
        index.query("<dog>")
    with pytest.raises(FactIndexError, match="answers from 19 images instead of 20"):
        FactIndex.open(server.address("partial", USER, "?timeout=1"))


def test_images_that_are_there_twice_after_a_crash_are_found_and_given_back_to_be_embedded_again(server):
    from pymilvus import MilvusClient

    place = server.address("twice", USER, "?timeout=1")
    index = FactIndex.create(place, **more("t"), language=LANGUAGE, model="m1")
    client = MilvusClient(f"http://127.0.0.1:{server.port}", token=f"root:{PASSWORD}")
    (row,) = client.query("twice", filter='id == "t/3"', output_fields=["*"], consistency_level="Strong")
    client.insert("twice", [row])  # as if the image that it replaced had come back
    client.query("twice", filter="", output_fields=["count(*)"], consistency_level="Strong")
    with pytest.raises(FactIndexError, match="answers from 21 images instead of 20"):
        index.query("<dog>")
    (lost,) = index.store.restore(place)
    assert lost["id"] == "t/3"
    assert sorted(FactIndex.open(place).ids) == sorted(set(index.ids) - {"t/3"})


def test_credentials_that_are_wrong_or_missing_are_named_and_not_printed(both, server, monkeypatch):
    with pytest.raises(FactIndexError, match="refuses the user name and password") as refused:
        FactIndex.open(address(server, credentials="root:wr0ng@"))
    assert "wr0ng" not in str(refused.value)
    with pytest.raises(FactIndexError, match="refuses a client without user name and password; give them"):
        FactIndex.open(address(server, credentials=""))
    monkeypatch.setenv("MILVUS_TOKEN", f"root:{PASSWORD}")
    assert len(FactIndex.open(address(server, credentials=""))) == len(both[0])


@pytest.mark.parametrize("command", ["info", "verify", "upgrade"])
def test_commands_understand_an_address_and_do_not_print_its_password(both, server, tmp_path, command):
    done = factlearn("index", command, address(server), cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert f"127.0.0.1:{server.port}/pictures" in done.stdout
    assert PASSWORD not in done.stdout + done.stderr


def test_a_frozen_server_is_waited_for_no_longer_than_the_address_says(both, server, tmp_path):
    index = FactIndex.open(address(server, "?timeout=2"))
    server.freeze()
    try:
        for ask in (lambda: index.query("<dog>"), lambda: FactIndex.open(address(server, "?timeout=2"))):
            began = time.monotonic()
            with pytest.raises(FactIndexError, match=r"does not answer|cannot be reached"):
                ask()
            assert time.monotonic() - began < 8
    finally:
        server.thaw()
    server.kill()  # what it is made of has lost touch with each other meanwhile, for good or not
    server.start()
    again = FactIndex.open(address(server, "?timeout=120"))
    assert again.query("<dog>") == both[1].query("<dog>")


def test_what_was_acknowledged_survives_a_kill_and_a_server_that_is_away_is_a_sentence(both, server, tmp_path):
    index, in_folder, _ = both
    for each in (index, in_folder):
        each.add(**more("kept"), model="m2")
    server.kill()
    done = factlearn("query", address(server, "?timeout=2"), "<dog>", cwd=tmp_path)
    assert done.returncode == 2
    assert len(done.stderr.splitlines()) == 1
    assert "cannot be reached (tried for 2 s" in done.stderr
    assert PASSWORD not in done.stderr
    server.start()
    again = FactIndex.open(address(server, "?timeout=120"))
    assert again.query("<dog>", 400) == in_folder.query("<dog>", 400)
    assert again.verify() == []
