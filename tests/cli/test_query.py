"""`factlearn query` as users type it, on an index of facts like those of a photo collection."""

import json
import re

import numpy as np
import pytest
from PIL import Image

from factlearn.evaluation.confidence import FactCalibration, HeldOut
from factlearn.facts import Fact
from factlearn.language import LanguageSpace
from factlearn.retrieval import FactIndex, Version
from tests.cli.commands import factlearn, output_of
from tests.retrieval.test_sentences import PHOTO_FACTS

pytestmark = pytest.mark.assets

HORSE, BIKE = Fact("person", "riding", "horse"), Fact("person", "riding", "bike")


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    """A folder with an index of noisy vectors: many horses, some bikes, one image of everything else."""
    folder = tmp_path_factory.mktemp("photos")
    language = LanguageSpace.open("glove-6b-50d", normalise=True)
    shown = [HORSE] * 60 + [BIKE] * 10 + PHOTO_FACTS
    targets, _ = language.embed(shown)
    noise = np.random.default_rng(0).normal(size=targets.shape) * 0.15
    Image.new("RGB", (20, 20)).save(folder / "photo.png")
    FactIndex.create(
        folder / "ix",
        (targets + noise).astype(np.float32),
        [f"{number}.png" for number in range(len(shown))],
        paths=[folder / "photo.png"] * len(shown),
        language=language,
        model="m",
        known_facts=PHOTO_FACTS,
        facts=shown,
    )
    return folder


def test_words_never_taught_are_named_with_the_nearest_taught_unit(place):
    assert "cyclist: nearest taught unit is bike" in output_of("query", "ix", "cyclist", cwd=place)
    assert "read as" not in output_of("query", "ix", "<person, riding, bike>", cwd=place)


def test_a_misspelt_unit_suggests_taught_units_for_all_words_at_once(place):
    done = factlearn("query", "ix", "<perosn, riding, hrose>", cwd=place)
    assert done.returncode == 2
    assert re.search(r"'perosn': person,.*'hrose': horse", " ".join(done.stderr.split()))


def test_not_excludes_firmly_by_an_adjustable_margin(place):
    def facts(*options):
        command = ("query", "ix", "<*, riding>", "--not", "<*, *, horse>", "-k", 10, *options, "--json")
        return [hit["fact"] for hit in json.loads(output_of(*command, cwd=place))["hits"]]

    assert str(HORSE) not in facts()
    assert len(facts("--not-margin", 0)) == 10
    done = factlearn("query", "ix", "<*, riding>", "--not", "<dog>", "--not-margin", 2, cwd=place)
    assert done.returncode == 2
    assert "margin" in done.stderr


def test_verdicts_take_the_whole_condition_into_account(place):
    command = ("query", "ix", "<person>", "--and", "<*, riding>", "--not", "<*, *, bike>", "-k", 150, "--json")
    for hit in json.loads(output_of(*command, cwd=place))["hits"]:
        fact = Fact.parse(hit["fact"])
        said = fact.subject == "person" and fact.predicate == "riding" and fact.object != "bike"
        assert hit["right"] is said or (hit["right"] is None and fact in (Fact("person"), Fact("bicycle")))


def test_a_unit_is_found_in_any_place_where_asked(place):
    def shown(*options):
        answer = json.loads(output_of("query", "ix", "<bicycle>", "-k", 8, "--json", *options, cwd=place))
        return answer, [hit["fact"] for hit in answer["hits"]]

    _, plain = shown()
    answer, anywhere = shown("--anywhere")
    assert anywhere[0] == plain[0] == "<bicycle>"
    assert anywhere.count(str(BIKE)) >= 4 > plain.count(str(BIKE)) + 1
    assert answer["reading"]["any_of"] == ["<*, *, bicycle>"]
    assert "<bicycle> or <*, *, bicycle>" in output_of("query", "ix", "<bicycle>", "--anywhere", cwd=place)
    refused = factlearn("query", "ix", "--image", "photo.png", "--anywhere", cwd=place)
    assert (refused.returncode, refused.stderr.count("\n")) == (2, 1)
    answer = json.loads(output_of("query", "ix", "<horse>", "--anywhere", "--json", cwd=place))
    assert all(hit["right"] for hit in answer["hits"])


