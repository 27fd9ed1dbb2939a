"""The page's search: the box, the chips, links, filters, the cut, and texts that want to be markup."""

import re

import numpy as np
import pytest
from playwright.sync_api import expect

from factlearn.facts import Fact
from factlearn.retrieval import FactIndex, Version
from tests.server.browser.reading import TOP, answered, asked, chips, ids, ranking, search
from tests.server.running import serving

RIDING = "<person, riding, bike>"
RIDING_LINK = "/?q=%3Cperson%2C+riding%2C+bike%3E"


def test_a_fact_is_answered_as_by_the_api(photo_service, open_page):
    page = open_page(photo_service)
    search(page, RIDING)
    assert ids(page) == ranking(photo_service, q=RIDING)
    assert chips(page) == ["person", "riding", "bike"]
    expect(page.locator("#status")).to_contain_text("pictures")
    expect(page.locator(".card img").first).to_have_js_property("complete", True)
    assert page.locator(".card img").first.evaluate("picture => picture.naturalWidth") > 0


def test_a_sentence_is_shown_as_what_was_understood(photo_service, open_page):
    page = open_page(photo_service)
    search(page, "a person riding a bike but not a dog")
    assert chips(page) == ["person", "riding", "bike"]
    expect(page.locator(".extra.not")).to_contain_text("dog")


def test_a_chip_opens_as_wildcard(photo_service, open_page):
    page = open_page(photo_service, RIDING_LINK)
    with answered(page):
        page.get_by_role("button", name="Any object").click()
    assert chips(page) == ["person", "riding", ""]
    assert asked(page)["q"] == ["<person, riding, *>"]
    assert ids(page) == ranking(photo_service, q="<person, riding, *>")


def test_a_chip_is_completed_from_the_vocabulary(photo_service, open_page):
    page = open_page(photo_service, RIDING_LINK)
    page.get_by_role("combobox", name="predicate", exact=True).fill("hol")
    with answered(page):
        page.get_by_role("option", name="holding").click()
    assert asked(page)["q"] == ["<person, holding, bike>"]
    assert ids(page) == ranking(photo_service, q="<person, holding, bike>")


def test_a_chip_is_negated_and_affirmed_again(photo_service, open_page):
    page = open_page(photo_service, RIDING_LINK)
    with answered(page):
        page.get_by_role("button", name="Without this object").click()
    assert asked(page)["not"] == ["<*, *, bike>"]
    expect(page.locator(".chip.object")).to_have_class(re.compile("negated"))
    assert ids(page) == ranking(photo_service, q="<person, riding, *>", **{"not": "<*, *, bike>"})
    with answered(page):
        page.get_by_role("button", name="Without this object").click()
    assert ids(page) == ranking(photo_service, q=RIDING)


def test_what_may_be_shown_instead_survives_a_change_of_the_chips_and_can_be_removed(plain_service, open_page):
    page = open_page(plain_service, f"{RIDING_LINK}&or=%3Cdog%3E")
    assert ids(page) == ranking(plain_service, q=RIDING, **{"or": "<dog>"})
    with answered(page):
        page.get_by_role("button", name="Any object").click()
    assert asked(page)["or"] == ["<dog>"]
    assert ids(page) == ranking(plain_service, q="<person, riding, *>", **{"or": "<dog>"})
    with answered(page):
        page.get_by_role("button", name="Remove: or <dog>").click()
    assert "or" not in asked(page)
    assert ids(page) == ranking(plain_service, q="<person, riding, *>")


def test_a_chip_is_weighted(photo_service, open_page):
    page = open_page(photo_service, RIDING_LINK)
    with answered(page):
        page.get_by_label("Weight of the predicate").select_option("4")
    assert asked(page)["weights"] == ["1,4,1"]
    assert ids(page) == ranking(photo_service, q=RIDING, weights="1,4,1")


