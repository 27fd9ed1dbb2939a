import itertools
import unicodedata

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from factlearn.errors import FactError
from factlearn.facts import Fact, FactQuery, Relevance, Vocabulary, is_structured, normalise_unit

RESERVED = "<>,|*"
TEXT = st.text(st.characters(exclude_characters=RESERVED, exclude_categories=["Cs"]), max_size=12)
UNITS = TEXT.map(normalise_unit).filter(bool)
FACTS = st.lists(UNITS, min_size=1, max_size=3).map(lambda units: Fact(*units))
QUERIES = st.lists(st.none() | UNITS, min_size=1, max_size=3).filter(any).map(lambda units: FactQuery(tuple(units)))
SPACE = st.sampled_from(["", " ", "\t", "  \n"])

RIDING_BIKE = Fact("person", "riding", "bike")
VOCABULARY = Vocabulary.of(
    [
        RIDING_BIKE,
        Fact("person", "riding", "mountain bike"),
        Fact("person", "riding mountain", "goat"),
        Fact("old person", "jumping"),
        Fact("dog"),
        Fact("bike"),
        Fact("woman", "golf", "golf"),
    ]
)


@given(TEXT)
def test_normalising_a_unit_twice_changes_nothing_more(text):
    assert normalise_unit(normalise_unit(text)) == normalise_unit(text)


@given(UNITS)
def test_a_unit_is_the_same_however_it_is_written(unit):
    assert normalise_unit(f"  {unit}\n") == unit
    assert normalise_unit(unicodedata.normalize("NFD", unit)) == unit


@given(FACTS)
def test_a_fact_reads_back_from_its_text(fact):
    assert Fact.parse(str(fact)) == fact
    assert Fact.parse(", ".join(fact.units)) == fact
    assert Fact.parse(" | ".join(fact.units)) == fact
    assert Fact(*fact.units) == fact


@given(QUERIES)
def test_a_query_reads_back_from_its_text(query):
    assert FactQuery.parse(str(query)) == query
    assert FactQuery.parse(str(query), VOCABULARY) == query


@given(QUERIES, st.data())
def test_white_space_and_empty_units_do_not_change_a_query(query, data):
    opened = [unit if unit is not None else data.draw(st.sampled_from(["", "*", " * "])) for unit in query.units]
    spaced = [data.draw(SPACE) + unit + data.draw(SPACE) for unit in opened]
    assert FactQuery.parse(f"{data.draw(SPACE)}<{','.join(spaced)}>{data.draw(SPACE)}") == query


@given(FACTS)
def test_order_and_mask_count_the_units(fact):
    query = FactQuery.of(fact)
    assert fact.order == len(fact.units) == sum(query.mask)
    assert query.mask == tuple(place < fact.order for place in range(3))


@given(st.lists(FACTS, max_size=6))
def test_facts_sort_and_compare_by_their_units(facts):
    assert [fact.units for fact in sorted(facts)] == sorted(fact.units for fact in facts)
    assert len(set(facts)) == len({fact.units for fact in facts})


@given(FACTS, FACTS)
def test_a_facts_own_query_is_answered_exactly_by_that_fact_alone(fact, other):
    assert FactQuery.of(fact).matches(fact, Relevance.EXACT)
    assert FactQuery.of(fact).matches(other, Relevance.EXACT) == (fact == other)


@given(FACTS)
def test_every_beginning_of_a_fact_is_answered_by_it_under_prefix_relevance_only(fact):
    for length in range(1, fact.order):
        start = FactQuery(fact.units[:length])
        assert start.matches(fact, Relevance.PREFIX)
        assert not start.matches(fact, Relevance.EXACT)


@given(QUERIES, FACTS)
def test_what_answers_exactly_answers_by_prefix_too(query, fact):
    assert query.matches(fact, "prefix") or not query.matches(fact, "exact")


@given(FACTS, st.data())
def test_opening_a_unit_never_loses_an_answer(fact, data):
    units = list(fact.units)
    units[data.draw(st.integers(0, len(units) - 1))] = None
    assume(any(units))
    for rule in Relevance:
        assert FactQuery(tuple(units)).matches(fact, rule)


def test_relevance_on_a_worked_example():
    answers = {
        rule: {
            text: [FactQuery.parse(text).matches(fact, rule) for fact in (RIDING_BIKE, Fact("person", "riding"))]
            for text in (
                "<person>",
                "<person, riding>",
                "<person, *, bike>",
                "<*, riding>",
                "<person, riding, *>",
            )
        }
        for rule in Relevance
    }
    assert answers[Relevance.PREFIX] == {
        "<person>": [True, True],
        "<person, riding>": [True, True],
        "<person, *, bike>": [True, False],
        "<*, riding>": [True, True],
        "<person, riding, *>": [True, True],
    }
    assert answers[Relevance.EXACT] == {
        "<person>": [False, False],
        "<person, riding>": [False, True],
        "<person, *, bike>": [True, False],
        "<*, riding>": [False, True],
        "<person, riding, *>": [True, False],
    }


