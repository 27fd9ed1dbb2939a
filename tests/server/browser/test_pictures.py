"""Pictures on the page: asking with one, more like one, adding and downloading; and time travel and remembering."""

import base64
import csv
import io
import json
import zipfile
from urllib.parse import quote

from PIL import Image
from playwright.sync_api import expect

from tests.conftest import draw
from tests.server.browser.reading import TOP, answered, asked, ids, ranking, search
from tests.server.running import serving

RIDING = "<person, riding, bike>"
RIDING_LINK = "/?q=%3Cperson%2C+riding%2C+bike%3E"


def facts_of(running, picture):
    """The first five facts of a picture, as the API tells them."""
    answer = running.http.post("/api/v1/facts", files={"image": picture.read_bytes()}, data={"k": "5"})
    return [fact["fact"] for fact in answer.json()["facts"]]


def test_a_chosen_picture_shows_its_facts_and_neighbours_and_can_be_added(writable_service, open_page, picture, token):
    page = open_page(writable_service, token=token)
    with page.expect_response(lambda response: "/search/image" in response.url):
        page.get_by_label("A picture to ask with").set_input_files(picture)
    shown = page.locator("#reference .fact-list .link")
    expect(shown.first).to_be_visible()
    assert shown.all_inner_texts() == facts_of(writable_service, picture)
    assert len(ids(page)) > 10
    assert "token" not in page.url
    page.get_by_role("button", name="Add to the index").click()
    expect(page.locator("#reference")).to_contain_text("Added as")
    assert writable_service.get("/images", where="id like '%'")["total"] > 54


def test_going_back_returns_to_the_picture_before(photo_service, open_page, picture, tmp_path):
    draw(3, 78, tmp_path / "other.png")
    page = open_page(photo_service)
    found = []
    for file in (picture, tmp_path / "other.png"):
        with answered(page):
            page.get_by_label("A picture to ask with").set_input_files(file)
        found.append(ids(page))
    assert found[0] != found[1]
    with answered(page):
        page.go_back()
    assert ids(page) == found[0]


def test_a_removed_picture_does_not_come_back_with_the_next_page(plain, open_page, token):
    with serving(plain.path) as running:
        first, *rest = [hit["id"] for hit in running.get("/search", q="<dog>", k=len(plain))["hits"]]
        page = open_page(running, f"/?q=%3Cdog%3E&show={quote(first)}&pick={quote(first)}", token)
        page.get_by_role("button", name="Remove").click()
        page.get_by_role("button", name="Really remove it?").click()
        expect(page.locator("#detail")).to_be_hidden()
        expect(page.locator("#selection")).to_be_hidden()
        page.mouse.wheel(0, 20_000)
        shown = page.locator(".card[data-id]")
        expect(shown.nth(60)).to_be_attached()
        found = shown.evaluate_all("cards => cards.map(card => card.dataset.id)")
        assert found == rest[: len(found)]
        page.close()


def test_a_dropped_picture_is_asked_with(photo_service, open_page, picture):
    page = open_page(photo_service)
    content = base64.b64encode(picture.read_bytes()).decode()
    with answered(page):
        page.evaluate(
            """async (content) => {
                const bytes = Uint8Array.from(atob(content), (letter) => letter.charCodeAt(0));
                const carried = new DataTransfer();
                carried.items.add(new File([bytes], "dropped.png", { type: "image/png" }));
                document.body.dispatchEvent(new DragEvent("drop", { dataTransfer: carried, bubbles: true }));
            }""",
            content,
        )
    expect(page.locator("#reference .fact-list .link").first).to_have_text(facts_of(photo_service, picture)[0])
    page.reload()
    expect(page.locator("#message")).to_contain_text("Pictures are not part of links")


