"""The one progress bar: live with time left on a terminal, plain log lines elsewhere."""

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.console import Console

from factlearn import processes

Advance = Callable[..., None]
"""`advance(steps, note="loss 1.2")`: this many steps are done; the note stands beside the bar."""

Listener = Callable[[str, int, int], None]
"""`listener(what, done, total)`, called at every step."""

_SECONDS_BETWEEN_LINES = 15.0
_listeners: list[Listener] = []


def log_console() -> Console:
    """Where progress and remarks go, so that standard output holds only results."""
    return Console(file=sys.stderr, highlight=False, soft_wrap=True)


def say(text: str) -> None:
    """One plain remark to the user; of several processes that learn together, the first speaks."""
    if processes.first():
        log_console().print(text, markup=False)


@contextmanager
def listening(listener: Listener) -> Iterator[None]:
    """Have a program told of all progress within the block as well."""
    _listeners.append(listener)
    try:
        yield
    finally:
        _listeners.remove(listener)


@contextmanager
def progress(what: str, total: int) -> Iterator[Advance]:
    """Show how far `what` has come, of `total` steps; nothing if there are none."""
    with _shown(what, total) as advance:
        done = 0

        def told(steps: int = 1, note: str | None = None) -> None:
            nonlocal done
            done += steps
            for listener in _listeners:
                listener(what, done, total)
            advance(steps, note)

        yield told if _listeners else advance


@contextmanager
def _shown(what: str, total: int) -> Iterator[Advance]:
    console = log_console()
    if not total or not processes.first():
        yield lambda *_, **__: None
    elif console.is_terminal:
        with _live(console, what, total) as advance:
            yield advance
    else:
        yield _lines(console, what, total)


@contextmanager
def _live(console: Console, what: str, total: int) -> Iterator[Advance]:
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeRemainingColumn(),
        TextColumn("{task.fields[note]}"),
    )
    with Progress(*columns, console=console) as bar:
        task = bar.add_task(what, total=total, note="")

        def advance(steps: int = 1, note: str | None = None) -> None:
            bar.update(task, advance=steps)
            if note is not None:
                bar.update(task, note=note)

        yield advance


def _lines(console: Console, what: str, total: int) -> Advance:
    start = last = time.monotonic()
    done = 0

    def advance(steps: int = 1, note: str | None = None) -> None:
        nonlocal last, done
        done += steps
        now = time.monotonic()
        if done < total and now - last < _SECONDS_BETWEEN_LINES:
            return
        last = now
        left = (total - done) * (now - start) / max(done, 1)
        state = f"{now - start:.0f} s" if done >= total else f"about {left:.0f} s left"
        console.print(f"{what}: {min(done, total)}/{total}, {state}{', ' + note if note else ''}", markup=False)

    return advance
