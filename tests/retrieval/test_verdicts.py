import pytest

from factlearn.facts import Fact, FactQuery, Vocabulary
from factlearn.retrieval.sentences import Reading
from factlearn.retrieval.verdicts import verdict

RIDING = Fact("person", "riding", "horse")
KNOWN = Vocabulary.of([RIDING, Fact("person", "riding", "bike"), Fact("person", "jumping"), Fact("dog"), Fact("tree")])


def parsed(*texts):
    return tuple(map(FactQuery.parse, texts))


@pytest.mark.parametrize(
    ("query", "label", "expected"),
    [
        ("<person, riding, horse>", RIDING, True),
        ("<*, riding>", RIDING, True),
        ("<person, riding, bike>", RIDING, False),
        ("<man, riding, horse>", RIDING, None),
        ("<man, riding, bike>", RIDING, False),
        ("<person, riding, bicycle>", Fact("person", "riding", "bike"), None),
        ("<person, riding, horse>", Fact("person"), None),
        ("<person, riding, horse>", Fact("dog"), False),
        ("<dog>", None, None),
    ],
)
def test_a_label_decides_only_what_it_says(query, label, expected):
    assert verdict(label, FactQuery.parse(query), KNOWN) is expected


def test_a_taught_near_word_is_not_denied_either():
    both = Vocabulary.of([RIDING, Fact("man", "riding", "horse")])
    assert verdict(RIDING, FactQuery.parse("<man, riding, horse>"), both) is None
    assert verdict(RIDING, FactQuery.parse("<man, riding, horse>")) is None


@pytest.mark.parametrize(
    ("asked", "label", "expected"),
    [
        ({"also": ["<*, riding>"]}, RIDING, True),
        ({"also": ["<*, jumping>"]}, RIDING, False),
        ({"also": ["<tree>"]}, RIDING, None),
        ({"also": ["<tree>"]}, Fact("dog"), False),
        ({"without": ["<*, *, horse>"]}, RIDING, False),
        ({"without": ["<*, *, bike>"]}, RIDING, True),
        ({"without": ["<*, *, pony>"]}, RIDING, None),
        ({"without": ["<*, *, horse>"]}, Fact("person", "jumping"), True),
        ({"any_of": ["<dog>"]}, Fact("dog"), True),
        ({"any_of": ["<dog>"]}, Fact("tree"), False),
    ],
)
def test_the_whole_condition_is_judged(asked, label, expected):
    conditions = {name: parsed(*texts) for name, texts in asked.items()}
    reading = Reading("", FactQuery(("person",)), **conditions)
    assert verdict(label, reading, KNOWN) is expected


@pytest.mark.parametrize(
    ("asked", "labels", "expected"),
    [
        ({}, [Fact("dog"), RIDING], True),
        ({}, [Fact("dog"), Fact("tree")], False),
        ({}, [], None),
        ({"also": ["<dog>"]}, [RIDING, Fact("dog")], True),
        ({"also": ["<dog>"]}, [RIDING, Fact("tree")], None),
        ({"also": ["<*, riding>"]}, [RIDING, Fact("tree")], True),
        ({"without": ["<dog>"]}, [RIDING, Fact("dog")], False),
        ({"without": ["<dog>"]}, [RIDING, Fact("tree")], True),
    ],
)
def test_of_several_labels_any_one_decides(asked, labels, expected):
    conditions = {name: parsed(*texts) for name, texts in asked.items()}
    assert verdict(labels, Reading("", FactQuery(("person",)), **conditions), KNOWN) is expected
    if not asked:
        assert verdict(labels, FactQuery(("person",)), KNOWN) is expected