def test_a_pasted_picture_is_asked_with(photo_service, open_page, picture):
    """With the real clipboard and Control+V, also while the box has the focus."""
    page = open_page(photo_service, permissions=["clipboard-read", "clipboard-write"])
    page.evaluate(
        """async (content) => {
            const bytes = Uint8Array.from(atob(content), (letter) => letter.charCodeAt(0));
            const blob = new Blob([bytes], { type: "image/png" });
            await navigator.clipboard.write([new ClipboardItem({ "image/png": blob })]);
        }""",
        base64.b64encode(picture.read_bytes()).decode(),
    )
    page.get_by_label("Ask for a fact").focus()
    with answered(page):
        page.keyboard.press("Control+V")
    expect(page.locator("#reference .fact-list .link").first).to_have_text(facts_of(photo_service, picture)[0])
    expect(page.locator("#reference img")).to_have_js_property("complete", True)
    assert page.locator("#reference img").evaluate("picture => picture.naturalWidth") > 0
    assert len(ids(page)) > 10


def test_pasted_text_is_left_to_the_box(photo_service, open_page):
    page = open_page(photo_service, permissions=["clipboard-read", "clipboard-write"])
    page.evaluate("navigator.clipboard.writeText('<person, riding, bike>')")
    page.get_by_label("Ask for a fact").focus()
    page.keyboard.press("Control+V")
    expect(page.get_by_label("Ask for a fact")).to_have_value(RIDING)


def test_what_is_no_picture_is_refused_in_a_sentence(photo_service, open_page, tmp_path):
    broken = tmp_path / "broken.png"
    broken.write_bytes(b"not a picture")
    page = open_page(photo_service)
    with page.expect_response(lambda response: "/search/image" in response.url) as refused:
        page.get_by_label("A picture to ask with").set_input_files(broken)
    expect(page.locator("#message")).to_contain_text(refused.value.json()["detail"])


def test_more_like_this(photo_service, open_page):
    page = open_page(photo_service, RIDING_LINK)
    first = ids(page)[0]
    page.locator(".card a").first.click()
    detail = photo_service.get(f"/images/{first}")
    expect(page.locator("#detail .fact-list .link").first).to_have_text(detail["facts"][0]["fact"])
    expect(page.locator("#detail .bars .bar")).to_have_count(3)
    with answered(page):
        page.get_by_role("button", name="More like this").click()
    assert asked(page)["like"] == [first]
    similar = photo_service.get(f"/images/{first}/similar", k=TOP)["hits"]
    assert ids(page) == [hit["id"] for hit in similar]


def test_selected_pictures_are_downloaded(photo_service, open_page):
    page = open_page(photo_service, RIDING_LINK)
    chosen = ids(page)[:2]
    for place in range(2):
        page.locator(".card").nth(place).hover()
        page.locator(".card .pick input").nth(place).check()
    with page.expect_download() as got:
        page.get_by_role("button", name="Download as csv").click()
    rows = list(csv.DictReader(io.StringIO(got.value.path().read_text())))
    assert [row["id"] for row in rows] == chosen
    with page.expect_download() as got:
        page.get_by_role("button", name="Download as json").click()
    assert chosen[0] in json.dumps(json.loads(got.value.path().read_text()))
    with page.expect_download() as got:
        page.get_by_role("button", name="Download as zip").click()
    assert got.value.suggested_filename == "photos-selected.zip"
    with zipfile.ZipFile(got.value.path()) as archive:
        listed = json.loads(archive.read("images.json"))
        assert [row["id"] for row in listed] == chosen
        for row in listed:
            Image.open(io.BytesIO(archive.read(row["file"]))).verify()
    again = open_page(photo_service, page.url.removeprefix(photo_service.url))
    expect(again.locator("#selection")).to_contain_text("2 pictures")


