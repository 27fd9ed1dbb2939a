"""Tars with pictures, and an object store on this machine that speaks S3 over HTTP."""

import io
import json
import tarfile

import pytest

from tests.conftest import draw


@pytest.fixture
def shard(tmp_path):
    """Write a tar of pictures: a member per name, its seed as content, or bytes as they are."""

    def write(name="shard-0000.tar", mode="w", **members):
        path = tmp_path / name
        with tarfile.open(path, mode) as archive:
            for member, content in members.items():
                add(archive, member.replace("__", "/").replace("_", "."), content, tmp_path)
        return path

    return write


def add(archive, name, content, folder):
    if isinstance(content, int):
        draw(content % 4, content, folder / "drawn.png")
        content = (folder / "drawn.png").read_bytes()
    if isinstance(content, dict):
        content = json.dumps(content).encode()
    header = tarfile.TarInfo(name)
    header.size = len(content)
    archive.addfile(header, io.BytesIO(content))


@pytest.fixture(scope="session")
def endpoint():
    """A server that speaks S3, on a free port of loopback."""
    from moto.server import ThreadedMotoServer

    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    yield f"http://{host}:{port}"
    server.stop()


@pytest.fixture
def bucket(endpoint, monkeypatch, request):
    """An empty bucket, reached by what a user would have in the environment."""
    import fsspec
    import s3fs

    for name, value in {
        "AWS_ACCESS_KEY_ID": "test", "AWS_SECRET_ACCESS_KEY": "test", "AWS_DEFAULT_REGION": "us-east-1",
        "AWS_ENDPOINT_URL": endpoint,
    }.items():  # fmt: skip
        monkeypatch.setenv(name, value)
    s3fs.S3FileSystem.clear_instance_cache()
    store = fsspec.filesystem("s3")
    name = f"photos-{abs(hash(request.node.nodeid)) % 10**9}"
    store.mkdir(name)
    yield f"s3://{name}"
    store.rm(name, recursive=True)
    s3fs.S3FileSystem.clear_instance_cache()
