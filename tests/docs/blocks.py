"""The fenced blocks of a Markdown page, and what their info strings say about them.

```sh                               run with bash, stops at the first failing command
```python                           executed; the python blocks of a page share one namespace
```yaml                             a config or a part of one, checked against the schema
```python title="extras/mine.py"    a file that is there when the page's other blocks run
```sh not-run="needs a GPU"         not run, and why
"""

import re
from dataclasses import dataclass
from pathlib import Path

CODE = ("sh", "python", "yaml")
NOT_CODE = ("", "text", "csv", "toml")
_FENCE = re.compile(r"^(?P<indent> *)(?P<marks>`{3,}|~{3,}) *(?P<language>[^\s`]*) *(?P<info>[^`]*)$")
_ATTRIBUTE = re.compile(r'([\w-]+)="([^"]*)"')


@dataclass(frozen=True)
class Block:
    """One fenced block; `line` is that of its opening fence."""

    page: str
    line: int
    language: str
    info: str
    text: str

    @property
    def place(self) -> str:
        """Page and line, for people."""
        return f"{self.page}:{self.line}"

    def attribute(self, name: str) -> str | None:
        """The value of `name="value"` in the info string."""
        return dict(_ATTRIBUTE.findall(self.info)).get(name)

    @property
    def runs(self) -> bool:
        """Whether the page claims that this works as it stands."""
        return self.language in CODE and self.attribute("not-run") is None and self.attribute("title") is None


def blocks_of(root: Path, page: str) -> list[Block]:
    """The blocks of a page below a folder, in order."""
    blocks: list[Block] = []
    opened: tuple[int, re.Match[str]] | None = None
    body: list[str] = []
    for number, line in enumerate((root / page).read_text(encoding="utf-8").splitlines(), 1):
        found = _FENCE.match(line)
        if opened is None:
            if found:
                opened, body = (number, found), []
        elif found and found["marks"].startswith(opened[1]["marks"]) and not found["language"]:
            start, fence = opened
            text = "".join(f"{each.removeprefix(fence['indent'])}\n" for each in body)
            blocks.append(Block(page, start, fence["language"], fence["info"], text))
            opened = None
        else:
            body.append(line)
    assert opened is None, f"{page}:{opened[0]} opens a block that is never closed"
    return blocks
