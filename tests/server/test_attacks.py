"""What attackers try, one test each; docs/service.md has the table."""

import csv
import io
import json
import logging
import os
import socket
import struct
import threading
import time
import zlib
from contextlib import suppress

import pytest
from PIL import Image

from factlearn.server.settings import Limits
from tests.server.conftest import make_plain
from tests.server.running import BEARER, TOKEN, serving, wait_until

SMALL = Limits(
    upload_bytes=200_000, upload_pixels=1_000_000, body_bytes=50_000, header_seconds=1.0, body_seconds=1.0,
    decode_seconds=5.0, connections_per_client=20,
)  # fmt: skip


@pytest.fixture(scope="module")
def small(tmp_path_factory):
    """A service with small limits."""
    root = tmp_path_factory.mktemp("small")
    (root / "secret.txt").write_text("a secret beside the index")
    with serving(make_plain(root).path, limits=SMALL) as running:
        yield running


def upload(running, content, name="x.png", path="/api/v1/facts"):
    return running.http.post(path, files={"image": (name, content)}, headers=BEARER)


def png_of(width, height):
    """The file of an all-black picture: a few hundred bytes for any number of pixels."""

    def chunk(kind, data):
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    packer = zlib.compressobj(9)
    data = b"".join(packer.compress(b"\0" * (1 + width // 8)) for _ in range(height)) + packer.flush()
    head = struct.pack(">IIBBBBB", width, height, 1, 0, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + chunk(b"IDAT", data) + chunk(b"IEND", b"")


@pytest.mark.parametrize(
    "path",
    [
        "/../secret.txt",
        "/%2e%2e/secret.txt",
        "/..%2fsecret.txt",
        "/....//secret.txt",
        "//etc/passwd",
        "/app.js/../../app.py",
        "/api/v1/images/..%2f..%2fsecret.txt/thumb",
        "/api/v1/images/%2fetc%2fpasswd",
        "/api/v1/images/%2fetc%2fpasswd/thumb",
        "/api/v1/images/set%2F1.png%00/thumb",
        "/api/v1/runs/..%2f..%2f/metrics",
        "/api/v1/search?q=%3Cdog%3E&index=..%2fsecret",
        "/app.py",
        "/__init__.py",
    ],
)
def test_traversal_finds_nothing(small, path):
    with socket.create_connection(("127.0.0.1", small.port), 30) as raw:  # a client library would tidy the path up
        raw.sendall(f"GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n".encode())
        answer = b"".join(iter(lambda: raw.recv(65536), b""))
    assert answer.split(b" ")[1] in (b"404", b"400", b"422"), answer
    assert b"root:" not in answer
    assert b"a secret" not in answer


def test_no_address_that_a_client_names_is_fetched(small):
    """Nothing takes a URL: not as a query, an id, a fact, a picture, or an index."""
    asked = threading.Event()
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def watch():
            try:
                listener.accept()
                asked.set()
            except OSError:
                pass

        threading.Thread(target=watch, daemon=True).start()
        url = f"http://127.0.0.1:{listener.getsockname()[1]}/picture.png"
        for path in ("/search", "/understand"):
            small.http.get(f"/api/v1{path}", params={"q": url})
        small.http.get("/api/v1/search", params={"q": "<dog>", "index": url})
        small.http.get("/api/v1/images/" + url.replace("/", "%2F") + "/thumb")
        small.http.post("/api/v1/facts", data={"image": url})
        small.http.post("/api/v1/search/image", data={"image": url, "url": url})
        upload(small, url.encode(), "link.url")
        svg = f'<svg xmlns="http://www.w3.org/2000/svg"><image href="{url}"/></svg>'
        assert upload(small, svg.encode(), "x.svg").status_code == 422
        assert not asked.wait(0.5)


def test_a_decompression_bomb_is_refused_by_its_header(small):
    bomb = png_of(4_000, 4_000)  # 16 million pixels in a few kilobytes
    assert len(bomb) < 10_000
    response = upload(small, bomb)
    assert response.status_code == 422
    assert "pixels" in response.json()["detail"]
    assert str(small.service.spool) not in response.text


def test_a_picture_that_takes_too_long_costs_its_worker_and_nothing_else(tmp_path):
    hurried = Limits(decode_seconds=0.001)
    with serving(make_plain(tmp_path).path, limits=hurried) as running:
        out = io.BytesIO()
        Image.effect_noise((1500, 1500), 60).save(out, "PNG")
        response = upload(running, out.getvalue())
        assert (response.status_code, "too long" in response.json()["detail"]) == (422, True)
        assert running.get("/search", q="<dog>", k=1)["hits"]
        assert b"factlearn_workers_killed_total 1.0" in running.http.get("/metrics").content
        assert not list(running.service.spool.iterdir())


def test_oversized_requests_are_refused_whether_announced_or_not(small):
    big = b"x" * 400_000
    assert upload(small, big).status_code == 413
    assert small.http.post("/api/v1/search", content=big).status_code == 413

    def endless():
        for _ in range(40):
            yield b"x" * 10_000

    response = small.http.post("/api/v1/search", content=endless(), headers={"Content-Type": "application/json"})
    assert response.status_code == 413
    assert small.http.get("/api/v1/search", params={"q": "x" * 600}).status_code == 422
    with socket.create_connection(("127.0.0.1", small.port), 30) as raw, suppress(OSError):
        raw.sendall(b"GET /api/v1/search?q=" + b"x" * 100_000)  # the head alone is too long
        assert raw.recv(100).startswith((b"HTTP/1.1 400", b""))
    assert small.http.get("/healthz").status_code == 200


def test_slow_clients_are_cut_off_and_do_not_block_others(small):
    """Slow loris: heads that never end, bodies that never come, connections that say nothing."""
    head = b"GET /healthz HTTP/1.1\r\nHost: localhost\r\nX-Slow: "
    body = (
        f"POST /api/v1/search HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {TOKEN}\r\n"
        "Content-Type: application/json\r\nContent-Length: 1000\r\n\r\n{"
    ).encode()
    slow = [socket.create_connection(("127.0.0.1", small.port), 30) for _ in range(9)]
    for number, each in enumerate(slow):
        each.sendall((head, body, b"")[number % 3])
    started = time.monotonic()
    assert small.http.get("/healthz").status_code == 200
    for number, each in enumerate(slow):
        each.settimeout(30)
        try:
            said = each.recv(1000)
        except ConnectionResetError:
            said = b""
        assert (b"408" in said) == (number % 3 == 1), said
        each.close()
    assert time.monotonic() - started < 30


def test_one_address_cannot_hold_all_connections(small):
    held = [socket.create_connection(("127.0.0.1", small.port), 30) for _ in range(40)]
    refused = 0
    for each in held:
        each.settimeout(0.2)
        try:
            refused += each.recv(1) == b""
        except (TimeoutError, ConnectionResetError) as error:
            refused += isinstance(error, ConnectionResetError)
    for each in held:
        each.close()
    assert refused >= 15
    wait_until(lambda: small.http.get("/healthz").status_code == 200)


WRITES = [
    ("POST", "/api/v1/images"),
    ("DELETE", "/api/v1/images/set%2F1.png"),
    ("POST", "/api/v1/importance"),
    ("DELETE", "/api/v1/jobs/1"),
    ("POST", "/api/v1/session"),
]


@pytest.mark.parametrize(("method", "path"), WRITES)
@pytest.mark.parametrize(
    "authorization",
    [
        None,
        "",
        "Bearer",
        "Bearer x",
        f"Bearer {TOKEN[:-1]}",
        f"Bearer {TOKEN}x",
        f"Basic {TOKEN}",
        TOKEN,
        "Bearer \u00e9",
    ],
)
def test_nothing_changes_without_the_right_token(small, method, path, authorization):
    headers = {} if authorization is None else {"Authorization": authorization.encode()}
    response = small.http.request(method, path, headers=headers)
    assert response.status_code == 401
    assert "Bearer" in response.headers["www-authenticate"]
    assert "set/1.png" in {image["id"] for image in small.get("/images")["images"]}


def test_reading_can_be_made_to_need_the_token_too(tmp_path):
    with serving(make_plain(tmp_path).path, token_to_read=True) as running:
        for path in ("/api/v1/search?q=%3Cdog%3E", "/api/v1/facts", "/metrics", "/api/v1/openapi.json"):
            assert running.http.get(path).status_code == 401
            assert running.http.get(path, headers=BEARER).status_code == 200
        stranger = running.get("")  # learns that a token is needed, and nothing else
        assert (stranger["token_to_read"], stranger["indexes"]) == (True, [])
        assert running.http.get("/api/v1", headers={"Authorization": f"Bearer {TOKEN}x"}).status_code == 401
        assert running.http.get("/api/v1", headers=BEARER).json()["indexes"][0]["name"] == "plain"
        assert running.http.get("/healthz").status_code == 200
        assert running.http.get("/").status_code == 200  # the page itself holds nothing
        running.http.post("/api/v1/session", headers=BEARER)  # sets the cookie
        assert running.http.get("/api/v1/search?q=%3Cdog%3E").status_code == 200
        assert running.get("")["indexes"][0]["images"] == 120
        assert running.http.delete("/api/v1/images/set%2F1.png").status_code == 401  # a cookie changes nothing
        running.http.cookies.clear()
        running.http.cookies.set("factlearn-reader", "0" * 64)
        assert running.http.get("/api/v1/search?q=%3Cdog%3E").status_code == 401


@pytest.mark.parametrize("host", ["evil.example", "evil.example:8765", "127.0.0.1.evil.example", "", "localhost.evil"])
def test_dns_rebinding_is_refused_by_the_host_name(small, host):
    assert small.http.get("/api/v1", headers={"Host": host}).status_code == 421


def test_pages_of_other_sites_cannot_use_the_service(small):
    for origin in ("http://evil.example", "null", f"http://127.0.0.1:{small.port + 1}", "http://[", "file://"):
        response = small.http.get("/api/v1", headers={"Origin": origin, **BEARER})
        assert response.status_code == 403, origin
    own = {"Origin": small.url}
    assert small.http.get("/api/v1", headers=own).status_code == 200
    assert "access-control-allow-origin" not in small.http.get("/api/v1", headers=own).headers


def test_every_answer_is_strict_about_what_a_browser_may_do_with_it(small):
    for path in ("/", "/api/v1", "/nothing", "/app.js", "/healthz"):
        headers = small.http.get(path).headers
        policy = headers["content-security-policy"]
        assert "default-src 'none'" in policy
        assert "unsafe" not in policy
        assert headers["x-content-type-options"] == "nosniff"
        assert headers["x-frame-options"] == "DENY"
        assert headers["cross-origin-resource-policy"] == "same-origin"
        assert headers["referrer-policy"] == "no-referrer"


def test_scripts_in_names_and_metadata_stay_text(writable_service, picture):
    script = "<script>alert(1)</script>"
    running = writable_service
    fields = {"id": script, "metadata": json.dumps({script: f'"><img src=x onerror={script}>'})}
    files = {"image": (f"{script}.png", picture.read_bytes())}
    running.post("/images", 201, files=files, data=fields)
    for path in ("/images/" + "%3Cscript%3Ealert(1)%3C%2Fscript%3E", "/columns", "/images"):
        response = running.http.get(f"/api/v1{path}")
        assert response.status_code == 200
        assert response.headers["content-type"] == "application/json"
        assert response.headers["x-content-type-options"] == "nosniff"
    hit = running.get("/images/%3Cscript%3Ealert(1)%3C%2Fscript%3E")
    assert hit["id"] == script
    assert "<" not in hit["thumb"]
    stored = os.listdir(f"{running.service.catalog.find(None).address}.uploads")
    assert all("<" not in name for name in stored)
    for wrong in ("a\nb", "a\x00b", "\x1b[31m"):
        response = running.http.post("/api/v1/images", files=files, data={"id": wrong}, headers=BEARER)
        assert response.status_code == 422


def test_a_spreadsheet_gets_no_formulas(tmp_path):
    from factlearn.server.downloads import as_csv

    evil = ["=1+1", "+1", "-1", "@SUM(A1)", "\t=1", "\r=1", '=HYPERLINK("http://evil")']
    items = [{"id": text, "path": f"/x/{text}", "fact": None, f"metadata.{text}": text} for text in evil]
    rows = list(csv.reader(io.StringIO(as_csv(items, paths=False).decode())))
    assert all(not value.startswith(("=", "+", "-", "@", "\t", "\r")) for row in rows for value in row)
    assert rows[1][0] == "'=1+1"


def test_a_request_cannot_forge_lines_of_the_log(small, caplog):
    with caplog.at_level(logging.INFO, "factlearn.server"):
        small.http.get("/nothing%0a2026-01-01 INFO forged%0d%0a%1b[31m", headers={"User-Agent": "x"})
        wait_until(lambda: any("nothing" in record.getMessage() for record in caplog.records))
    (line,) = [record.getMessage() for record in caplog.records if "nothing" in record.getMessage()]
    assert "\n" not in line
    assert "\r" not in line
    assert "\x1b" not in line
    assert json.loads(line)["status"] == 404


def test_one_client_cannot_ask_all_the_time(tmp_path):
    with serving(make_plain(tmp_path).path, rate=2.0) as running:
        codes = [running.http.get("/api/v1").status_code for _ in range(40)]
        assert codes[0] == 200
        limited = running.http.get("/api/v1")
        assert 429 in codes
        if limited.status_code == 429:
            assert int(limited.headers["retry-after"]) >= 1


def test_damaged_and_strange_pictures_are_refused_with_a_sentence(small, picture):
    whole = picture.read_bytes()
    strange = [
        b"",
        b"\x89PNG\r\n\x1a\n",
        whole[: len(whole) // 2],
        b"GIF89a" + b"\xff" * 50,
        b"%!PS-Adobe-3.0 EPSF-3.0\n",
    ]
    for content in strange:
        response = upload(small, content)
        assert response.status_code == 422, content[:10]
        assert response.json()["detail"].count("\n") == 0
        assert "/tmp" not in response.text
