"""What the page shows when not all is well: a damaged index, one without a run, one whose run is another's."""

import os

import pytest
from playwright.sync_api import expect

from tests.server.browser.reading import ids, ranking, search
from tests.server.conftest import make_plain
from tests.server.running import serving, wait_until


@pytest.fixture
def damaged_service(tmp_path):
    """A service over a whole index and one of which a byte was changed; the file, and what it was."""
    whole, other = make_plain(tmp_path, "whole"), make_plain(tmp_path, "other")
    rows = next((other.path / "segments").glob("*/rows.npy"))
    before = rows.read_bytes()
    with open(rows, "r+b") as stream:
        stream.seek(-5, os.SEEK_END)
        stream.write(bytes([before[-5] ^ 1]))
    with serving(other.path, whole.path) as running:
        yield running, rows, before


def test_a_damaged_index_is_explained_and_the_other_one_answers(damaged_service, open_page):
    running, rows, before = damaged_service
    page = open_page(running, "/?q=%3Cdog%3E")
    message = page.locator("#message")
    expect(message).to_contain_text("other cannot be searched")
    expect(message).to_contain_text("damaged")
    expect(message).not_to_contain_text(str(rows.parent.parent))
    page.locator("#index").select_option("whole")
    assert ids(page) == ranking(running, q="<dog>", index="whole")
    page.locator("#index").select_option("other")
    expect(message).to_contain_text("other cannot be searched")
    rows.write_bytes(before)
    wait_until(lambda: running.http.get("/readyz", params={"index": "other"}).status_code == 200, 60)
    message.get_by_role("button", name="Try again").click()
    assert ids(page) == ranking(running, q="<dog>", index="other")


def test_an_index_without_a_run_answers_and_says_what_it_cannot_do(plain_service, open_page, picture):
    page = open_page(plain_service)
    search(page, "<dog>")
    assert ids(page) == ranking(plain_service, q="<dog>")
    page.get_by_role("button", name="Time travel").click()
    expect(page.locator("#travel")).to_contain_text("There is one model behind plain")
    page.get_by_role("button", name="Remember", exact=True).click()
    expect(page.locator("#remember")).to_contain_text("start the service with --run")
    page.get_by_label("A picture to ask with").set_input_files(picture)
    expect(page.locator("#message")).to_contain_text("The run that made plain is not known")


def test_an_index_of_another_model_finds_facts_but_takes_no_pictures(learned, tmp_path, open_page, picture):
    foreign = make_plain(tmp_path, "foreign")
    with serving(foreign.path, run=learned / "runs" / "mas") as running:
        wait_until(lambda: running.service.catalog.find(None).run is not None)
        page = open_page(running)
        search(page, "<dog>")
        assert ids(page) == ranking(running, q="<dog>")
        page.get_by_label("A picture to ask with").set_input_files(picture)
        expect(page.locator("#message")).to_contain_text("is not comparable")
        page.close()
