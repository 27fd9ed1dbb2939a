"""Images and filters that are hard to store and to quote, and independently of the package what the answers are."""

import itertools
import random

import numpy as np

from factlearn.facts import FactQuery
from factlearn.retrieval import FactIndex, Version
from tests.retrieval.conftest import FACTS, language_space

LANGUAGE = language_space()
UNITS = [
    unit for unit in itertools.product([None, "person", "dog"], [None, "riding"], [None, "bike", "golf"]) if any(unit)
]
TEXTS = (
    "test",
    "train",
    "",
    "it's",
    'say "hi"',
    "a\\b",
    "50%",
    "a_b",
    "two\nlines",
    "tab\there",
    "\x01",
    "é🚲",
    "10",
    "9",
)
YEARS = ("2000", "1999.5", " 7 ", "1e3", "-3", "0", "nan", "inf", "soon", "")
KEYS = ("split", "year", "odd key", 'quo"te', "x_1", "model")
PATTERNS = ("t%", "%n", "%a%", "test", "%", "_est", "t_s%", "50\\%", "%'%", "two%", "%\n%", "", "%é%", "%%")


def collection(count=300, seed=0):
    """Images near the facts' targets, some equal, with texts that are hard to quote."""
    rng = np.random.default_rng(seed)
    pick = random.Random(seed)
    shown = [FACTS[place] for place in rng.integers(0, len(FACTS), count)]
    targets, _ = LANGUAGE.embed(shown)
    vectors = (targets + rng.normal(size=targets.shape) * 0.3).astype(np.float32)
    vectors[count // 3 : 2 * (count // 3)] = vectors[: count // 3]
    ids = [
        str(n) if n % 7 == 0 else f"set {n % 5}/it's {n}.png" if n % 3 else f'"{n}" \\' for n in rng.permutation(count)
    ]
    metadata = [
        {key: pick.choice(YEARS if key == "year" else TEXTS) for key in KEYS if pick.random() < 0.7}
        for _ in range(count)
    ]
    return {
        "vectors": vectors,
        "ids": ids,
        "paths": [f"/pictures/{name}" for name in ids],
        "facts": [None if pick.random() < 0.2 else fact for fact in shown],
        "metadata": metadata,
        "files": [{"bytes": str(n), "modified": "1", "sha256": "0"} for n in range(count)],
    }


def release(folder):
    """Stop the server of a file, as the end of a process does."""
    from milvus_lite.server_manager import server_manager_instance

    server_manager_instance.release_server(str(folder / "images.db"))


def make(place, images, **changes):
    options = {"language": LANGUAGE, "model": "m1", "known_facts": FACTS, **changes}
    return FactIndex.create(place, **images, **options)


def number(text):
    try:
        value = float(text)
    except (TypeError, ValueError):
        return None
    return value if np.isfinite(value) else None


def like(text, pattern):
    """SQL's like, by trying every way to read the pattern."""
    if not pattern:
        return not text
    if pattern[0] == "%":
        return any(like(text[start:], pattern[1:]) for start in range(len(text) + 1))
    if pattern[0] == "\\":
        return text[:1] == pattern[1:2] and like(text[1:], pattern[2:])
    return text != "" and pattern[0] in ("_", text[0]) and like(text[1:], pattern[1:])


COMPARE = {
    "=": lambda a, b: a == b,
    "!=": lambda a, b: a != b,
    "<": lambda a, b: a < b,
    "<=": lambda a, b: a <= b,
    ">": lambda a, b: a > b,
    ">=": lambda a, b: a >= b,
}


def random_condition(pick, images):
    """A condition's text, and what it says of an image: True, False or None for unknown."""
    column = pick.choice(
        ["id", "path", "fact", "model", *(f"`{key}`" for key in KEYS), "metadata.split", "`metadata.model`"]
    )
    key = column.strip("`")

    def value(image):
        return (
            image[key]
            if key in ("id", "path", "fact", "model")
            else image["metadata"].get(key.removeprefix("metadata."))
        )

    def any_value():
        if pick.random() < 0.4:
            return pick.choice([2000.0, 1999.5, 7.0, -3.0, 0.0, 10.0, 1e3, 7.25, float("1e999")])
        some = value(pick.choice(images))
        return some if some is not None and pick.random() < 0.7 else pick.choice(TEXTS)

    def written(some):
        return (
            ("1e999" if some == np.inf else repr(some))
            if isinstance(some, float)
            else "'" + some.replace("'", "''") + "'"
        )

    kind, negated = pick.choice(["compare", "compare", "in", "like", "null"]), pick.random() < 0.5
    no = "not " if negated else ""
    if kind == "null":
        return f"{column} is {no}null", lambda image: (value(image) is None) != negated
    if kind == "like":
        pattern = pick.choice([*PATTERNS, f"%{pick.choice('0123456789')}%", "/pictures/set 1%", "<person%"])
        text = f"{column} {no}like {written(pattern)}"
        return text, lambda image: None if value(image) is None else like(value(image), pattern) != negated
    if kind == "in":
        values = [any_value() for _ in range(pick.randint(1, 4))]

        def among(image):
            text, spelled = value(image), number(value(image))
            tests = [spelled if isinstance(each, float) else text for each in values]
            same = {None if left is None else left == each for left, each in zip(tests, values, strict=True)}
            return not negated if True in same else None if None in same else negated

        return f"{column} {no}in ({', '.join(map(written, values))})", among
    operator, right = pick.choice(list(COMPARE)), any_value()

    def compared(image):
        left = number(value(image)) if isinstance(right, float) else value(image)
        return None if left is None else COMPARE[operator](left, right)

    return f"{column} {operator} {written(right)}", compared


def random_filter(pick, images, depth=2):
    """A filter's text, and what it says of an image."""
    if depth == 0 or pick.random() < 0.3:
        return random_condition(pick, images)
    if pick.random() < 0.25:
        text, inner = random_filter(pick, images, depth - 1)
        return f"not ({text})", lambda image: None if (found := inner(image)) is None else not found
    (one, left), (other, right) = (random_filter(pick, images, depth - 1) for _ in range(2))
    word = pick.choice(["and", "or"])

    def joined(image):
        found = {left(image), right(image)}
        decisive = word == "or"
        return decisive if decisive in found else None if None in found else not decisive

    return f"({one}) {word} ({other})", joined


def described(images):
    """What brute force knows of each image; the first 200 were embedded by the first version."""
    columns = zip(images["ids"], images["paths"], images["facts"], images["metadata"], strict=True)
    return [
        {
            "id": name,
            "path": path,
            "fact": None if fact is None else str(fact),
            "metadata": metadata,
            "model": "m1" if place < 200 else "m2",
        }
        for place, (name, path, fact, metadata) in enumerate(columns)
    ]


def brute_force(images, queries, weights, passed):
    """The ids of the images that pass, best first, straight from the definition; of several scores the worst counts."""
    scores = []
    for query in queries:
        (target,), (mask,) = LANGUAGE.embed([query])
        difference = images["vectors"].astype(np.float64) - target
        scores.append(-(np.square(difference).sum(axis=-1) * (mask * weights)).sum(axis=-1))
    worst = np.min(scores, axis=0)
    return sorted(np.flatnonzero(passed), key=lambda place: (-worst[place], images["ids"][place]))


def in_two_steps(place, images):
    """An index of images added in two steps by two versions of the model."""
    index = make(place, {name: column[:200] for name, column in images.items()})
    if str(place).startswith("milvus:") and index.store.connection.address.file:  # some in segments, some in memory
        index.store.connection.call("flush", "pictures")
    index.add(**{name: column[200:] for name, column in images.items()}, model=Version("m2", "m1"))
    return index


def check_random_queries(both, count, seed):
    """Random queries give the hits of the folder and the ids of brute force."""
    in_milvus, in_folder, images = both
    pick, known = random.Random(seed), described(images)
    for turn in range(count):
        queries = [FactQuery(UNITS[turn % len(UNITS)])]
        if turn % 5 == 0:
            queries.append(FactQuery(pick.choice(UNITS)))
        weights = (
            (1.0, 1.0, 1.0) if pick.random() < 0.4 else tuple(pick.choice([0.5, 1.0, 2.0, 1e-3]) for _ in range(3))
        )
        where, says = (None, lambda _: True) if turn % 4 == 0 else random_filter(pick, known)
        k, offset = pick.choice([1, 5, 10, 40]), pick.choice([0, 0, 3])
        options = {"also": queries[1:], "weights": weights, "where": where, "offset": offset}
        hits = in_milvus.query(queries[0], k, **options)
        assert hits == in_folder.query(queries[0], k, **options), (queries, options)
        expected = brute_force(images, queries, weights, [says(image) is True for image in known])
        assert [hit.id for hit in hits] == [images["ids"][place] for place in expected[offset : offset + k]], (
            queries,
            options,
        )
