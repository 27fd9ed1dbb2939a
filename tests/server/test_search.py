"""The service gives the answers of the index, in the shapes that its OpenAPI document describes."""

from types import SimpleNamespace

import numpy as np
import pytest

from factlearn.evaluation.ranking import average_precision
from factlearn.evaluation.scoring import masked_scores
from factlearn.facts import Fact, FactQuery
from factlearn.retrieval import FactIndex
from factlearn.server.asking import Found, Options
from factlearn.server.shapes import indexes as about
from factlearn.server.shapes.search import ManyAnswers, SearchAnswer, SimilarAnswer, Understood

QUERIES = [
    {"q": "<person, riding, *>"},
    {"q": "<person, riding, bike>", "k": 7, "offset": 5},
    {"subject": "person", "object": "bike"},
    {"q": "a person riding a bike but not a mountain bike", "k": 5},
    {"q": "<person>", "and": ["<*, riding>"], "not": ["<*, *, mountain bike>"], "margin": 0.2},
    {"q": "dog or woman", "k": 9, "offset": 3},
    {"q": "<dog>", "weights": "1,2,1", "where": "year >= 2000 and split = 'test'", "k": 1000},
    {"q": "<person, riding>", "threshold": -0.5},
    {"q": "<person, riding>", "or": ["<dog>"], "k": 40},
    {"q": "<bike>", "anywhere": True},
]


def directly(index, asked):
    """What the index itself answers."""
    units = [asked.get(name) or "*" for name in ("subject", "predicate", "object")]
    weights = [float(each) for each in asked["weights"].split(",")] if "weights" in asked else None
    return index.query(
        asked.get("q") or f"<{', '.join(units)}>",
        asked.get("k", 24),
        also=asked.get("and", ()),
        without=asked.get("not", ()),
        any_of=asked.get("or", ()),
        weights=weights,
        **{name: asked[name] for name in ("where", "offset", "threshold", "margin", "anywhere") if name in asked},
    )


@pytest.mark.parametrize("asked", QUERIES, ids=str)
def test_a_search_answers_what_the_index_answers(plain_service, asked):
    index = plain_service.service.catalog.find(None).current().index
    found = SearchAnswer(**plain_service.get("/search", **asked))
    expected = directly(index, asked)
    assert [(hit.id, hit.score, hit.scores) for hit in found.hits] == [(h.id, h.score, h.scores) for h in expected]
    assert [hit.fact for hit in found.hits] == [None if h.fact is None else str(h.fact) for h in expected]


def test_pages_follow_each_other_without_gap_or_repetition(plain_service):
    whole = plain_service.get("/search", q="<person, riding>", k=1000)
    pages, offset = [], 0
    while offset is not None:
        page = plain_service.get("/search", q="<person, riding>", k=17, offset=offset)
        pages += page["hits"]
        offset = page["next"]
    assert pages == whole["hits"]
    assert len(pages) == whole["images"]


def test_what_was_understood_is_told_unit_by_unit(plain_service):
    found = Understood(**plain_service.get("/understand", q="a person riding a bike but not a dog"))
    assert (found.query.subject, found.query.predicate, found.query.object) == ("person", "riding", "bike")
    assert [each.fact for each in found.without]
    answer = plain_service.get("/search", q="a person riding a bike but not a dog", k=1)
    assert answer["understood"] == found.model_dump()


def test_several_queries_are_answered_each_by_itself(plain_service):
    texts = ["<dog>", "<person, riding>", "a woman holding a dog"]
    answers = ManyAnswers(**plain_service.post("/search", json={"queries": texts, "k": 6}, headers={})).answers
    singly = [plain_service.get("/search", q=text, k=6)["hits"] for text in texts]
    assert [[hit.model_dump() for hit in answer.hits] for answer in answers] == singly