def test_every_state_is_a_link_and_the_back_button_works(photo_service, open_page):
    page = open_page(photo_service, RIDING_LINK)
    before = ids(page)
    search(page, "<dog>")
    assert ids(page) != before
    other = open_page(photo_service, page.url.removeprefix(photo_service.url))
    assert ids(other) == ids(page)
    expect(other.get_by_label("Ask for a fact")).to_have_value("<dog>")
    with answered(page):
        page.go_back()
    assert chips(page) == ["person", "riding", "bike"]
    expect(page.get_by_label("Ask for a fact")).to_have_value(RIDING)
    assert ids(page) == before


def test_recent_queries_come_back(photo_service, open_page):
    page = open_page(photo_service)
    search(page, "<tree>")
    page.get_by_role("link", name="factlearn").click()
    with answered(page):
        page.locator("#message").get_by_role("button", name="<tree>").last.click()
    assert chips(page)[0] == "tree"


def test_why_a_picture_matched_shows_on_hover(photo_service, open_page):
    page = open_page(photo_service, RIDING_LINK)
    card = page.locator(".card").first
    card.hover()
    hit = photo_service.get("/search", q=RIDING)["hits"][0]
    expect(card.locator(".why")).to_have_css("opacity", "1")
    expect(card.locator(".why")).to_contain_text(hit["fact"])
    values = card.locator(".bar-value").all_inner_texts()
    assert values == [f"{-hit['scores'][unit]:.2f}" for unit in ("subject", "predicate", "object")]


def test_filters_narrow_the_answer(photo_service, open_page):
    page = open_page(photo_service, RIDING_LINK)
    page.get_by_role("button", name="Filters").click()
    with answered(page):
        page.get_by_role("group", name="split").get_by_label("test").check()
    assert ids(page) == ranking(photo_service, q=RIDING, where="split = 'test'")
    with answered(page):
        page.get_by_label("Sort").select_option("-fact")
    assert ids(page) == ranking(photo_service, q=RIDING, where="split = 'test'", sort="-fact")


def move_the_cut(page):
    """To 5, and with the keyboard to 6."""
    slider, above = page.get_by_label("Move the cut"), page.locator(".grid").first.locator(".card")
    slider.fill("5")
    assert asked(page)["cut"] == ["5"]
    expect(page.locator(".cut")).to_contain_text("Your cut, below 5 pictures")
    assert above.count() == 5
    slider.press("ArrowRight")
    assert above.count() == 6


def test_the_models_line_is_shown_moved_and_put_back(photo_service, open_page):
    page = open_page(photo_service, RIDING_LINK)
    told = photo_service.get("/search", q=RIDING, k=TOP)["cut"]
    above = page.locator(".grid").first.locator(".card")
    expect(page.locator(".cut")).to_contain_text("Below here the model sees other facts")
    expect(page.locator("#status")).to_contain_text(f"{told} above the cut")
    expect(page.get_by_role("button", name="Mark a cut")).to_be_hidden()
    assert above.count() == told
    move_the_cut(page)
    assert ids(page) == ranking(photo_service, q=RIDING)
    page.get_by_role("button", name="As the model says").click()
    expect(page.locator(".cut")).to_contain_text("Below here the model sees other facts")
    assert above.count() == told


@pytest.fixture(scope="module")
def crowded_service(learned, tmp_path_factory):
    """A service over an index with 180 pictures that the model is sure of, so that its line is far down."""
    index = FactIndex.open(learned / "indexes" / "photos")
    entry = index.models[index.model]
    about = {"calibration": entry.calibration, "taught": entry.taught}
    target, _ = index.language.embed([Fact.parse(RIDING)])
    crowded = FactIndex.create(
        tmp_path_factory.mktemp("crowded") / "photos", np.concatenate([index.vectors, *[target] * 180]),
        [*index.ids, *map(str, range(180))], paths=[*index.paths, *index.paths[:1] * 180], language=index.language,
        model=Version(index.model, entry.lineage, **about), known_facts=index.facts,
    )  # fmt: skip
    with serving(crowded.path) as running:
        yield running