@pytest.mark.parametrize(
    ("text", "units"),
    [
        ("person riding bike", ("person", "riding", "bike")),
        ("  Person  RIDING bike ", ("person", "riding", "bike")),
        ("person riding mountain bike", ("person", "riding mountain", "bike")),
        ("old person jumping", ("old person", "jumping")),
        ("riding mountain bike", (None, "riding mountain", "bike")),
        ("person bike", ("person", None, "bike")),
        ("jumping", (None, "jumping")),
        ("goat", (None, None, "goat")),
        ("bike", ("bike",)),
        ("woman golf golf", ("woman", "golf", "golf")),
        ("woman golf", ("woman", "golf")),
    ],
)
def test_plain_words_are_read_as_the_longest_known_units(text, units):
    assert FactQuery.parse(text, VOCABULARY).units == units


def test_words_that_can_be_read_in_several_places_are_refused_with_the_readings():
    with pytest.raises(FactError, match=r"<\*, golf> or <\*, \*, golf>"):
        FactQuery.parse("golf", VOCABULARY)


@pytest.mark.parametrize(
    ("text", "named"),
    [
        ("person flying", "'flying'"),
        ("bike riding person", "no known units fit"),
        ("old", "no known units fit"),
    ],
)
def test_words_no_unit_knows_are_refused_by_name(text, named):
    with pytest.raises(FactError, match=named):
        FactQuery.parse(text, VOCABULARY)


@given(st.lists(FACTS, min_size=1, max_size=5), st.data())
def test_a_known_fact_in_plain_words_is_never_unreadable(facts, data):
    fact = data.draw(st.sampled_from(facts))
    query = FactQuery.parse(" ".join(fact.units), Vocabulary.of(facts))
    assert " ".join(unit for unit in query.units if unit) == " ".join(fact.units)
    assert None not in query.units


@given(st.lists(UNITS, min_size=1, max_size=3))
def test_without_a_vocabulary_plain_words_are_the_subject(words):
    text = " ".join(words)
    assert FactQuery.parse(text).units == (text,)


def query_or_error(text, vocabulary):
    try:
        return FactQuery.parse(text, vocabulary)
    except FactError as error:
        return str(error)


@given(st.text())
def test_any_text_is_a_query_or_a_clear_error(text):
    for vocabulary in (None, VOCABULARY):
        result = query_or_error(text, vocabulary)
        assert result.endswith(".") if isinstance(result, str) else any(result.mask)


@given(st.text(alphabet="<>,|* ab", max_size=12))
def test_any_punctuation_is_a_query_that_reads_back_or_a_clear_error(text):
    result = query_or_error(text, None)
    assert result.endswith(".") if isinstance(result, str) else FactQuery.parse(str(result)) == result


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "no subject"),
        ("<*>", "no subject"),
        ("<*, riding>", "no subject"),
        ("<person, *, bike>", "no predicate"),
        ("a, b, c, d", "4 units"),
        ("<person", "unmatched bracket"),
        ("person>", "unmatched bracket"),
        ("<", "unmatched bracket"),
        ("a, b | c", "mixes"),
        ("<<a>>", "reserved"),
        ("a*b", "reserved"),
        ("\udcff", "Unicode"),
    ],
)
def test_text_that_is_no_fact_is_refused_with_the_reason(text, message):
    with pytest.raises(FactError, match=message):
        Fact.parse(text)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "empty"),
        (" \n", "empty"),
        ("*", "every unit open"),
        ("<>", "every unit open"),
        ("<*, *, *>", "every unit open"),
        (",,", "every unit open"),
        (",,,", "4 units"),
        ("person *", "reserved"),
    ],
)
def test_text_that_is_no_query_is_refused_with_the_reason(text, message):
    with pytest.raises(FactError, match=message):
        FactQuery.parse(text)


@pytest.mark.parametrize("units", [(), (None,), ("", "*", " ")])
def test_a_query_names_at_least_one_unit(units):
    with pytest.raises(FactError, match="every unit open"):
        FactQuery(units)


def test_the_units_of_a_query_are_in_their_places():
    for mask in itertools.product([False, True], repeat=3):
        if any(mask):
            units = tuple("dog" if named else None for named in mask)
            assert FactQuery(units).mask == mask


def test_structured_text_is_told_from_plain_words():
    assert all(map(is_structured, ["<dog>", "a, b", "a|b", " * "]))
    assert not any(map(is_structured, ["dog", "person riding bike", "person *"]))
