"""What the page shows, as values to compare with what the API answers."""

from urllib.parse import parse_qs, urlsplit

SLOT = ".chip-field input"
TOP = 40  # fewer than the page asks for at once, so that it does not matter whether more have come meanwhile


def ids(page, place=0):
    """The first pictures of a list, best first."""
    page.locator("#results[aria-busy=false]").wait_for()
    shown = page.locator(".list").nth(place).locator(".card[data-id]")
    shown.first.wait_for()
    return shown.evaluate_all("cards => cards.map(card => card.dataset.id)")[:TOP]


def chips(page):
    """The three units; an open one is empty."""
    page.locator("#results[aria-busy=false]").wait_for()
    page.locator(SLOT).first.wait_for()
    return page.locator(SLOT).evaluate_all("fields => fields.map(field => field.value)")


def asked(page):
    """The parameters of the page's address."""
    return parse_qs(urlsplit(page.url).query)


def ranking(running, **parameters):
    """What the API answers to the same question."""
    return [hit["id"] for hit in running.get("/search", k=TOP, **parameters)["hits"]]


def search(page, text):
    """Ask for a text, and wait for the answer."""
    page.get_by_label("Ask for a fact").fill(text)
    with page.expect_response(lambda response: "/api/v1/search?" in response.url):
        page.get_by_role("button", name="Search", exact=True).click()
    page.locator("#results[aria-busy=false]").wait_for()


def answered(page):
    """A block in which the page asks, and gets an answer."""
    return page.expect_response(lambda response: "/api/v1/search" in response.url or "/similar" in response.url)
