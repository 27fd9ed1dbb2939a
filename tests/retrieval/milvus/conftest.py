import pytest

from tests.retrieval.milvus.images import release


@pytest.fixture
def address(tmp_path):
    yield f"milvus:{tmp_path}/images.db/pictures"
    release(tmp_path)
