"""A Milvus server that encrypts its connections, with a certificate of an authority of our own."""

import subprocess

import pytest

pytest.importorskip("pymilvus")

from factlearn.errors import FactIndexError
from factlearn.retrieval import FactIndex
from tests.retrieval.milvus.images import collection, make
from tests.retrieval.milvus.server import Server, why_not

pytestmark = [pytest.mark.slow, pytest.mark.skipif(why_not() is not None, reason=f"{why_not()}")]


def certificate(folder, name, *signed):
    """A key and a certificate for localhost, made by openssl."""
    made = ["-keyout", folder / f"{name}.key", "-out", folder / f"{name}.pem"]
    names = ["-subj", f"/CN={name}", "-addext", "subjectAltName=DNS:localhost,IP:127.0.0.1"]
    kind = ["-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2"]
    subprocess.run(["openssl", "req", *kind, *names, *made, *signed], check=True, capture_output=True)
    return folder / f"{name}.pem"


@pytest.fixture(scope="module")
def certificates(tmp_path_factory):
    folder = tmp_path_factory.mktemp("certificates")
    ca = certificate(folder, "ca")
    certificate(folder, "server", "-CA", ca, "-CAkey", folder / "ca.key")
    certificate(folder, "other")
    return folder


@pytest.fixture(scope="module")
def server(tmp_path_factory, certificates):
    settings = {"tls_mode": 1, "server_pem_path": str(certificates / "server.pem")}
    settings |= {"server_key_path": str(certificates / "server.key"), "ca_pem_path": str(certificates / "ca.pem")}
    with Server(tmp_path_factory.mktemp("server"), **settings) as running:
        yield running


def test_an_index_lives_behind_an_encrypted_connection(server, certificates):
    address = server.address(options=f"?tls=true&ca={certificates / 'ca.pem'}")
    index = make(address, collection(30))
    assert index.path == address
    assert FactIndex.open(index.path).query("<dog>") == index.query("<dog>")


def test_a_connection_that_is_not_encrypted_or_trusted_is_refused_with_a_sentence(server, certificates):
    with pytest.raises(FactIndexError, match="whether it wants TLS"):
        FactIndex.open(server.address(options="?timeout=2"))
    with pytest.raises(FactIndexError, match="cannot be reached"):
        FactIndex.open(server.address(options=f"?tls=true&ca={certificates / 'other.pem'}&timeout=2"))
