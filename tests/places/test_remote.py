"""Object storage, asked over HTTP."""

import fsspec
import pytest

from factlearn import places
from factlearn.errors import DatasetError, ImageError, StorageError
from factlearn.images import find_images, load_image
from tests.conftest import draw


def put(bucket, name, content):
    with fsspec.filesystem("s3").open(f"{bucket}/{name}", "wb") as stream:
        stream.write(content)


def drawn(tmp_path, seed):
    draw(seed, seed, tmp_path / "one.png")
    return (tmp_path / "one.png").read_bytes()


def test_images_are_found_and_decoded(bucket, tmp_path):
    for number in range(3):
        put(bucket, f"set/{number}.png", drawn(tmp_path, number))
    put(bucket, "set/.hidden.png", b"x")
    put(bucket, "set/notes.txt", b"x")
    put(bucket, "settings/9.png", b"x")
    paths = find_images(f"{bucket}/set")
    assert [places.written(path) for path in paths] == [f"{bucket}/set/{number}.png" for number in range(3)]
    assert load_image(paths[2]).tobytes() == load_image(tmp_path / "one.png").tobytes()
    status = places.status(paths[0])
    assert status.size == len(drawn(tmp_path, 0))
    assert status.modified > 0


def test_the_store_s_tag_stands_for_the_content(bucket, tmp_path):
    put(bucket, "a.png", drawn(tmp_path, 1))
    put(bucket, "b.png", drawn(tmp_path, 1))
    put(bucket, "c.png", drawn(tmp_path, 2))
    a, b, c = map(places.content_key, find_images(bucket))
    assert a.startswith("etag:")
    assert a == b != c


def test_a_tar_in_a_bucket_is_read_where_it_is(bucket, shard):
    tar = shard(a_png=1, a_json={"fact": "<dog>"}, sub__b_png=2)
    put(bucket, "shards/0.tar", tar.read_bytes())
    paths = find_images(f"{bucket}/shards")
    assert [places.written(path) for path in paths] == [
        f"{bucket}/shards/0.tar/{name}" for name in ("a.png", "sub/b.png")
    ]
    for path, here in zip(paths, find_images(tar), strict=True):
        assert load_image(path).tobytes() == load_image(here).tobytes()
        assert places.status(path).size == places.status(here).size
    assert len({places.content_key(path) for path in paths}) == 2


def test_what_is_not_there_or_not_to_be_reached_is_a_sentence(bucket, monkeypatch, tmp_path):
    with pytest.raises(DatasetError, match="holds no images"):
        find_images(f"{bucket}/nothing")
    with pytest.raises(ImageError, match="does not exist"):
        load_image(f"{bucket}/nothing.png")
    import s3fs

    s3fs.S3FileSystem.clear_instance_cache()
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:9")
    monkeypatch.setattr(s3fs.S3FileSystem, "retries", 1)
    with pytest.raises(StorageError, match="check the network, the endpoint and the credentials"):
        load_image(f"{bucket}/a.png")


@pytest.mark.parametrize("address", ["http://169.254.169.254/x.png", "https://host/x.png", "ftp://host/x.png"])
def test_no_address_names_a_host(address):
    assert not places.is_remote(address)
    with pytest.raises(ImageError, match="does not exist"):
        load_image(address)


def test_a_local_path_is_never_taken_for_an_address(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert places.written("s3") == str(tmp_path / "s3")
    assert not places.is_remote(tmp_path / "s3:")
    assert not places.is_remote("c:/x.png")
