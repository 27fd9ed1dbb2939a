"""The screenshots of docs/service.md, from the service of the demo; of openly licensed pictures only.

Two methods stand side by side in one of them: index another run of the demo, such as runs/demo/finetune, after each of
its tasks, as indexes/finetune-after-task-1 and so on, and after the last as indexes/finetune.

factlearn serve indexes/demo indexes/finetune --token-file FILE
python -m tests.server.browser.screenshots http://127.0.0.1:8765 FILE PICTURE docs/screenshots
"""

import io
import sys
from pathlib import Path

from PIL import Image

from tests.server.browser.conftest import ARGUMENTS, chromium_path

OPEN = "is.vendor=Goog&is.vendor=Twtr"  # Noto and Twemoji; the other drawings are not ours to show
RIDING = f"/?q=%3Cperson%2C+riding%2C+*%3E&{OPEN}"
BIKE = f"/?q=%3Cwoman%2C+riding%2C+bike%3E&{OPEN}"
LOOKS = [(width, scheme) for width in (1280, 390) for scheme in ("light", "dark")]
_IN_SIGHT = """() => [...document.images].every((picture) => {
    const { top, bottom } = picture.getBoundingClientRect();
    return bottom < 0 || top > innerHeight || (picture.complete && picture.naturalWidth > 0);
})"""
REMEMBERING = 600_000  # milliseconds that a job may take


class Photographer:
    """Opens pages of a service in chromium and keeps how they look."""

    def __init__(self, browser, url, folder):
        self.browser = browser
        self.url = url
        self.folder = folder

    def open(self, address, width, scheme, height=800):
        """A page once everything on it has arrived."""
        size = {"width": width, "height": height}
        context = self.browser.new_context(viewport=size, color_scheme=scheme, has_touch=width < 600)
        page = context.new_page()
        page.goto(self.url + address)
        return self.settled(page)

    def settled(self, page):
        """The page once its curves and all pictures in sight are there."""
        page.locator("#results[aria-busy=false]").wait_for()
        if page.locator("#travel").is_visible():
            page.locator("#travel .curves").first.wait_for()
        page.wait_for_load_state("networkidle")
        page.wait_for_function(_IN_SIGHT)
        page.wait_for_timeout(400)
        return page

    def keep(self, page, name):
        """Save a picture of the page; 256 colours are enough, and small."""
        whole = Image.open(io.BytesIO(page.screenshot())).convert("RGB")
        reduced = whole.quantize(256, kmeans=1, dither=Image.Dither.NONE)
        reduced.save(self.folder / f"{name}.png", optimize=True)


def photograph(take: Photographer, token: str, picture: Path) -> None:
    """All screenshots."""
    for width, scheme in LOOKS:
        page = take.open(RIDING, width, scheme)
        if width > 600:
            page.locator(".card a").nth(9).hover()
        take.keep(take.settled(page), f"search-{width}-{scheme}")
        page = take.open(f"{BIKE}&panel=travel&stage=2&other=finetune", width, scheme, 1000)
        take.keep(page, f"compare-{width}-{scheme}")
        page = take.open(BIKE, width, scheme)
        page.locator(".cut").evaluate("line => line.scrollIntoView({ block: 'center' })")
        take.keep(take.settled(page), f"cut-{width}-{scheme}")
    take.keep(take.open(f"{BIKE}&panel=travel&stage=2", 1280, "dark", 900), "travel-1280-dark")

    page = take.open(f"/?{OPEN}#token={token}", 1280, "light")
    page.get_by_label("A picture to ask with").set_input_files(picture)
    page.locator("#reference .fact-list").wait_for()
    take.keep(take.settled(page), "picture-1280-light")

    page = take.open(f"{RIDING}&panel=remember#token={token}", 1280, "light", 900)
    page.get_by_label("Find facts to remember").fill("riding bike")
    for place in range(3):
        page.locator(".fact-choice input").nth(place).check()
    page.locator("#remember-facts").click()
    page.locator(".firmness").wait_for(timeout=REMEMBERING)
    take.keep(take.settled(page), "remember-1280-light")


def main() -> None:
    """Take all screenshots of a running service."""
    from playwright.sync_api import sync_playwright

    url, token_file, picture, folder = sys.argv[1:]
    Path(folder).mkdir(parents=True, exist_ok=True)
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium_path(), args=ARGUMENTS)
        photograph(Photographer(browser, url, Path(folder)), Path(token_file).read_text().split()[0], Path(picture))
        browser.close()


if __name__ == "__main__":
    main()
