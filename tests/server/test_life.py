"""A service over its life: commits of others, damage, load, the end."""

import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import httpx
import pytest

from factlearn.retrieval import FactIndex
from factlearn.server import decoding
from factlearn.server.running import _listening
from factlearn.server.settings import Limits
from factlearn.server.workers import Crashed, Worker
from tests.cli.commands import factlearn
from tests.retrieval.conftest import more_images
from tests.server.conftest import make_plain
from tests.server.running import serving, wait_until


def test_the_commit_of_another_writer_is_taken_into_use_without_dropping_a_request(plain):
    with serving(plain.path) as running:
        stop = threading.Event()

        def ask():
            codes = []
            with httpx.Client(base_url=running.url, timeout=60) as http:
                while not stop.is_set():
                    codes.append(http.get("/api/v1/search", params={"q": "<dog>", "k": 5}).status_code)
            return codes

        with ThreadPoolExecutor(3) as pool:
            asking = [pool.submit(ask) for _ in range(3)]
            writer = FactIndex.open(plain.path)
            for number in range(4):
                writer.add(**more_images(5, seed=number, prefix=f"late{number}"), model="m1")
                wait_until(lambda expected=len(writer): running.get("")["indexes"][0]["images"] == expected)
            writer.remove(["late0/0.png"])
            wait_until(lambda: running.get("")["indexes"][0]["images"] == len(writer))
            stop.set()
            codes = [code for each in asking for code in each.result()]
        assert set(codes) == {200}
        assert running.http.get("/api/v1/images/late3%2F1.png").status_code == 200
        assert running.http.get("/api/v1/images/late0%2F0.png").status_code == 404


def test_a_damaged_index_is_taken_out_with_the_reason_while_the_others_go_on(tmp_path):
    whole, other = make_plain(tmp_path, "whole"), make_plain(tmp_path, "other")
    rows = next((other.path / "segments").glob("*/rows.npy"))
    before = rows.read_bytes()
    with serving(whole.path, other.path, verify_seconds=0.2) as running:
        assert running.http.get("/readyz").json()["indexes"]["other"]["ready"]
        with open(rows, "r+b") as stream:
            stream.seek(-5, os.SEEK_END)
            stream.write(bytes([before[-5] ^ 1]))
        wait_until(lambda: not running.http.get("/readyz").json()["indexes"]["other"]["ready"], 60)
        ready = running.http.get("/readyz")
        assert ready.status_code == 200
        assert ready.json()["indexes"]["whole"] == {"ready": True, "reason": None}
        assert "damaged" in ready.json()["indexes"]["other"]["reason"]
        assert running.http.get("/readyz", params={"index": "other"}).status_code == 503
        refused = running.http.get("/api/v1/search", params={"q": "<dog>", "index": "other"})
        assert refused.status_code == 503
        assert "damaged" in refused.json()["detail"]
        assert "retry-after" in refused.headers
        assert running.get("/search", q="<dog>", index="whole")["hits"]
        rows.write_bytes(before)  # repaired
        wait_until(lambda: running.http.get("/readyz", params={"index": "other"}).status_code == 200, 60)
        assert running.get("/search", q="<dog>", index="other")["hits"]


def test_an_index_that_is_not_there_does_not_keep_the_others_from_being_served(tmp_path):
    with serving(make_plain(tmp_path).path, tmp_path / "missing") as running:
        assert not running.http.get("/readyz").json()["indexes"]["missing"]["ready"]
        assert running.get("/search", q="<dog>")["hits"]
        make_plain(tmp_path, "missing")
        wait_until(lambda: running.http.get("/readyz", params={"index": "missing"}).status_code == 200, 60)


def test_an_index_in_milvus_is_served_like_a_folder(tmp_path):
    folder = make_plain(tmp_path)
    address = f"milvus:{tmp_path / 'images.db'}/photos"
    make_plain(tmp_path, place=address)
    with serving(address) as running:
        asked = {"q": "<person, riding>", "k": 30, "where": "year > 2000"}
        found = running.get("/search", **asked, index="photos")["hits"]
        expected = folder.query("<person, riding>", 30, where="year > 2000")
        assert [(hit["id"], hit["score"]) for hit in found] == [(hit.id, hit.score) for hit in expected]
        assert running.get("/images/set%2F7.png")["metadata"] == {"split": "test", "year": "1997"}
        assert "no column" in running.get("/search", 400, q="<dog>", where="nothing = 1")["detail"]


def test_concurrent_queries_share_sweeps_and_get_their_own_answers(plain_service):
    texts = ["<dog>", "<person, riding>", "<woman, holding, dog>", "<*, *, bike>"]
    index = plain_service.service.catalog.find(None).current().index
    expected = {(text, k): [hit.id for hit in index.query(text, k)] for text in texts for k in (3, 30, 100)}

    def ask(place):
        text, k = list(expected)[place % len(expected)]
        found = plain_service.get("/search", q=text, k=k)
        return (text, k), [hit["id"] for hit in found["hits"]]

    with ThreadPoolExecutor(16) as pool:
        for asked, found in pool.map(ask, range(72)):
            assert found == expected[asked]
    page = plain_service.http.get("/metrics").text
    sums = {line.split()[0]: float(line.split()[1]) for line in page.splitlines() if line.startswith("factlearn_batch")}
    assert sums["factlearn_batch_queries_sum"] >= sums["factlearn_batch_queries_count"]


