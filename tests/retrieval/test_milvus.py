"""The index in Milvus answers as the index in a folder and as brute force, and fails with a sentence."""

import itertools
import random
import sys

import numpy as np
import pytest

pytest.importorskip("pymilvus")
pytest.importorskip("milvus_lite")

from factlearn.errors import FactIndexError
from factlearn.facts import Fact, FactQuery
from factlearn.retrieval import FactIndex, milvus_store
from factlearn.retrieval.backend import Version
from factlearn.retrieval.milvus import MilvusBackend
from factlearn.retrieval.milvus_client import Address
from factlearn.retrieval.milvus_filter import implied, json_key, metadata_key
from factlearn.retrieval.where import parse_filter
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


@pytest.fixture
def address(tmp_path):
    yield f"milvus:{tmp_path}/images.db/pictures"
    release(tmp_path)


def release(folder):
    """Stop the server of a file, as the end of a process does."""
    from milvus_lite.server_manager import server_manager_instance

    server_manager_instance.release_server(str(folder / "images.db"))


def make(place, images, **changes):
    options = {"language": LANGUAGE, "model": "m1", "known_facts": FACTS, **changes}
    return FactIndex.create(place, **images, **options)


@pytest.fixture(scope="module")
def both(tmp_path_factory):
    """The same images in Milvus and in a folder, added in two steps by two versions of the model."""
    folder = tmp_path_factory.mktemp("milvus")
    images = collection()
    first = {name: column[:200] for name, column in images.items()}
    second = {name: column[200:] for name, column in images.items()}
    indexes = []
    for place in (f"milvus:{folder}/images.db/pictures", folder / "index"):
        index = make(place, first)
        if isinstance(index.backend, MilvusBackend):  # some images in segments, some in memory
            index.backend.connection.call("flush", "pictures")
        index.add(**second, model=Version("m2", "m1"))
        indexes.append(index)
    yield (*indexes, images)
    release(folder)


# Filters, and independently of the package what they mean


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


def test_random_queries_answer_as_the_folder_and_as_brute_force(both):
    check_random_queries(both, 100, seed=1)


@pytest.mark.slow
def test_a_thousand_random_queries_answer_as_the_folder_and_as_brute_force(both):
    check_random_queries(both, 1000, seed=2)


def test_random_filters_let_the_same_images_pass(both):
    in_milvus, in_folder, images = both
    pick, known = random.Random(3), described(images)
    exact = 0
    for _ in range(150):
        where, says = random_filter(pick, known, depth=3)
        expected = sorted(image["id"] for image in known if says(image) is True)
        assert sorted(item["id"] for item in in_folder.items(where)) == expected, where
        assert [item["id"] for item in in_milvus.items(where)] == expected, where
        exact += implied(parse_filter(where))[1]
    assert exact > 30  # most filters are Milvus's work, the others the client's


def test_what_is_stored_of_images_is_what_the_folder_stores(both):
    in_milvus, in_folder, _ = both

    def told(index):
        items = ({key: value for key, value in item.items() if value is not None} for item in index.items())
        return sorted(items, key=lambda item: item["id"])

    assert told(in_milvus) == told(in_folder)
    order = np.argsort(np.asarray(in_folder.ids, object))
    np.testing.assert_array_equal(in_milvus.vectors, in_folder.vectors[order])
    assert in_milvus.facts == in_folder.facts
    assert in_milvus.models == in_folder.models
    assert in_milvus.dimension == in_folder.dimension
    assert len(in_milvus) == len(in_folder) == 300


def test_a_filter_on_an_unknown_column_is_refused_as_by_the_folder(both):
    messages = []
    for index in both[:2]:
        with pytest.raises(FactIndexError, match="no column 'colour'") as refused:
            index.query("<dog>", where="colour = 'red'")
        messages.append(str(refused.value))
    assert messages[0] == messages[1]


def test_answers_larger_than_milvus_gives_at_once_are_whole(both, monkeypatch):
    in_milvus, in_folder, _ = both
    monkeypatch.setattr(milvus_store, "MOST", 8)
    monkeypatch.setattr(milvus_store, "FEW", 4)
    for query, where in (
        ("<dog>", None),
        ("<*, riding>", "split like '_est' or year > 0"),
        ("<person>", "model = 'm2'"),
    ):
        assert in_milvus.query(query, 40, where=where) == in_folder.query(query, 40, where=where)
        assert in_milvus.query(query, 1000, where=where) == in_folder.query(query, 1000, where=where)
        assert in_milvus.query(query, 5, also=["<person, riding>"], where=where) == in_folder.query(
            query, 5, also=["<person, riding>"], where=where
        )


