import pytest

from factlearn.config import shipped
from factlearn.data.emoji_facts import ACTIONS, ALIASES, OBJECTS, WHOLE_NAMES, fact_of_name
from factlearn.facts import Fact, FactQuery, read_patterns


@pytest.mark.parametrize(
    ("name", "fact"),
    [
        ("man rowing boat", Fact("man", "rowing", "boat")),
        ("woman climbing", Fact("woman", "climbing")),
        ("dog", Fact("dog")),
        ("person biking", Fact("person", "riding", "bike")),
        ("woman golfing", Fact("woman", "playing", "golf")),
        ("man surfing", Fact("man", "riding", "surfboard")),
        ("man in tuxedo", Fact("man", "wearing", "tuxedo")),
        ("person with white cane", Fact("person", "holding", "cane")),
        ("horse racing", Fact("person", "riding", "horse")),
        ("snowboarder", Fact("person", "riding", "snowboard")),
        ("men wrestling", Fact("men", "wrestling")),
        ("automobile", Fact("car")),
        ("man artist", None),
        ("dog face", None),
        ("person", None),
    ],
)
def test_names_read_as_facts(name: str, fact: Fact | None) -> None:
    assert fact_of_name(name) == fact


def test_the_tables_make_well_formed_facts() -> None:
    endings = {*ACTIONS.values(), *(units[1:] for units in WHOLE_NAMES.values())}
    assert all(units[0] for units in WHOLE_NAMES.values())
    assert len({fact_of_name(name) for name in OBJECTS}) == len(OBJECTS)
    assert ALIASES.keys() <= {unit for units in endings for unit in units}


def test_the_list_of_sports_names_those_among_the_emoji() -> None:
    endings = {*ACTIONS.values(), *(units[1:] for units in WHOLE_NAMES.values())}
    sports = [FactQuery.parse(pattern).units for pattern in read_patterns(shipped("sports.txt"))]
    assert all(subject is None for subject, *_ in sports)
    assert len({tuple(ending) for _, *ending in sports} & endings) == 18
