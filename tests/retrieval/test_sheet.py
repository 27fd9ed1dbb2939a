from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from factlearn.errors import FactIndexError
from factlearn.facts import Fact, FactQuery
from factlearn.retrieval import Hit
from factlearn.retrieval.sheet import contact_sheet

RIDING = Fact("person", "riding", "bike")
GREEN, RED = (26, 152, 80), (215, 48, 39)


def hit(path, fact=RIDING, score=-0.5):
    return Hit(str(path), Path(path), score, {"subject": score}, fact)


@pytest.fixture
def picture(tmp_path):
    path = tmp_path / "blue.png"
    Image.new("RGB", (40, 30), (0, 0, 255)).save(path)
    return path


def colours(path):
    pixels = np.asarray(Image.open(path).convert("RGB")).reshape(-1, 3)
    return {tuple(map(int, colour)) for colour in np.unique(pixels, axis=0)}


def test_a_sheet_shows_the_pictures_in_rows(tmp_path, picture):
    out = contact_sheet([hit(picture)] * 7, tmp_path / "out" / "sheet.png", columns=3, tile=100)
    with Image.open(out) as sheet:
        assert sheet.format == "PNG"
        assert sheet.height > 3 * 100 > sheet.width - 2 * 28 - 2 * 18 - 1
    assert (0, 0, 255) in colours(out)


def test_right_answers_are_framed_green_and_wrong_ones_red(tmp_path, picture):
    query = FactQuery.parse("<person, riding, *>")
    right = contact_sheet([hit(picture)], tmp_path / "right.png", query=query)
    wrong = contact_sheet([hit(picture, Fact("dog"))], tmp_path / "wrong.png", query=query)
    unknown = contact_sheet([hit(picture, None)], tmp_path / "unknown.png", query=query)
    assert GREEN in colours(right)
    assert RED not in colours(right)
    assert RED in colours(wrong)
    assert GREEN not in colours(wrong)
    assert not {RED, GREEN} & colours(unknown)


def test_the_relevance_rule_decides_what_is_right(tmp_path, picture):
    query = FactQuery.parse("<person>")
    assert GREEN in colours(contact_sheet([hit(picture)], tmp_path / "a.png", query=query))
    assert RED in colours(contact_sheet([hit(picture)], tmp_path / "b.png", query=query, relevance="exact"))


def test_pictures_that_cannot_be_read_become_tiles_and_the_rest_is_shown(tmp_path, picture):
    broken = tmp_path / "broken.jpg"
    broken.write_bytes(b"\xff\xd8 not a picture")
    cut = tmp_path / "cut.png"
    cut.write_bytes(picture.read_bytes()[:60])
    hits = [hit(tmp_path / "missing.png"), hit(broken), hit(cut), hit(tmp_path), hit(picture)]
    assert (0, 0, 255) in colours(contact_sheet(hits, tmp_path / "sheet.png"))


@pytest.mark.parametrize("size", [(1, 3000), (3000, 1), (1, 1)])
def test_pictures_of_any_shape_fit(tmp_path, size):
    Image.new("RGB", size, (0, 0, 255)).save(tmp_path / "odd.png")
    with Image.open(contact_sheet([hit(tmp_path / "odd.png")], tmp_path / "sheet.png", tile=64)) as sheet:
        assert (0, 0, 255) in [colour for _, colour in sheet.convert("RGB").getcolors(1 << 24)]


def test_long_and_foreign_text_is_cut_not_refused(tmp_path, picture):
    fact = Fact("persona muy larga " * 20, "montándose", "自転車")
    out = contact_sheet([hit(picture, fact, score=-1e12)], tmp_path / "sheet.png", "標題 \udcff " * 50, tile=48)
    with Image.open(out) as long, Image.open(contact_sheet([hit(picture)], tmp_path / "plain.png", tile=48)) as plain:
        assert long.size == plain.size


@pytest.mark.parametrize("suffix", ["jpg", "jpeg", "webp", "PNG"])
def test_the_ending_of_the_name_chooses_the_format(tmp_path, picture, suffix):
    with Image.open(contact_sheet([hit(picture)], tmp_path / f"sheet.{suffix}")) as sheet:
        assert sheet.format == {"jpg": "JPEG", "jpeg": "JPEG", "webp": "WEBP", "PNG": "PNG"}[suffix]


def test_sheets_that_make_no_sense_are_refused(tmp_path, picture):
    for message, hits, name, sizes in [
        ("no images", [], "sheet.png", {}),
        ("sheet.txt", [hit(picture)], "sheet.txt", {}),
        ("columns", [hit(picture)], "sheet.png", {"columns": 0}),
        ("tile", [hit(picture)], "sheet.png", {"tile": 4}),
    ]:
        with pytest.raises(FactIndexError, match=message):
            contact_sheet(hits, tmp_path / name, **sizes)
    assert [entry.name for entry in tmp_path.iterdir()] == ["blue.png"]