def test_images_that_all_score_the_same_are_all_considered(address, tmp_path, monkeypatch):
    monkeypatch.setattr(milvus_store, "MOST", 16)
    monkeypatch.setattr(milvus_store, "FEW", 4)
    images = collection(150)
    images["vectors"][:] = images["vectors"][0]
    in_milvus, in_folder = make(address, images), make(tmp_path / "index", images)
    assert [hit.id for hit in in_milvus.query("<dog>", 10)] == sorted(images["ids"])[:10]
    assert in_milvus.query("<dog>", 10) == in_folder.query("<dog>", 10)


def test_vectors_near_the_end_of_float32_are_still_ranked_exactly(address, tmp_path):
    images = collection(60)
    images["vectors"] *= np.float32(1e18)
    images["vectors"][::2] *= np.float32(1e-20)
    in_milvus, in_folder = make(address, images), make(tmp_path / "index", images)
    for query in ("<dog>", "<person, riding, bike>"):
        assert in_milvus.query(query, 60) == in_folder.query(query, 60)


def test_several_queries_at_once_negations_and_similar_images_answer_as_the_folder(both):
    in_milvus, in_folder, images = both
    texts = ["<dog>", "<*, riding>", "<person, *, bike>"] * 30
    assert in_milvus.query_many(texts, k=4) == in_folder.query_many(texts, k=4)
    options = {"without": ["<person, riding, bike>"], "threshold": -3.0, "weights": (1, 2, 1)}
    assert in_milvus.query("<*, riding>", 20, **options) == in_folder.query("<*, riding>", 20, **options)
    assert in_milvus.similar(images["vectors"][5]) == in_folder.similar(images["vectors"][5])
    assert in_milvus.facts_of(images["vectors"][5]) == in_folder.facts_of(images["vectors"][5])


# Changes


def test_images_are_added_replaced_and_removed_as_in_the_folder(address, tmp_path):
    images = collection(90)
    part = {name: column[:60] for name, column in images.items()}
    in_milvus, in_folder = make(address, part), make(tmp_path / "index", part)
    mixed = {name: [*column[80:], *column[:5]] for name, column in images.items()}
    mixed["vectors"] = np.stack(mixed["vectors"]) + np.float32(0.25)
    mixed["metadata"] = [{"fresh key": "it's new"}] * 15
    for index in (in_milvus, in_folder):
        index.add(**mixed, model=Version("m2", "m1"), known_facts=[Fact("woman", "holding", "horse")])
        assert index.remove(images["ids"][10:20]) == 10
        assert index.remove(["nothing such"]) == 0
        assert index.remove(pattern="set 1/*") > 0
        assert index.remove(where="`fresh key` like '%new' and id in ('0', '7', '14')") >= 0
        assert index.verify() == []
    assert sorted(in_milvus.ids) == sorted(in_folder.ids)
    assert len(in_milvus) == len(in_folder)
    assert in_milvus.facts == in_folder.facts
    assert in_milvus.models == in_folder.models
    for where in (None, "`fresh key` = 'it''s new'", "model = 'm1'"):
        assert in_milvus.query("<woman, *, horse>", 99, where=where) == in_folder.query(
            "<woman, *, horse>", 99, where=where
        )


def test_versions_without_images_are_forgotten_but_not_the_newest(address):
    images = collection(30)
    index = make(address, images)
    index.add(**images, model=Version("m2", "m1"))
    assert list(index.models) == ["m2"]


def test_the_last_image_cannot_be_removed(address):
    index = make(address, collection(5))
    with pytest.raises(FactIndexError, match="without images"):
        index.remove(pattern="*")
    assert len(index) == 5


def test_another_opener_sees_changes_after_reloading(address):
    images = collection(40)
    index = make(address, {name: column[:30] for name, column in images.items()})
    other = FactIndex.open(address)
    index.add(**{name: column[30:] for name, column in images.items()}, model="m1", known_facts=[Fact("golf")])
    assert len(other) == 30
    other.reload()
    assert len(other) == 40
    assert Fact("golf") in other.facts
    assert other.query("<golf>") == index.query("<golf>")