def test_the_models_line_shows_once_scrolling_reaches_it(crowded_service, open_page):
    page = open_page(crowded_service, RIDING_LINK)
    expect(page.locator(".card[data-id]").nth(47)).to_be_attached()
    expect(page.locator(".cut")).to_be_hidden()
    for _ in range(60):
        if page.locator(".cut").is_visible():
            break
        page.mouse.wheel(0, 20_000)
        page.wait_for_timeout(200)
    expect(page.locator(".cut")).to_contain_text("Below here the model sees other facts")
    expect(page.get_by_role("button", name="Mark a cut")).to_be_hidden()
    told = crowded_service.get("/search", q=RIDING, k=1000)["cut"]
    assert page.locator(".grid").first.locator(".card").count() == told >= 180


def test_a_cut_is_marked_moved_and_removed_where_no_model_tells(plain_service, open_page):
    page = open_page(plain_service, RIDING_LINK)
    assert plain_service.get("/search", q=RIDING)["cut"] is None
    expect(page.locator(".cut")).to_be_hidden()
    page.get_by_role("button", name="Mark a cut").click()
    expect(page.locator(".cut")).to_contain_text("Your cut")
    move_the_cut(page)
    assert ids(page) == ranking(plain_service, q=RIDING)
    page.get_by_role("button", name="Remove").click()
    expect(page.locator(".cut")).to_be_hidden()
    expect(page.get_by_role("button", name="Mark a cut")).to_be_visible()


def test_more_pictures_come_while_scrolling(plain_service, open_page):
    page = open_page(plain_service, "/?q=%3Cdog%3E")
    expect(page.locator(".card[data-id]").nth(47)).to_be_attached()
    page.mouse.wheel(0, 20_000)
    expect(page.locator(".card[data-id]").nth(48)).to_be_attached()
    shown = page.locator(".card[data-id]").evaluate_all("cards => cards.map(card => card.dataset.id)")
    assert shown == [hit["id"] for hit in plain_service.get("/search", q="<dog>", k=len(shown))["hits"]]
    expect(page.locator(".gone").first).to_be_visible()  # this index has no files: said so, in their place


def test_a_question_without_answer_says_why(photo_service, open_page):
    page = open_page(photo_service)
    search(page, "<a, b, c, d>")
    expect(page.locator("#message")).to_contain_text("a fact has at most subject, predicate and object")


def test_the_page_says_when_it_is_offline_and_comes_back(photo_service, open_page):
    page = open_page(photo_service, RIDING_LINK)
    page.context.set_offline(True)
    page.get_by_label("Ask for a fact").fill("<dog>")
    page.get_by_label("Ask for a fact").press("Enter")
    expect(page.locator("#banner")).to_contain_text("cannot be reached")
    page.context.set_offline(False)
    expect(page.locator("#banner")).to_be_hidden()
    assert ids(page) == ranking(photo_service, q="<dog>")


MARKUP = "<img src=x onerror=document.title='broken'>"


@pytest.fixture
def hostile_service(plain):
    """A service over an index in which names and metadata want to be markup."""
    plain.add(plain.vectors[:1], [MARKUP], paths=[MARKUP], model="m1", metadata=[{MARKUP: MARKUP, "split": MARKUP}])
    with serving(plain.path) as running:
        yield running


def test_texts_that_want_to_be_markup_stay_texts(hostile_service, open_page):
    page = open_page(hostile_service, "/?q=%3Cdog%3E&panel=filters&has.split=onerror")
    assert ids(page) == [MARKUP]
    page.locator(".card a").click()
    expect(page.locator("#detail .known")).to_contain_text(MARKUP)
    expect(page.locator("#filters")).to_contain_text(MARKUP)
    assert page.locator("img[src=x]").count() == 0
    assert page.title() == "<dog> · factlearn"
