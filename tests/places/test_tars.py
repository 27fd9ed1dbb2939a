"""A tar is a folder that is never unpacked."""

import hashlib
import os
import tarfile

import pytest

from factlearn import places
from factlearn.data.unlabelled import folder_dataset, tars_dataset
from factlearn.errors import DatasetError, ImageError
from factlearn.facts import Fact
from factlearn.images import find_images, load_image


def test_a_member_is_what_was_written(shard, tmp_path):
    tar = shard(a_png=1, b__c_png=2)
    with tarfile.open(tar) as archive:
        for name in ("a.png", "b/c.png"):
            expected = archive.extractfile(name).read()
            with places.open_file(tar / name) as stream:
                assert stream.read() == expected
                assert stream.seek(-4, os.SEEK_END) == len(expected) - 4
                assert stream.read(100) == expected[-4:]
            assert places.status(tar / name) == places.Status(len(expected), tar.stat().st_mtime_ns)
            assert places.content_key(tar / name) == hashlib.sha256(expected).hexdigest()
    assert load_image(tar / "a.png").size == load_image(tmp_path / "drawn.png").size


def test_the_images_of_a_tar_are_found_like_those_of_a_folder(shard):
    tar = shard(b_png=2, a_JPG=1, notes_txt=b"text", sub__c_webp=3, _hidden_png=4)
    assert [path.relative_to(tar).as_posix() for path in find_images(tar)] == ["a.JPG", "b.png", "sub/c.webp"]


def test_a_folder_of_tars_is_read_only_where_it_has_no_images_of_its_own(shard, tmp_path):
    first, second = shard("s-0.tar", a_png=1), shard("s-1.tar", a_png=2)
    (tmp_path / "drawn.png").unlink()
    assert find_images(tmp_path) == [first / "a.png", second / "a.png"]
    (tmp_path / "own.png").write_bytes(b"")
    assert find_images(tmp_path) == [tmp_path / "own.png"]


def test_a_pattern_names_several_tars(shard, tmp_path):
    for number in range(3):
        shard(f"s-{number:03d}.tar", a_png=number)
    numbered = tars_dataset(places.expand(f"{tmp_path}/s-{{001..002}}.tar"))
    assert [sample.id for sample in numbered] == ["s-001.tar/a.png", "s-002.tar/a.png"]
    assert [path.name for path in places.expand(f"{tmp_path}/s-*.tar")] == ["s-000.tar", "s-001.tar", "s-002.tar"]
    assert places.expand(f"{tmp_path}/s-000.tar") == places.expand("test") == []
    for wrong in ("t-*.tar", "s-{9..1}.tar", "s-{0..999999999}.tar"):
        with pytest.raises(DatasetError, match=r"No file is called|names no file"):
            places.expand(f"{tmp_path}/{wrong}")


def test_the_json_beside_an_image_says_what_it_shows(shard):
    tar = shard(
        a_png=1, a_json={"fact": "<dog>", "caption": "A dog.", "width": 32, "url": None},
        b_png=2, b_json={"facts": ["<person, riding, bike>", "<dog>"]},
        c_png=3,
    )  # fmt: skip
    a, b, c = folder_dataset(tar).samples
    assert (a.facts, a.metadata) == ((Fact("dog"),), {"caption": "A dog.", "width": "32"})
    assert b.facts == (Fact("person", "riding", "bike"), Fact("dog"))
    assert (c.facts, c.metadata) == ((), {})


@pytest.mark.parametrize("said", [b"{", b"[]", b'{"fact": 3}', b'{"fact": "<a, b, c, d>"}', b'{"facts": [1]}'])
def test_a_json_that_says_nothing_usable_is_an_error_that_names_it(shard, said):
    with pytest.raises(DatasetError, match=r"a\.json does not say what its image shows"):
        folder_dataset(shard(a_png=1, a_json=said))


def test_nothing_in_a_tar_leads_out_of_it(shard, tmp_path):
    tar = shard(good_png=1)
    with tarfile.open(tar, "a") as archive:
        for name in ("../out.png", "/etc/out.png", "a/../../out.png", ".hid.png", "a//b.png"):
            archive.addfile(tarfile.TarInfo(name))
        for kind in (tarfile.SYMTYPE, tarfile.LNKTYPE, tarfile.CHRTYPE, tarfile.FIFOTYPE):
            header = tarfile.TarInfo(f"link{kind.decode()}.png")
            header.type, header.linkname = kind, "/etc/passwd"
            archive.addfile(header)
    assert find_images(tar) == [tar / "good.png"]
    with pytest.raises(ImageError, match="does not exist"):
        load_image(tar / "link2.png")


def test_long_names_are_read_and_headers_too_long_for_a_name_are_refused_unread(shard, tmp_path):
    name = "d" * 90 + "/" + "n" * 120 + ".png"
    for form in (tarfile.GNU_FORMAT, tarfile.PAX_FORMAT):
        with tarfile.open(tmp_path / f"{form}.tar", "w", format=form) as archive:
            archive.addfile(tarfile.TarInfo(name))
        assert find_images(tmp_path / f"{form}.tar") == [tmp_path / f"{form}.tar" / name]
    huge = tarfile.TarInfo("x")
    huge.type, huge.size = tarfile.XHDTYPE, 1 << 40
    (tmp_path / "huge.tar").write_bytes(huge.tobuf(tarfile.GNU_FORMAT))
    with pytest.raises(DatasetError, match="more than any name needs"):
        find_images(tmp_path / "huge.tar")


def test_a_tar_is_whole_or_an_error(shard, tmp_path):
    tar = shard(a_png=1, b_png=2, c_png=3)
    whole = tar.read_bytes()
    with tarfile.open(tar) as archive:
        second, third = archive.getmember("b.png"), archive.getmember("c.png")
    for cut in (second.offset_data + 10, third.offset_data + 1, third.offset + 100):
        (tmp_path / "cut.tar").write_bytes(whole[:cut])
        with pytest.raises(DatasetError, match=r"cut short|damaged|not a whole tar"):
            find_images(tmp_path / "cut.tar")
    (tmp_path / "hurt.tar").write_bytes(whole[: second.offset] + b"\x07" * 512 + whole[second.offset + 512 :])
    with pytest.raises(DatasetError, match="damaged"):
        find_images(tmp_path / "hurt.tar")
    assert len(find_images(tar)) == 3


def test_a_compressed_tar_and_other_files_are_no_folders(shard, tmp_path):
    packed = shard("packed.tar", mode="w:gz", a_png=1)
    with pytest.raises(DatasetError, match="compressed tars cannot be read in place"):
        find_images(packed)
    (tmp_path / "text.tar").write_text("no tar at all")
    with pytest.raises(DatasetError, match="not a whole tar"):
        find_images(tmp_path / "text.tar")
    with pytest.raises(NotADirectoryError):
        places.open_file(tmp_path / "drawn.png" / "a.png")
    with pytest.raises(ImageError, match="does not exist"):
        load_image(shard(a_png=1) / "b.png")


def test_a_tar_that_was_written_again_is_read_again(shard):
    tar = shard(a_png=1)
    assert len(find_images(tar)) == 1
    os.utime(shard(a_png=1, b_png=2), (1, 1))
    assert len(find_images(tar)) == 2
    assert places.is_file(tar / "b.png")
    assert places.is_gone(tar / "c.png")
    tar.write_text("damaged")
    assert not places.is_gone(tar / "c.png")  # it may be there again tomorrow
