"""Pictures of one colour, and an empty offline cache."""

import pytest
from PIL import Image


def picture(path, colour=(1, 2, 3)):
    """Save a small picture of one colour."""
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.new("RGB", (4, 4), colour).save(path)


@pytest.fixture
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv("FACTLEARN_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("FACTLEARN_OFFLINE", "1")
    return tmp_path / "cache"