def test_an_index_reopened_from_disk_needs_no_word_vectors(address, tmp_path):
    index = make(address, collection(40))
    expected = index.query("<person, riding, bike>")
    release(tmp_path)
    reopened = FactIndex.open(address)
    assert reopened.language.fingerprint == LANGUAGE.fingerprint
    assert reopened.query("<person, riding, bike>") == expected
    assert reopened.facts == tuple(sorted(FACTS))
    assert reopened.path == address
    assert reopened.verify() == []


def test_long_records_are_kept_whole(address):
    facts = [
        Fact("person", f"{a} {b} {c}", "bike")
        for a, b, c in itertools.product(("riding", "holding", "golf", "dog"), repeat=3)
    ]
    facts = sorted({*FACTS, *facts})
    metadata = [{f"key {'k' * 2000} {number}": "v"} for number in range(40)]
    index = make(address, {**collection(40), "metadata": metadata}, known_facts=facts)
    assert index.facts == tuple(facts)
    assert FactIndex.open(address).query("<dog>", where=f"`key {'k' * 2000} 7` = 'v'") == index.query(
        "<dog>", where=f"`key {'k' * 2000} 7` is not null"
    )


# Refusals


def test_another_language_space_is_refused(address):
    images = collection(20)
    index = make(address, images)
    with pytest.raises(FactIndexError, match="language space"):
        FactIndex.open(address, language_space(seed=5))
    with pytest.raises(FactIndexError, match="language space"):
        index.add(**images, model="m1", language=language_space(seed=5))


def test_a_foreign_model_is_refused(address):
    images = collection(20)
    index = make(address, images)
    with pytest.raises(FactIndexError, match="foreign"):
        index.add(**images, model=Version("m9", "another"))
    with pytest.raises(FactIndexError, match="m1, not m9"):
        index.check_model("m9")


def test_an_index_is_overwritten_only_when_allowed(address):
    make(address, collection(20))
    with pytest.raises(FactIndexError, match="already"):
        make(address, collection(10))
    assert len(FactIndex.open(address)) == 20
    assert len(make(address, collection(10), overwrite=True)) == 10
    assert FactIndex.open(address).verify() == []


@pytest.mark.parametrize("name", ["pictures", "pictures_record"])
def test_a_collection_of_something_else_is_neither_opened_nor_overwritten(address, tmp_path, name):
    from pymilvus import MilvusClient

    client = MilvusClient(str(tmp_path / "images.db"))
    client.create_collection(name, dimension=4)
    with pytest.raises(FactIndexError, match="not an index"):
        FactIndex.open(address)
    with pytest.raises(FactIndexError, match="not an index"):
        make(address, collection(10), overwrite=True)
    assert client.list_collections() == [name]


def test_images_that_cannot_be_stored_leave_nothing_behind(address):
    images = collection(10)
    images["vectors"][7, 0, 0] = np.nan
    with pytest.raises(FactIndexError, match="row 7"):
        make(address, images)
    long = {**collection(10), "paths": ["x" * 70_000] * 10}
    with pytest.raises(FactIndexError, match="65535"):
        make(address, long)
    with pytest.raises(FactIndexError, match="not an index"):
        FactIndex.open(address)


def test_a_missing_file_or_server_is_a_sentence(tmp_path):
    with pytest.raises(FactIndexError, match="does not exist"):
        FactIndex.open(f"milvus:{tmp_path}/nowhere.db/pictures")
    assert not (tmp_path / "nowhere.db").exists()
    with pytest.raises(FactIndexError, match="could not be opened") as refused:
        FactIndex.open("milvus://someone:secret@127.0.0.1:1/pictures")
    assert "secret" not in str(refused.value)
    assert "\n" not in str(refused.value)


def test_a_missing_pymilvus_is_a_sentence(address, monkeypatch):
    monkeypatch.setitem(sys.modules, "pymilvus", None)
    with pytest.raises(FactIndexError, match=r"factlearn\[milvus\]"):
        make(address, collection(5))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("milvus:pictures", "names no .db file"),
        ("milvus:folder/pictures", "names no .db file"),
        ("milvus:///pictures", "names no host"),
        ("milvus://host:port/pictures", "names no host"),
        ("milvus://host", "no name of a Milvus collection"),
        ("milvus:file.db/2 pictures", "no name of a Milvus collection"),
    ],
)
def test_addresses_of_another_form_are_refused(text, message):
    with pytest.raises(FactIndexError, match=message):
        Address.parse(text)


