import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

from factlearn.assets import cache_dir, fetch
from factlearn.data import FactDataset
from factlearn.data.emoji import EmojiConfig, open_emoji
from factlearn.data.emoji_pictures import TEST_VENDORS, TRAIN_VENDORS
from factlearn.errors import DatasetError
from factlearn.facts import Fact
from factlearn.images import load_image
from tests.data.conftest import picture

DOG = "U+1F415"
BIKING = "U+1F6B4"
MAN_BIKING = "U+1F6B4-U+200D-U+2642-U+FE0F"
DARK_WOMAN_BIKING = "U+1F6B4-U+1F3FF-U+200D-U+2640-U+FE0F"


@pytest.fixture
def pictures(tmp_path: Path, cache: Path) -> Path:
    """A folder for small pictures, one colour each, and a cache of the test's own."""
    return tmp_path / "pictures"


def _draw(folder: Path, colours: dict[str, tuple[int, int, int]]) -> None:
    for name, colour in colours.items():
        picture(folder / f"{name}.png", colour)
    fetch("emoji-pictures", path=folder)


def emoji_dataset(vendors: Sequence[str] | None = None) -> FactDataset:
    return open_emoji(EmojiConfig(vendors=vendors), seed=0)


def _ids(dataset: FactDataset) -> list[str]:
    return [sample.id for sample in dataset]


def test_pictures_are_split_by_vendor_and_carry_what_is_known(pictures: Path) -> None:
    _draw(pictures, {f"Goog/{DARK_WOMAN_BIKING}": (1, 0, 0), f"Sams/{DOG}": (2, 0, 0)})
    rider, dog = emoji_dataset()
    assert (rider.split, rider.fact) == ("train", Fact("woman", "riding", "bike"))
    assert dict(rider.metadata) == {
        "vendor": "Goog",
        "name": "woman biking dark skin tone",
        "codepoints": DARK_WOMAN_BIKING,
        "topic": "sports",
    }
    assert (dog.split, dog.fact, dog.metadata["topic"]) == ("test", Fact("dog"), "other")
    assert dog.path == fetch("emoji-pictures") / "Sams" / f"{DOG}.png"


def test_a_file_named_without_the_variation_selector_is_found(pictures: Path) -> None:
    _draw(pictures, {f"Goog/{MAN_BIKING.removesuffix('-U+FE0F')}": (1, 0, 0)})
    assert [sample.fact for sample in emoji_dataset()] == [Fact("man", "riding", "bike")]


def test_pixels_under_two_facts_are_left_out_everywhere(pictures: Path) -> None:
    same = (9, 9, 9)
    _draw(
        pictures,
        {
            f"Goog/{BIKING}": same,
            f"Goog/{MAN_BIKING}": same,
            f"Sams/{BIKING}": same,
            f"Goog/{DOG}": (1, 1, 1),
        },
    )
    assert _ids(emoji_dataset()) == [f"Goog/{DOG}.png"]


def test_a_picture_repeated_across_vendors_stays_once_on_the_training_side(pictures: Path) -> None:
    same = (9, 9, 9)
    _draw(pictures, {f"Joy/{DOG}": same, f"Twtr/{DOG}": same, f"Sams/{DOG}": (1, 1, 1)})
    assert _ids(emoji_dataset()) == [f"Twtr/{DOG}.png", f"Sams/{DOG}.png"]


def test_chosen_vendors_of_one_side_are_tested_on_the_last(pictures: Path) -> None:
    _draw(pictures, {f"{vendor}/{DOG}": (10 * n, 0, 0) for n, vendor in enumerate(TRAIN_VENDORS + TEST_VENDORS)})
    dataset = emoji_dataset(["Goog", "Twtr"])
    assert [(sample.id[:4], sample.split) for sample in dataset] == [("Goog", "train"), ("Twtr", "test")]
    both = emoji_dataset(["Sams", "Goog"])
    assert [(sample.id[:4], sample.split) for sample in both] == [("Goog", "train"), ("Sams", "test")]
    for vendors, words in (
        (["Goog"], "at least two vendors"),
        (["Goog", "Nokia"], "no emoji vendor 'Nokia'"),
    ):
        with pytest.raises(DatasetError, match=words):
            emoji_dataset(vendors)


def test_a_damaged_record_of_the_pixels_is_made_again(pictures: Path) -> None:
    _draw(pictures, {f"Goog/{DOG}": (1, 0, 0), f"Sams/{DOG}": (2, 0, 0)})
    before = _ids(emoji_dataset())
    (record,) = (cache_dir() / "emoji").iterdir()
    for damage in ("", "[]", '{"Goog/x.png": "0"}'):
        record.write_text(damage)
        assert _ids(emoji_dataset()) == before


def test_an_asset_without_pictures_of_the_vendors_is_an_error(pictures: Path) -> None:
    _draw(pictures, {f"Goog/{DOG}": (1, 0, 0)})
    with pytest.raises(DatasetError, match="no pictures of Appl, Wind"):
        emoji_dataset(["Appl", "Wind"])


@pytest.mark.assets
def test_the_real_emoji_facts_are_clean_and_as_many_as_promised() -> None:
    dataset = emoji_dataset()
    train, test = dataset.of_split("train"), dataset.of_split("test")
    assert Counter(fact.order for fact in dataset.facts) == {3: 85, 2: 49, 1: 49}
    assert (len(train), len(test), len(test.facts)) == (3387, 1895, 182)
    assert {sample.metadata["vendor"] for sample in test} == set(TEST_VENDORS)
    pixels = Counter(np.asarray(load_image(sample.path)).tobytes() for sample in dataset)
    assert max(pixels.values()) == 1
    sports = {sample.fact for sample in dataset if sample.metadata["topic"] == "sports"}
    assert len(sports) == 46
    assert {Fact("woman", "playing", "golf"), Fact("person", "riding", "horse")} <= sports
    assert sports.isdisjoint({Fact("man", "riding", "wheelchair"), Fact("bike")})


@pytest.mark.assets
def test_the_real_emoji_dataset_is_made_again_in_under_a_second() -> None:
    emoji_dataset()
    seconds = []
    for _ in range(3):
        started = time.perf_counter()
        emoji_dataset()
        seconds.append(time.perf_counter() - started)
    assert min(seconds) < 1


@pytest.mark.assets
def test_openly_licensed_art_alone_has_both_sides() -> None:
    dataset = emoji_dataset(["Goog", "Twtr"])
    assert len(dataset.of_split("train")) > 800
    assert len(dataset.of_split("test")) > 800


@pytest.mark.assets
def test_every_word_of_the_real_facts_has_a_vector() -> None:
    dataset = emoji_dataset()
    known = set((fetch("glove-6b-50d") / "words.txt").read_text(encoding="utf-8").split("\n"))
    units = {unit for fact in dataset.facts for unit in fact.units}
    words = {word for unit in units for word in dataset.aliases.get(unit, unit).split()}
    assert words <= known