def test_a_full_queue_answers_503_with_the_time_to_come_back(plain):
    with serving(plain.path, limits=Limits(waiting_queries=0)) as running:  # full from the start
        refused = running.http.get("/api/v1/search?q=%3Cdog%3E&k=1")
        assert refused.status_code == 503
        assert refused.headers["retry-after"] == "1"
        assert refused.headers["content-type"] == "application/problem+json"
        assert running.http.get("/healthz").status_code == 200


@pytest.fixture
def command(plain):
    """The command as a user starts it, and the address that it prints."""
    code = "from factlearn.cli import main; main()"
    process = subprocess.Popen(
        [sys.executable, "-c", code, "serve", str(plain.path), "--port", "0", "--rate", "0"],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    line = process.stdout.readline()
    assert line.startswith("Serving plain at http://127.0.0.1:"), process.communicate(timeout=30)
    yield process, line.split()[3].partition("#token=")[0], line.strip().partition("#token=")[2]
    if process.poll() is None:
        process.kill()
    process.communicate(timeout=30)


def test_the_end_waits_for_requests_under_way(command):
    process, url, token = command
    assert len(token) > 20
    body = json.dumps({"queries": ["<*, riding>", "<dog>"] * 32, "k": 100})

    def ask():
        answered = 0
        with httpx.Client(base_url=url, timeout=60) as http:
            for _ in range(200):
                try:
                    response = http.post("/api/v1/search", content=body, headers={"Content-Type": "application/json"})
                except httpx.ConnectError:
                    return answered, None  # it no longer takes new ones
                except httpx.HTTPError as error:
                    return answered, error
                assert response.status_code == 200
                assert len(response.json()["answers"]) == 64
                answered += 1
        return answered, None

    with ThreadPoolExecutor(2) as pool:
        asking = [pool.submit(ask) for _ in range(2)]
        wait_until(lambda: httpx.get(f"{url}metrics").text.count("factlearn_batch_queries_count 0.0") == 0)
        os.kill(process.pid, signal.SIGTERM)
        ends = [each.result() for each in asking]
    assert process.wait(60) in (0, -signal.SIGTERM)
    broken = [error for _, error in ends if error is not None]
    # a kept connection may be closed between two requests, never in the middle of an answer
    assert all(isinstance(error, httpx.RemoteProtocolError | httpx.ReadError | httpx.WriteError) for error in broken)
    assert all("without sending" in str(error) or "reset" in str(error).lower() for error in broken), broken
    assert sum(answered for answered, _ in ends) > 0


def test_the_end_is_quiet_while_a_worker_is_still_asked_about_the_run(learned):
    process = subprocess.Popen(
        [sys.executable, "-c", "from factlearn.cli import main; main()", "serve", str(learned / "indexes" / "photos"),
         "--port", "0", "--quiet"],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    assert process.stdout.readline().startswith("Serving photos")
    process.terminate()  # the worker imports torch at this moment
    _, complaints = process.communicate(timeout=60)
    assert complaints == ""


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["plain", "--token-file", "nowhere"], "token file"),
        (["plain", "--host", "256.1.1.1"], "Cannot listen on 256.1.1.1:0 ("),
        (["plain", "--host", ""], "no host is named"),
        (["plain", "--host", "." * 80], "Cannot listen"),
        (["plian"], "plian is not an index"),
        (["."], ". is not an index"),
        (["plain", "plain"], "Two indexes are called 'plain'"),
        (["plain", "--run", "nowhere"], "nowhere holds no run"),
        (["plain", "--uploads", "plain/index.json"], "plain/index.json is not a folder"),
        (["plain", "--proxy", "nginx"], "not 'nginx'"),
    ],
)
def test_a_mistaken_start_ends_with_a_sentence(plain, tmp_path, caplog, arguments, sentence):
    before = os.environ.get("FACTLEARN_OFFLINE")
    done = factlearn("serve", *arguments, "--port", "0", cwd=tmp_path)
    assert os.environ.get("FACTLEARN_OFFLINE") == before  # only the service itself must not download
    assert done.returncode == 2
    assert sentence in done.stderr
    assert len(done.stderr.strip().splitlines()) == 1
    assert not caplog.records  # which outside of tests would be lines as well


def test_a_port_in_use_is_said_at_once(plain, tmp_path, caplog):
    with socket.create_server(("127.0.0.1", 0)) as other:
        done = factlearn("serve", "plain", "--port", other.getsockname()[1], cwd=tmp_path)
    assert done.returncode == 2
    assert done.stderr.count("\n") == 1
    assert "(Address already in use); choose another --host or --port." in done.stderr
    assert not caplog.records


def test_a_start_says_which_index_cannot_be_searched(plain, tmp_path):
    (plain.path / "index.json").write_text("{}")
    command = [sys.executable, "-c", "from factlearn.cli import main; main()", "serve", str(plain.path), "--port", "0"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout.readline().startswith("Serving plain at ")
        assert process.stdout.readline().startswith("plain cannot be searched: ")
        process.terminate()


def test_workers_end_even_while_they_start():
    for attempt in range(30):
        worker = Worker(decoding.work, f"worker-{attempt}")
        with ThreadPoolExecutor(1) as pool:
            started = pool.submit(worker.start)
            time.sleep(attempt * 2e-4)
            worker.close()
        assert started.exception() is None or isinstance(started.exception(), Crashed)
        assert worker.pid is None or not os.path.exists(f"/proc/{worker.pid}")


def test_connections_send_at_once():
    """Otherwise the body of an answer waits until its head is acknowledged, which takes clients 40 ms."""
    with (
        _listening("127.0.0.1", 0) as (listening,),
        socket.create_connection(listening.getsockname()),
        listening.accept()[0] as connection,
    ):
        assert connection.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)
