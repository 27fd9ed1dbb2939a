"""Parsers of what people type: facts, queries, sentences, filters, overrides of a config."""

from factlearn.config import with_overrides
from factlearn.facts import Fact, FactQuery, Vocabulary, read_patterns
from factlearn.retrieval.sentences import read
from factlearn.retrieval.where import parse_filter
from tests.fuzz.parsers import parser, written
from tests.retrieval.conftest import language_space

FACTS = (Fact("person", "riding", "bike"), Fact("woman", "holding", "dog"), Fact("person", "riding"), Fact("dog"))
VOCABULARY = Vocabulary.of(FACTS)
_language = language_space()


def text(raw):
    return raw.decode("utf-8", "surrogateescape")


@parser("facts", [b"<person, riding, bike>", b"person | jumping", b"<dog>", "<Ärztin, hält, Hund>".encode()])
def facts(raw):
    Fact.parse(text(raw))


@parser("queries", [b"<person, *, bike>", b"person riding bike", b"<*, riding>", b"* | * | dog", b"dog"])
def queries(raw):
    for vocabulary in (None, VOCABULARY):
        FactQuery.parse(text(raw), vocabulary).matches(FACTS[0])


@parser("patterns", [b"<person, *, tennis>\n# sports\n<dog>\n", b"<woman>\n"])
def patterns(raw):
    for pattern in read_patterns(written("patterns.txt", raw)):
        FactQuery.parse(pattern)


@parser(
    "sentences",
    [b"a man riding a bike but not a dog", b"show me photos of dogs and women", b"person ridng bik", b"dog or woman"],
    tokens=(b" and ", b" or ", b" but not ", b" without ", b" riding ", b" dog ", b"'s "),
)
def sentences(raw):
    read(text(raw), VOCABULARY, _language)


@parser(
    "filters",
    [
        b"split = 'test' and not (cluster in ('sports', 'food') or year < 2000)",
        b"`odd name` like 'a%' or x is not null",
        b"a != 'it''s' and b >= -1.5e3",
    ],
    tokens=(b" and ", b" or ", b"not ", b" in (", b" like ", b" is null", b"'", b"`", b"(", b")", b"<=", b"1e5"),
)
def filters(raw):
    found = parse_filter(text(raw))
    found.opposite().opposite()


@parser(
    "overrides",
    [b"training.epochs=3", b"strategy={name: mas, lambda: 2}", b"a.b.c=[1, 2]"],
    tokens=(b".", b"=", b"{a: "),
)
def overrides(raw):
    with_overrides({"training": {"epochs": 1}, "seed": 1}, [text(raw)])
