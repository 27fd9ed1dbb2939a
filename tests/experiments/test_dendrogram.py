import pytest

from factlearn.data.tasks import agglomerative
from factlearn.experiments.dendrogram import plot_dendrogram
from tests.data.test_tasks import blobs


@pytest.mark.parametrize("suffix", ["png", "svg"])
def test_the_dendrogram_is_a_picture_with_every_fact(tmp_path, suffix):
    embeddings = blobs()
    path = tmp_path / f"tree.{suffix}"
    plot_dendrogram(agglomerative(embeddings, 3), embeddings, path)
    content = path.read_bytes()
    if suffix == "png":
        assert content.startswith(b"\x89PNG")
    else:
        assert content.count(b"<!-- &lt;") == len(embeddings)