def test_time_travel_shows_what_the_older_model_saw(photo_service, open_page):
    page = open_page(photo_service, RIDING_LINK)
    page.get_by_role("button", name="Time travel").click()
    slider = page.get_by_role("slider", name="Model after task")
    slider.focus()
    with answered(page):
        slider.press("ArrowLeft")
    assert asked(page)["stage"] == ["1"]
    expect(page.locator("#status")).to_contain_text("pictures")
    assert ids(page) == ranking(photo_service, q=RIDING, stage=1)
    expect(slider).to_be_focused()
    assert ids(page) != ranking(photo_service, q=RIDING)
    told = photo_service.get("/stages", q=RIDING)["stages"]
    page.get_by_text("As numbers").click()
    row = page.get_by_role("row", name="this query's average precision")
    assert row.get_by_role("cell").all_inner_texts() == [f"{stage['average_precision']:.3f}" for stage in told]
    row = page.get_by_role("row", name="MAP, all tasks")
    assert row.get_by_role("cell").all_inner_texts() == [f"{stage['map_all']:.3f}" for stage in told]


def test_two_indexes_stand_side_by_side(photo_service, open_page):
    page = open_page(photo_service, RIDING_LINK)
    page.get_by_role("button", name="Time travel").click()
    page.get_by_label("Side by side with").select_option("early")
    expect(page.locator(".list")).to_have_count(2)
    expect(page.locator(".curves")).to_have_count(2)
    assert ids(page, 0) == ranking(photo_service, q=RIDING, index="photos")
    assert ids(page, 1) == ranking(photo_service, q=RIDING, index="early")


def test_facts_are_remembered_with_the_token(photo_service, open_page, token):
    page = open_page(photo_service, RIDING_LINK)
    page.get_by_role("button", name="Remember", exact=True).click()
    page.get_by_label("Find facts to remember").fill("riding")
    page.locator(".fact-choice").get_by_label(RIDING).check()
    page.get_by_role("button", name="Remember 1 fact").click()
    dialog = page.get_by_role("dialog", name="Token")
    dialog.get_by_role("textbox", name="Token").fill(token)
    dialog.get_by_role("button", name="Use it").click()
    held = page.locator(".firmness")
    held.wait_for(timeout=60_000)
    result = photo_service.get("/jobs")["jobs"][0]["result"]
    gained = sum(fact["after"] > fact["before"] for fact in result["facts"])
    expect(held).to_contain_text(f"{gained} of {len(result['facts'])} facts are held more firmly than before")
    expect(held).to_contain_text(result["run"])
    expect(held.locator(".firm-fact").first).to_contain_text(result["facts"][0]["fact"])
    assert page.evaluate("localStorage.getItem('factlearn-token')") is None


def test_a_wrong_token_is_asked_for_again(photo_service, open_page, picture):
    page = open_page(photo_service, token="not-the-right-token")
    page.get_by_label("A picture to ask with").set_input_files(picture)
    page.get_by_role("button", name="Add to the index").click()
    dialog = page.get_by_role("dialog", name="Token")
    expect(dialog).to_be_visible()
    dialog.get_by_role("button", name="Cancel").click()
    expect(page.get_by_role("button", name="Add to the index")).to_be_enabled()


def test_a_stage_of_the_index_survives_a_new_question(photo_service, open_page):
    page = open_page(photo_service, f"{RIDING_LINK}&stage=1")
    search(page, "<dog>")
    assert ids(page) == ranking(photo_service, q="<dog>", stage=1)


def test_time_travel_judges_what_the_filters_and_the_exclusions_leave(photo_service, open_page):
    page = open_page(photo_service, f"{RIDING_LINK}&panel=travel&not=%3Cdog%3E&has.split=test")
    told = photo_service.get("/stages", **{"q": RIDING, "not": "<dog>", "where": "split like '%test%'"})
    page.get_by_text("As numbers").click()
    row = page.get_by_role("row", name="this query's average precision")
    expect(row.get_by_role("cell").first).to_be_visible()
    precisions = [f"{stage['average_precision']:.3f}" for stage in told["stages"]]
    assert row.get_by_role("cell").all_inner_texts() == precisions
    expect(page.locator("#travel")).to_contain_text(f"{told['relevant']} of {told['images']} labelled pictures")
