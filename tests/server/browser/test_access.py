"""Everyone can use the page: by keyboard alone, on a phone, with a screen reader, in dark and light."""

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import expect

from tests.server.browser.reading import answered, asked, ids
from tests.server.running import serving

RIDING_LINK = "/?q=%3Cperson%2C+riding%2C+bike%3E"
STATES = {
    "start": "/",
    "search": f"{RIDING_LINK}&cut=5&pick=0-0.png",
    "filters": f"{RIDING_LINK}&panel=filters",
    "travel": f"{RIDING_LINK}&panel=travel&other=early",
    "remember": f"{RIDING_LINK}&panel=remember",
    "detail": f"{RIDING_LINK}&show=0-0.png",
    "like": "/?like=0-0.png",
    "error": "/?q=%3Ca%2C+b%2C+c%2C+d%3E",
}


def violations(page):
    """What axe calls serious or critical: the rule and the elements."""
    found = Axe().run(page).response["violations"]
    serious = [rule for rule in found if rule["impact"] in ("serious", "critical")]
    return [(rule["id"], [node["html"] for node in rule["nodes"]]) for rule in serious]


@pytest.mark.parametrize(("width", "scheme"), [(1280, "light"), (390, "dark")])
def test_axe_finds_nothing_serious_and_nothing_is_too_wide(photo_service, open_page, width, scheme):
    page = open_page(photo_service, width=width, color_scheme=scheme)
    for name, address in STATES.items():
        page.goto(photo_service.url + address)
        page.wait_for_load_state("networkidle")
        assert (name, violations(page)) == (name, [])
        assert (name, page.evaluate("document.documentElement.scrollWidth")) == (name, width)


def test_keyboard_alone_is_enough(photo_service, open_page):
    page = open_page(photo_service)
    press = page.keyboard.press
    press("/")
    expect(page.get_by_label("Ask for a fact")).to_be_focused()
    page.keyboard.type("person rid")
    expect(page.locator(".box .suggestions").get_by_role("option").first).to_be_visible()
    press("ArrowDown")
    with answered(page):
        press("Enter")
    assert asked(page)["q"] == ["<person, riding, bike>"]
    shown = ids(page)
    press("Escape")
    page.locator(".skip").focus()
    press("Enter")
    press("Tab")
    if photo_service.get("/search", q="<person, riding, bike>")["cut"] == 0:  # the line stands above all pictures
        expect(page.get_by_label("Move the cut")).to_be_focused()
        press("Tab")
    press("ArrowRight")
    focused = page.locator(".card a:focus")
    expect(focused.locator(".why")).to_have_css("opacity", "1")
    assert focused.locator("..").get_attribute("data-id") == shown[1]
    press(" ")
    assert asked(page)["pick"] == [shown[1]]
    press("Enter")
    expect(page.locator("#detail")).to_be_visible()
    press("ArrowRight")
    assert asked(page)["show"] == [shown[2]]
    press("Escape")
    expect(page.locator("#detail")).to_be_hidden()
    assert "show" not in asked(page)


def test_a_tap_on_a_phone_shows_why_a_picture_matched(photo_service, open_page):
    page = open_page(photo_service, RIDING_LINK, width=390, has_touch=True, is_mobile=True)
    page.locator(".card a").first.tap()
    expect(page.locator("#detail .bars .bar")).to_have_count(3)
    page.get_by_role("button", name="Close").tap()
    expect(page.locator("#detail")).to_be_hidden()


def test_colours_follow_the_system_until_they_are_chosen(photo_service, open_page):
    page = open_page(photo_service, color_scheme="dark")
    ground = "getComputedStyle(document.body).backgroundColor"
    dark = page.evaluate(ground)
    page.get_by_role("button", name="Colours: as the system").click()
    light = page.evaluate(ground)
    assert light != dark
    page.reload()
    assert page.evaluate(ground) == light
    page.get_by_role("button", name="Colours: light").click()
    assert page.evaluate(ground) == dark


def test_results_are_announced(photo_service, open_page):
    page = open_page(photo_service, RIDING_LINK)
    status = page.get_by_role("status").filter(has_text="pictures")
    expect(status).to_contain_text("54")
    for landmark in ("banner", "search", "navigation", "main"):
        assert page.get_by_role(landmark).count() == 1


def test_a_service_that_needs_a_token_to_read_asks_for_it(learned, open_page, token):
    with serving(learned / "indexes" / "photos", token_to_read=True) as running:
        page = open_page(running, RIDING_LINK, arrived="#token-dialog")
        page.get_by_role("textbox", name="Token").fill("not-the-right-token")
        page.keyboard.press("Enter")
        expect(page.get_by_role("textbox", name="Token")).to_have_value("")
        page.get_by_role("textbox", name="Token").fill(token)
        page.keyboard.press("Enter")
        assert len(ids(page)) > 10
        expect(page.locator(".card img").first).to_have_js_property("complete", True)
        assert page.locator(".card img").first.evaluate("picture => picture.naturalWidth") > 0
        tab = page.context.new_page()  # the cookie is enough to read: nobody is asked twice
        tab.goto(running.url + RIDING_LINK)
        assert ids(tab) == ids(page)
        expect(tab.get_by_role("dialog", name="Token")).to_be_hidden()
        tab.close()
        page.close()
