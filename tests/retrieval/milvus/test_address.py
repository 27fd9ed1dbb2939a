"""Addresses of Milvus indexes are read, and shown without their secrets."""

import pytest

from factlearn.errors import FactIndexError
from factlearn.retrieval import store_at
from factlearn.retrieval.milvus.address import TIMEOUT, Address


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("milvus:pictures", "names no .db file"),
        ("milvus:folder/pictures", "names no .db file"),
        ("milvus:///pictures", "names no host"),
        ("milvus://host:port/pictures", "names no host"),
        ("milvus://host", "not a Milvus collection name"),
        ("milvus:file.db/2 pictures", "not a Milvus collection name"),
    ],
)
def test_addresses_of_another_form_are_refused(text, message):
    with pytest.raises(FactIndexError, match=message):
        Address.parse(text)


def test_addresses_are_read_and_shown_without_secrets(monkeypatch):
    monkeypatch.delenv("MILVUS_TOKEN", raising=False)
    address = Address.parse("milvus://me:p%40ss@example.org/pictures?tls=true")
    assert (address.uri, address.collection, address.token) == ("https://example.org:19530", "pictures", "me:p@ss")
    assert address.place == "milvus://example.org:19530/pictures?tls=true"
    assert "p@ss" not in repr(address)
    monkeypatch.setenv("MILVUS_TOKEN", "token")
    assert Address.parse("milvus://[::1]:1234/a") == Address("http://[::1]:1234", "a", "milvus://[::1]:1234/a", "token")


@pytest.mark.parametrize("options", ["", "?tls=true", "?timeout=5", "?tls=true&timeout=5"])
def test_what_is_shown_of_an_address_is_an_address_without_its_secret(options, monkeypatch):
    monkeypatch.delenv("MILVUS_TOKEN", raising=False)
    text = f"milvus://me:s3cret@host:1/pictures{options}"
    shown = store_at(text).shown(text)
    assert "s3cret" not in shown
    assert shown == f"milvus://host:1/pictures{options}"
    again = Address.parse(shown)
    assert (again.uri, again.timeout, again.token) == (Address.parse(text).uri, Address.parse(text).timeout, "")


def test_certificates_are_given_as_pymilvus_wants_them(tmp_path):
    for name in ("ca", "cert", "key"):
        (tmp_path / f"{name}.pem").write_text("")
    ca, cert, key = (f"{name}={tmp_path / name}.pem" for name in ("ca", "cert", "key"))
    one = Address.parse(f"milvus://host/c?tls=true&{ca}&name=inside")
    assert dict(one.tls) == {"server_pem_path": str(tmp_path / "ca.pem"), "server_name": "inside"}
    both = Address.parse(f"milvus://host/c?tls=true&{ca}&{cert}&{key}")
    assert set(dict(both.tls)) == {"ca_pem_path", "client_pem_path", "client_key_path"}
    assert Address.parse(both.place) == both


def test_an_address_waits_as_long_as_it_says():
    assert Address.parse("milvus://host/c").timeout == TIMEOUT
    assert Address.parse("milvus:some/file.db/c?timeout=2.5").timeout == 2.5


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("milvus://me:s3cret@host/c?tsl=true", "no option 'tsl'"),
        ("milvus://me:s3cret@host/c?tls=yes", "write true or false"),
        ("milvus://me:s3cret@host/c?timeout=soon", "write seconds"),
        ("milvus://me:s3cret@host/c?timeout=-1", "write seconds"),
        ("milvus://me:s3cret@host/c?ca=x.pem", "add tls=true"),
        ("milvus://me:s3cret@host/c?tls=true&ca=no-such.pem", "no file no-such.pem"),
        ("milvus://me:s3cret@host/c?tls=true&cert=x.pem", "together"),
        ("milvus:me:s3cret@host/c", "names no .db file"),
        ("milvus://me:s3cret@host:99999999/c", "names no host"),
    ],
)
def test_a_mistake_in_an_address_is_named_and_its_secret_is_not(text, message):
    with pytest.raises(FactIndexError, match=message) as refused:
        Address.parse(text)
    assert "s3cret" not in str(refused.value)
