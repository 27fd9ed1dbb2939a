"""Whether an image's label confirms that the image answers a query, denies it, or says nothing about it.

The label `<person, riding, horse>` does not tell whether `<man, riding, horse>` is right: `man` was never taught, or
means something close to `person`. A verdict of None is no verdict.
"""

from collections.abc import Iterable, Sequence

from factlearn.facts import UNIT_NAMES, Fact, FactQuery, Relevance, Vocabulary
from factlearn.retrieval.sentences import Reading
from factlearn.retrieval.words import synonyms

Verdict = bool | None


def verdict(
    label: Fact | Sequence[Fact] | None,
    asked: FactQuery | Reading,
    known: Vocabulary | None = None,
    relevance: Relevance | str = Relevance.PREFIX,
) -> Verdict:
    """What a label says about an answer to a query, taking all that was asked for into account.

    Of several labels one that confirms a fact is enough, and none may confirm an unwanted one.

    Args:
        label: the fact an image is known to show, or all of them, if any.
        asked: the query.
        known: the units that labels use; a query for any other unit is not decided by a label. All units if not given.
        relevance: which facts count as right.
    """
    labels = [label] if isinstance(label, Fact) else label
    if not labels:
        return None
    if isinstance(asked, FactQuery):
        return _any_shows(labels, asked, known, Relevance(relevance))
    either = [
        _shows_all(labels, [one, *asked.also], known, Relevance(relevance)) for one in (asked.query, *asked.any_of)
    ]
    unwanted = [_any_shows(labels, each, known, Relevance.PREFIX, silent=False) for each in asked.without]
    return _all([_any(either), *(None if each is None else not each for each in unwanted)])


def _any_shows(
    labels: Sequence[Fact], query: FactQuery, known: Vocabulary | None, relevance: Relevance, *, silent: Verdict = None
) -> Verdict:
    return _any(_shows(label, query, known, relevance, silent=silent) for label in labels)


def _shows(
    label: Fact, query: FactQuery, known: Vocabulary | None, relevance: Relevance, *, silent: Verdict = None
) -> Verdict:
    """Whether a label shows one fact; `silent` if it stops short of it, as `<person>` does of `<person, riding>`."""
    if relevance is Relevance.EXACT and label.order != len(query.units):
        return False
    units = (label.subject, label.predicate, label.object)
    each: list[Verdict] = []
    for position, (asked, unit) in enumerate(zip(query.units, units, strict=False)):
        if asked is None or asked == unit:
            each.append(True)
        elif not unit:
            each.append(silent)
        elif known is not None and asked not in known.positions[position]:
            each.append(None)
        else:
            each.append(None if asked in synonyms(unit) or unit in synonyms(asked) else False)
    return _all(each)


def _shows_all(
    labels: Sequence[Fact], queries: Sequence[FactQuery], known: Vocabulary | None, relevance: Relevance
) -> Verdict:
    """Whether labels show several facts; those that cannot be one fact are never all decided by one label."""
    each = [_any_shows(labels, query, known, relevance) for query in queries]
    if all(each):
        return True
    if (whole := merged(queries)) is not None:
        return _any_shows(labels, whole, known, relevance)
    return False if all(one is False for one in each) else None


def merged(queries: Iterable[FactQuery]) -> FactQuery | None:
    """One query that names what all of them name, unless they name different units in one position."""
    units: list[str | None] = []
    for query in queries:
        units += [None] * (len(query.units) - len(units))
        for position, unit in enumerate(query.units):
            if unit is not None and units[position] not in (None, unit):
                return None
            units[position] = unit or units[position]
    return FactQuery(tuple(units[: len(UNIT_NAMES)]))


def _all(each: Iterable[Verdict]) -> Verdict:
    each = list(each)
    return False if False in each else None if None in each else True


def _any(each: Iterable[Verdict]) -> Verdict:
    each = list(each)
    return True if True in each else None if None in each else False