def test_addresses_are_read_and_shown_without_secrets(monkeypatch):
    monkeypatch.delenv("MILVUS_TOKEN", raising=False)
    address = Address.parse("milvus://me:p%40ss@example.org/pictures?tls=true")
    assert (address.uri, address.collection, address.token) == ("https://example.org:19530", "pictures", "me:p@ss")
    assert address.place == "milvus://example.org:19530/pictures?tls=true"
    assert "p@ss" not in repr(address)
    monkeypatch.setenv("MILVUS_TOKEN", "token")
    assert Address.parse("milvus://[::1]:1234/a") == Address("http://[::1]:1234", "a", "milvus://[::1]:1234/a", "token")


@pytest.mark.parametrize("key", ["split", "x_1", "", "odd key", 'quo"te', "ключ", "@id", "2", "a.b"])
def test_metadata_keys_survive_being_stored(key):
    assert metadata_key(json_key(key)) == key
    assert json_key(key).isidentifier()


# Damage


def test_changes_behind_the_index_are_reported_and_not_served(address, tmp_path):
    from pymilvus import MilvusClient

    images = {**collection(20), "ids": [f"{number:02d}" for number in range(20)]}
    index = make(address, images)
    client = MilvusClient(str(tmp_path / "images.db"))
    (row,) = client.query("pictures", filter=f'id == "{images["ids"][0]}"', output_fields=["*"])
    row["row"] = [value + 1.0 for value in row["row"]]
    client.upsert("pictures", [row])
    client.delete("pictures", filter=f'id == "{images["ids"][1]}"')
    problems = index.verify()
    assert len(problems) == 2
    assert any(repr(images["ids"][0]) in problem and "checksum" in problem for problem in problems)
    assert any("19 images instead of 20" in problem for problem in problems)
    with pytest.raises(FactIndexError, match="damaged at image"):
        index.query("<dog>", 20)


def test_a_write_cut_short_is_reported_until_it_is_made_again(address, monkeypatch):
    images = collection(30)
    index = make(address, {name: column[:20] for name, column in images.items()})
    rest = {name: column[20:] for name, column in images.items()}

    def killed(*_):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(MilvusBackend, "_finish", killed)
        with pytest.raises(KeyboardInterrupt):
            index.add(**rest, model="m1")
    again = FactIndex.open(address)
    assert any("cut short" in problem for problem in again.verify())
    assert again.query("<dog>")
    again.add(**rest, model="m1")
    assert again.verify() == []
    assert len(again) == 30


def test_a_second_writer_is_told_so(address, monkeypatch):
    images = collection(30)
    index, other = make(address, images), FactIndex.open(address)
    finish = MilvusBackend._finish

    def meanwhile(*arguments):
        monkeypatch.setattr(MilvusBackend, "_finish", finish)
        other.remove(images["ids"][:2])
        finish(*arguments)

    monkeypatch.setattr(MilvusBackend, "_finish", meanwhile)
    with pytest.raises(FactIndexError, match="another process"):
        index.remove(images["ids"][5:6])


def test_a_damaged_record_is_refused(address, tmp_path):
    from pymilvus import MilvusClient

    index = make(address, collection(10))
    client = MilvusClient(str(tmp_path / "images.db"))
    client.delete("pictures_record", ids=[f"{index.backend.head.record.name}/0"])
    with pytest.raises(FactIndexError, match="damaged"):
        FactIndex.open(address)
    client.delete("pictures_record", ids=["head"])
    with pytest.raises(FactIndexError, match="not written to the end"):
        FactIndex.open(address)
    assert make(address, collection(10), overwrite=True).verify() == []


@pytest.mark.slow
def test_more_equal_images_than_milvus_gives_at_once_are_all_found(address, tmp_path):
    count = milvus_store.MOST + 3000
    images = {
        "vectors": np.ones((count, 3, 8), np.float32),
        "ids": [f"{number:05d}" for number in range(count)],
        "paths": ["x"] * count,
    }
    in_milvus, in_folder = make(address, images), make(tmp_path / "index", images)
    assert in_milvus.query("<dog>", 5) == in_folder.query("<dog>", 5)
    assert [hit.id for hit in in_milvus.query("<dog>", count)] == images["ids"]
