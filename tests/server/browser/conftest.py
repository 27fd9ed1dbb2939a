"""Debian's chromium before a real service; whatever the page complains about in the console fails the test."""

import os
import shutil
from urllib.parse import urlsplit

import pytest

from tests.server.running import TOKEN, serving, wait_until

ARGUMENTS = (
    "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking",
    "--disable-component-update", "--disable-sync", "--disable-dev-shm-usage",
)  # fmt: skip
_EXPECTED = ("Failed to load resource",)  # chromium's own line for every 4xx, which some tests provoke

READY = "#results[aria-busy=false]"


def chromium_path():
    """Where chromium is; skips without one, except in CI, where a skipped test would go unnoticed."""
    found = os.environ.get("CHROMIUM") or shutil.which("chromium") or shutil.which("chromium-browser")
    if found:
        return found
    reason = "There is no chromium on PATH; install it (apt-get install chromium), or set CHROMIUM to its path."
    if os.environ.get("CI") == "true":
        pytest.fail(reason)
    pytest.skip(reason)


@pytest.fixture(scope="package")
def browser():
    """One chromium for all tests of the page; while it lives, no other event loop can run in this thread."""
    path = chromium_path()
    from playwright.sync_api import expect, sync_playwright

    expect.set_options(timeout=15_000)
    with sync_playwright() as playwright:
        running = playwright.chromium.launch(executable_path=path, args=ARGUMENTS)
        yield running
        running.close()


@pytest.fixture(scope="session")
def photo_service(learned):
    """A service over the index after both tasks, with its stages, and over the one after the first."""
    with serving(learned / "indexes" / "photos", f"early={learned / 'indexes' / 'photos-after-task-1'}") as running:
        wait_until(lambda: running.service.catalog.find(None).run is not None)
        yield running


class Opener:
    """Opens pages of a service, each in a profile of its own, and remembers what went wrong in them."""

    def __init__(self, browser):
        self.browser = browser
        self.contexts = []
        self.complaints = []

    def __call__(self, running, address="/", token=None, width=1280, arrived=READY, **options):
        """The page at an address once its first answer, or what `arrived` selects, is there."""
        size = {"width": width, "height": 800}
        context = self.browser.new_context(viewport=size, reduced_motion="reduce", **options)
        self.contexts.append(context)
        context.set_default_timeout(15_000)
        context.on("request", lambda request: self._check_host(request.url, running.port))
        page = context.new_page()
        page.on("console", self._hear)
        page.on("pageerror", lambda error: self.complaints.append(str(error)))
        page.goto(f"{running.url}{address}{f'#token={token}' if token else ''}")
        page.locator(arrived).wait_for()
        return page

    def _check_host(self, url, port):
        address = urlsplit(url)
        if address.scheme not in ("blob", "data") and address.netloc != f"127.0.0.1:{port}":
            self.complaints.append(f"asked another host: {url}")

    def _hear(self, message):
        if message.type in ("error", "warning") and not message.text.startswith(_EXPECTED):
            self.complaints.append(message.text)


@pytest.fixture
def open_page(browser):
    """Opens pages; the test fails if one of them broke its content security policy, or asked another host."""
    opener = Opener(browser)
    yield opener
    for context in opener.contexts:
        context.close()
    assert opener.complaints == []


@pytest.fixture
def token():
    return TOKEN
