"""What MkDocs needs to be told: the generated pages, and what only GitHub and the tests understand."""

import re
from typing import Any

from mkdocs.structure.files import File
from reference import commands_page, config_page  # beside this file, where MkDocs looks while it loads hooks

_FENCE = re.compile(r"^( *`{3,}\w+)(?: .*?(title=\"[^\"]*\"))?.*$", re.MULTILINE)
_OUTSIDE = re.compile(r"\[([^\]]+)\]\(\.\./[^)]*\)")


def on_files(files: Any, config: Any) -> Any:
    """Add the pages made from the schema and the command line."""
    for name, text in {"config": config_page(), "commands": commands_page()}.items():
        files.append(File.generated(config, f"reference/{name}.md", content=text))
    return files


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    """Keep of a block's info string what Markdown knows, and of links to the rest of the repository their text."""
    markdown = _FENCE.sub(lambda found: " ".join(filter(None, found.groups())), markdown)
    return _OUTSIDE.sub(r"`\1`", markdown) if "/" not in page.file.src_uri else markdown