def test_relevant_images_can_be_sorted_by_a_column(plain_service):
    found = plain_service.get("/search", q="<dog>", sort="-year", within=20, k=20)
    years = [float(hit["metadata"].get("year", "-inf")) for hit in found["hits"]]
    assert years == sorted(years, reverse=True)
    best = plain_service.get("/search", q="<dog>", k=20)
    assert {hit["id"] for hit in found["hits"]} == {hit["id"] for hit in best["hits"]}
    by_model = plain_service.get("/search", q="<dog>", sort="model", within=20, k=20)
    assert [hit["id"] for hit in by_model["hits"]] == [hit["id"] for hit in best["hits"]]  # one model: as before


def test_a_vector_and_an_indexed_image_find_the_same_neighbours(plain_service):
    index = plain_service.service.catalog.find(None).current().index
    vector = index.vectors[7]
    by_vector = plain_service.post("/search/vector", json={"vector": vector.tolist(), "k": 5}, headers={})
    by_image = plain_service.get("/images/set%2F7.png/similar", k=5)
    SimilarAnswer(**by_vector)
    assert by_vector["hits"] == by_image["hits"]
    assert by_image["hits"][0]["id"] == "set/7.png"
    assert [each["fact"] for each in by_image["facts"]] == [str(one.fact) for one in index.facts_of(vector, 5)]


def test_units_are_completed_with_the_number_of_images(plain_service):
    index = plain_service.service.catalog.find(None).current().index
    found = about.VocabularyAnswer(**plain_service.get("/vocabulary", prefix="ri", position="predicate")).units
    labelled = [item["fact"] for item in index.items() if item["fact"] and "riding" in item["fact"]]
    assert [(unit.unit, unit.images) for unit in found] == [("riding", len(labelled))]
    completed = plain_service.get("/vocabulary", prefix="bi")["units"]
    assert {unit["unit"] for unit in completed} == {"bike", "mountain bike"}
    assert [unit["images"] for unit in completed] == sorted((unit["images"] for unit in completed), reverse=True)
    columns = about.ColumnsAnswer(**plain_service.get("/columns")).columns
    split = next(column for column in columns if column.name == "split")
    assert [(value.value, value.images) for value in split.values] == [("test", 120)]
    facts = about.KnownFacts(**plain_service.get("/facts")).facts
    assert sum(fact.images for fact in facts) == sum(item["fact"] is not None for item in index.items())


@pytest.mark.parametrize(
    ("path", "status", "sentence"),
    [
        ("/search?q=", 400, "empty"),
        ("/search", 400, "Nothing is asked for"),
        ("/search?q=%3Ca,b,c,d%3E", 400, "at most subject"),
        ("/search?q=%3Cdog%3E&where=nothing+%3D+1", 400, "no column"),
        ("/search?q=%3Cdog%3E&where=" + "(" * 1500, 400, "nested"),
        ("/search?q=%3Cdog%3E&weights=1,x", 400, "not weights"),
        ("/search?q=%3Cdog%3E&weights=0,1,1", 400, "weights"),
        ("/search?q=%3Cdog%3E&k=0", 422, "k:"),
        ("/search?q=%3Cdog%3E&colour=red", 422, "colour"),
        ("/search?q=%3Cdog%3E&index=none", 404, "no index"),
        ("/search?q=%3Cdog%3E&stage=3", 404, "stage 3"),
        ("/images/nobody", 404, "no image"),
        ("/jobs/none", 404, "no such job"),
        ("/runs/none/metrics", 404, "no run"),
        ("/nothing", 404, "nothing at"),
    ],
)
def test_a_mistake_is_answered_with_one_sentence(plain_service, path, status, sentence):
    response = plain_service.http.get(f"/api/v1{path}")
    assert response.status_code == status, response.text
    assert response.headers["content-type"] == "application/problem+json"
    assert sentence in response.json()["detail"]
    assert "\n" not in response.json()["detail"]


def test_the_cut_is_told_once_the_ranking_reaches_it():
    hits = [SimpleNamespace(probability=chance) for chance in (0.9, 0.8, 0.3, 0.6, 0.2, 0.1)]
    assert Found.page(hits, Options(k=3, offset=3), images=100).cut == 4
    assert Found.page(hits[:2], Options(k=2), images=100).cut is None  # further pages may be seen as well
    assert Found.page(hits[:2], Options(k=24), images=2).cut == 2
    assert Found.page(hits[4:], Options(k=2), images=100).cut == 0
    unknown = [SimpleNamespace(probability=None)] * 3
    assert Found.page(unknown, Options(k=3), images=3).cut is None


