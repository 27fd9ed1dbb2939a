"""The page as PDF, printed by a browser that is installed."""

import shutil
import subprocess
import tempfile
from pathlib import Path

from factlearn.errors import FactlearnError

BROWSERS = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome", "msedge")
_SECONDS = 180


def find_browser() -> str:
    """The first browser found that prints without a window.

    Raises:
        FactlearnError: if there is none.
    """
    for name in BROWSERS:
        path = shutil.which(name)
        if path:
            return path
    raise FactlearnError("A PDF needs Chromium or Chrome, and none is on the PATH; install one, or print the page.")


def write_pdf(page: Path, browser: str) -> Path:
    """Print an HTML file to a PDF of the same name beside it."""
    out = page.with_suffix(".pdf")
    with tempfile.TemporaryDirectory() as folder:
        drawn = Path(folder) / "page.pdf"
        command = [
            browser, "--headless", "--no-sandbox", "--disable-gpu", f"--user-data-dir={folder}/profile",
            "--no-pdf-header-footer", f"--print-to-pdf={drawn}", page.resolve().as_uri(),
        ]  # fmt: skip
        try:
            subprocess.run(command, check=True, capture_output=True, timeout=_SECONDS)
        except (subprocess.SubprocessError, OSError) as error:
            why = type(error).__name__
            raise FactlearnError(f"{browser} could not print {page} ({why}); open it and print.") from None
        if not drawn.is_file():
            raise FactlearnError(f"{browser} wrote no PDF of {page}; open the page and print it.")
        shutil.copyfile(drawn, out.with_name(f".{out.name}.tmp"))
        out.with_name(f".{out.name}.tmp").replace(out)
    return out