@pytest.fixture(scope="module")
def sure_place(place):
    """The same index, calibrated on vectors of the same kind."""
    language = LanguageSpace.open("glove-6b-50d", normalise=True)
    tasks = {"first": PHOTO_FACTS[::2], "second": PHOTO_FACTS[1::2]}
    shown = [fact for fact in PHOTO_FACTS for _ in range(4)]
    targets, _ = language.embed(shown)
    vectors = (targets + np.random.default_rng(1).normal(size=targets.shape) * 0.15).astype(np.float32)
    held_out = HeldOut(vectors, [{fact} for fact in shown], [str(n) for n in range(len(shown))], tasks)
    index, found = FactIndex.open(place / "ix"), FactCalibration.fit(held_out, language)
    version = Version("m", "m", calibration=found.to_json(), taught=tuple(map(str, PHOTO_FACTS)))
    FactIndex.create(
        place / "sure", index.vectors, index.ids, paths=index.paths, language=language, model=version,
        known_facts=PHOTO_FACTS, facts=[Fact.parse(item["fact"]) for item in index.items()],
    )  # fmt: skip
    return place


def test_hits_have_a_probability_and_a_line_tells_where_the_model_no_longer_sees_the_fact(sure_place):
    out = output_of("query", "sure", "<person, riding, bike>", "-k", 100, "--sheet", "line.png", cwd=sure_place)
    assert "below here the model does not see it" in out
    answer = json.loads(output_of("query", "sure", "<person, riding, bike>", "-k", 100, "--json", cwd=sure_place))
    chances = [hit["probability"] for hit in answer["hits"]]
    assert answer["match"] is True
    assert 3 <= answer["seen"] < 100
    assert all(chance < 0.5 for chance in chances[answer["seen"] :])
    assert chances[answer["seen"] - 1] >= 0.5
    strict = json.loads(
        output_of("query", "sure", "<person, riding, bike>", "-k", 100, "--sure", 0.999, "--json", cwd=sure_place)
    )
    assert strict["seen"] < answer["seen"]
    with Image.open(sure_place / "line.png") as high:
        output_of(
            "query", "sure", "<person, riding, bike>", "-k", 100, "--sure", 0, "--sheet", "no.png", cwd=sure_place
        )
        with Image.open(sure_place / "no.png") as low:
            assert high.height > low.height


def test_a_query_that_nothing_answers_says_so_and_what_was_never_taught_is_flagged(sure_place):
    out = output_of("query", "sure", "<zebra, reading, newspaper>", cwd=sure_place)
    assert "<zebra, reading, newspaper>: never taught; answered by word meaning" in out
    assert "No match" in out
    answer = json.loads(output_of("query", "sure", "<zebra, reading, newspaper>", "--json", cwd=sure_place))
    assert answer["match"] is False
    assert answer["seen"] == 0
    assert answer["never_taught"] == ["<zebra, reading, newspaper>"]
    assert "never taught" not in output_of("query", "sure", "<person, riding, *>", cwd=sure_place)
    nothing = output_of("query", "sure", "<dog>", "--where", "id = 'none'", cwd=sure_place)
    assert "No match: no image answers <dog>" in nothing


def test_an_index_without_calibration_gives_no_probability(place):
    answer = json.loads(output_of("query", "ix", "<dog>", "--json", cwd=place))
    assert {hit["probability"] for hit in answer["hits"]} == {None}
    assert answer["match"] is answer["seen"] is None
    assert "below here" not in output_of("query", "ix", "<dog>", cwd=place)
