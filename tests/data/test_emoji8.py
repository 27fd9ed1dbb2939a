import pytest

from factlearn.assets import fetch
from factlearn.data.emoji8 import CATEGORIES, Emoji8Config, open_emoji8
from factlearn.errors import DatasetError
from tests.data.conftest import picture

EMOJI = {"1F600": "Smileys & Emotion", "1F62D": "Smileys & Emotion", "1F415": "Animals & Nature", "2B50": "Symbols"}


@pytest.fixture
def drawings(tmp_path, cache):
    """Vendors' drawings of two faces; the last vendor draws the crying one as the other."""
    for number, vendor in enumerate(("Appl", "Goog", "Joy", "Sams")):
        for place, code in enumerate(EMOJI):
            shared = vendor == "Sams" and code == "1F62D"
            picture(tmp_path / "in" / vendor / f"U+{code}.png", (number, 0 if shared else place, 9))
    (tmp_path / "emoji.json").write_text(
        str([{"unified": code, "category": name, "subcategory": "x"} for code, name in EMOJI.items()]).replace("'", '"')
    )
    fetch("emoji-pictures", path=tmp_path / "in")
    fetch("emoji-categories", path=tmp_path / "emoji.json")


def tasks_of(tasks, **options):
    return open_emoji8(Emoji8Config(tasks=tasks, **options), seed=0).tasks


def test_emoji_tasks_are_categories_and_the_test_is_of_other_vendors(drawings):
    (task,) = tasks_of(["faces"])
    assert task.classes == ("grinning face", "loudly crying face")
    assert {path.parent.name for path in task.train.paths} == {"Appl", "Goog"}
    assert {path.parent.name for path in task.test.paths} == {"Joy"}  # Sams' two faces are the same pixels
    assert next(iter(CATEGORIES)) == "faces"


def test_vendors_can_be_chosen(drawings):
    (task,) = tasks_of(["faces"], vendors=["Appl", "Goog"])
    assert {path.parent.name for path in task.test.paths} == {"Goog"}


@pytest.mark.parametrize(
    ("tasks", "message"), [(["facse"], "no task 'facse'"), (["animals"], "at least two"), (["faces"] * 2, "twice")]
)
def test_emoji_tasks_that_cannot_be_learned_are_refused(drawings, tasks, message):
    with pytest.raises(DatasetError, match=message):
        tasks_of(tasks)