def test_a_word_without_a_vector_is_told(photo_service):
    for _ in range(2):  # the second time from memory
        assert "no vector" in photo_service.get("/search", 400, q="<xylophonist>")["detail"]


def test_time_travel_tells_how_well_a_query_does_after_each_task(photo_service, learned):
    found = about.StagesAnswer(**photo_service.get("/stages", q="<person, riding, bike>"))
    assert [stage.index for stage in found.stages] == ["photos-after-task-1", "photos"]
    assert found.over == "split = 'test'"
    query = FactQuery.parse("<person, riding, bike>")
    for stage in found.stages:
        index = FactIndex.open(learned / "indexes" / stage.index)
        items = index.items()
        test = [place for place, item in enumerate(items) if item["metadata.split"] == "test"]
        relevant = np.array([items[place]["fact"] == "<person, riding, bike>" for place in test])
        scores = masked_scores(index.vectors[test], *index.language.embed([query]))[0]
        expected = average_precision(scores, relevant, [items[place]["id"] for place in test])
        assert stage.average_precision == pytest.approx(expected, abs=1e-12)
    assert (found.images, found.relevant) == (len(test), relevant.sum())
    earlier = photo_service.get("/search", q="<person, riding, bike>", stage=1, k=5)
    direct = FactIndex.open(learned / "indexes" / "photos-after-task-1").query("<person, riding, bike>", 5)
    assert [hit["id"] for hit in earlier["hits"]] == [hit.id for hit in direct]


def test_time_travel_judges_what_the_filters_and_exclusions_leave(photo_service, learned):
    asked = {"q": "<person>", "not": ["<*, *, bike>"], "where": "id like '%1%'", "weights": "1,2,1"}
    found = about.StagesAnswer(**photo_service.get("/stages", **asked))
    assert found.over == "split = 'test' and (id like '%1%')"
    for stage in found.stages:
        index = FactIndex.open(learned / "indexes" / stage.index)
        options = {"without": asked["not"], "weights": (1, 2, 1), "where": found.over}
        right = [
            hit.fact.subject == "person" and hit.fact.object != "bike" for hit in index.query("<person>", 99, **options)
        ]
        facts = [Fact.parse(item["fact"]) for item in index.items(found.over)]
        relevant = [fact.subject == "person" and fact.object != "bike" for fact in facts]
        precisions = [sum(right[: place + 1]) / (place + 1) for place, good in enumerate(right) if good]
        assert stage.average_precision == pytest.approx(sum(precisions) / sum(relevant), abs=1e-12)
        assert (found.images, found.relevant) == (len(facts), sum(relevant))
    assert sum(relevant) > 0
    everything = photo_service.get("/stages", q="<person>")
    assert everything["images"] > found.images
    train = photo_service.get("/stages", q="<person>", where="split = 'train'")
    assert train["over"] == "split = 'train'"
    first = photo_service.get("/images", where="split = 'train'", limit=1)["images"][0]["id"]
    untested = photo_service.get("/stages", q="<person>", where=f"id = '{first}'")
    assert (untested["over"], untested["images"]) == (f"id = '{first}'", 1)


def test_runs_tell_what_they_achieved(photo_service, learned):
    from factlearn.learning.runs import Run

    result = Run.open(learned / "runs" / "mas").result()
    (run,) = photo_service.get("/runs")["runs"]
    assert (run["name"], run["indexes"], run["remembers"], run["stages"]) == ("mas", ["photos"], True, 2)
    metrics = photo_service.get("/runs/mas/metrics")
    assert metrics["matrix"]["exact"] == result.matrix("exact")
    assert metrics["whole"]["prefix"] == result.whole("prefix")
    stages = photo_service.get("/stages")["stages"]
    assert [stage["map_all"] for stage in stages] == result.whole("exact")
