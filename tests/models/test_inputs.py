import json
import os
import resource

import numpy as np
import pytest
import torch

from factlearn.errors import ImageError, RunError
from factlearn.models.activations import ActivationStore
from factlearn.models.config import ModelConfig
from factlearn.models.decoding import ahead
from factlearn.models.embedder import build_embedder
from factlearn.models.inference import embed_images
from factlearn.models.inputs import RowInputs, StoredInputs, in_order, open_inputs, shuffled
from factlearn.models.preprocess import PLAIN, Preprocess, View
from tests.conftest import draw

PREPROCESS = Preprocess(32, "crop")
VIEWS = (PLAIN, View(flip=True), View(zoom=1.3))


@pytest.fixture
def model(vgg_weights):
    torch.manual_seed(0)
    return build_embedder(ModelConfig(weights=str(vgg_weights), image_size=32, frozen="conv3", hidden=(8,)), 4).eval()


@pytest.fixture
def paths(manifest):
    return sorted(manifest.parent.glob("*.png"))[:12]


def test_kept_activations_equal_those_computed_anew_for_every_view(model, paths, cache):
    kept = open_inputs(model, paths, views=VIEWS)
    fresh = open_inputs(model, paths, views=VIEWS, keep=False)
    assert isinstance(kept, StoredInputs)
    assert not isinstance(fresh, StoredInputs)
    assert list((cache / "activations").rglob("*.npy"))
    generator = np.random.default_rng(0)
    requests = [(generator.permutation(len(paths))[:5], generator.integers(len(VIEWS), size=5)) for _ in range(4)]
    for one, other in zip(kept.batches(requests), fresh.batches(requests), strict=True):
        torch.testing.assert_close(one, other, rtol=1e-4, atol=1e-5)


def test_activations_are_computed_only_once(model, paths, tmp_path, monkeypatch):
    store = ActivationStore(tmp_path, model, PREPROCESS)
    first = store.rows(paths[:5])[range(5)]
    seen = []
    monkeypatch.setattr(
        model.prefix, "forward", lambda batch: (seen.append(len(batch)), torch.ones(len(batch), 256, 4, 4))[1]
    )
    again = ActivationStore(tmp_path, model, PREPROCESS).rows(paths)
    assert sum(seen) == len(paths) - 5
    torch.testing.assert_close(again[range(5)], first, rtol=0, atol=0)


@pytest.mark.parametrize("damage", ["cut the rows", "empty the rows", "delete the rows", "cut the names"])
def test_kept_activations_that_were_cut_are_computed_again(model, paths, tmp_path, damage):
    first = ActivationStore(tmp_path, model, PREPROCESS).rows(paths[:3])[range(3)]
    segment = next(tmp_path.rglob("*.json" if damage.endswith("names") else "*.npy"))
    if damage.startswith("delete"):
        segment.unlink()
    else:
        os.truncate(segment, 0 if damage.startswith("empty") else segment.stat().st_size // 2)
    again = ActivationStore(tmp_path, model, PREPROCESS).rows(paths[:3])[range(3)]
    torch.testing.assert_close(again, first, rtol=0, atol=0)


def test_a_cache_without_room_is_named(model, paths, tmp_path):
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1000, limits[1]))
    try:
        with pytest.raises(RunError, match=r"could not be kept in .* \(File too large\); free some space, or set FACT"):
            ActivationStore(tmp_path / "store", model, PREPROCESS).rows(paths[:3])
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert not list((tmp_path / "store").rglob("*.*"))


def test_other_weights_sizes_and_views_never_share_activations(model, paths, tmp_path):
    plain = ActivationStore(tmp_path, model, PREPROCESS).rows(paths[:2])[[0, 1]]
    with torch.no_grad():
        model.prefix[0].weight.mul_(1.1)
    other = ActivationStore(tmp_path, model, PREPROCESS).rows(paths[:2])[[0, 1]]
    assert not torch.allclose(plain, other)
    larger = ActivationStore(tmp_path, model, Preprocess(64, "crop")).rows(paths[:2])[[0, 1]]
    assert larger.shape != other.shape


def test_an_image_whose_content_changes_is_computed_again(model, tmp_path):
    path = tmp_path / "a.png"
    draw(0, 0, path)
    before = ActivationStore(tmp_path / "store", model, PREPROCESS).rows([path])[[0]]
    draw(4, 1, path)
    after = ActivationStore(tmp_path / "store", model, PREPROCESS).rows([path])[[0]]
    assert not torch.allclose(before, after)


def test_a_segment_without_its_list_of_images_is_ignored(model, paths, tmp_path):
    store = ActivationStore(tmp_path, model, PREPROCESS)
    expected = store.rows(paths[:3])[[0, 1, 2]]
    (listing,) = tmp_path.rglob("*.json")
    assert len(json.loads(listing.read_text())) == 3
    listing.unlink()
    torch.testing.assert_close(store.rows(paths[:3])[[0, 1, 2]], expected, rtol=0, atol=0)


def test_inputs_in_order_are_each_image_once(model, paths):
    inputs = open_inputs(model, paths, keep=False)
    whole = torch.cat(list(in_order(inputs, 5)))
    assert len(whole) == len(paths)
    one = next(inputs.batches([(np.array([7]), np.array([0]))]))
    torch.testing.assert_close(whole[7:8], one, rtol=1e-4, atol=1e-5)


def test_a_network_without_frozen_layers_keeps_nothing(paths, vgg_weights, cache):
    config = ModelConfig(weights=str(vgg_weights), image_size=32, hidden=(8,))
    assert not isinstance(open_inputs(build_embedder(config, 4), paths), StoredInputs)
    assert not cache.exists()


def test_shuffled_inputs_are_each_image_once_in_an_order_the_seed_decides():
    rows = RowInputs(np.arange(11, dtype=np.float32).reshape(11, 1))
    orders = []
    for seed in (1, 1, 2):
        batches = list(shuffled(rows, 1, seed, 4))
        assert [len(batch) for batch, _ in batches] == [4, 4, 3]
        for batch, places in batches:
            torch.testing.assert_close(batch[:, 0], places.float())
        orders.append(torch.cat([places for _, places in batches]).tolist())
    assert sorted(orders[0]) == list(range(11))
    assert orders[0] == orders[1] != orders[2]


def test_a_flipped_view_is_the_mirror_image(paths):
    plain, flipped = (PREPROCESS.pixels(paths[0], view) for view in (PLAIN, View(flip=True)))
    np.testing.assert_array_equal(plain[:, :, ::-1], flipped)


@pytest.mark.parametrize("zoom", [0.6, 1.0, 1.5])
@pytest.mark.parametrize("fit", ["crop", "squash"])
def test_every_zoom_and_fit_keeps_the_size(tmp_path, zoom, fit):
    from PIL import Image

    Image.new("RGB", (60, 31), "red").save(tmp_path / "wide.png")
    assert Preprocess(32, fit).pixels(tmp_path / "wide.png", View(zoom=zoom)).shape == (3, 32, 32)


def test_embedding_skips_or_refuses_what_cannot_be_decoded(model, paths, tmp_path):
    (tmp_path / "bad.png").write_bytes(b"not a picture")
    mixed = [paths[0], tmp_path / "bad.png", paths[1]]
    with pytest.raises(ImageError, match=r"bad\.png"):
        embed_images(model, mixed, PREPROCESS)
    errors = []
    vectors, kept = embed_images(model, mixed, PREPROCESS, on_error=errors.append)
    assert kept == [0, 2]
    assert len(errors) == 1
    alone, _ = embed_images(model, paths[:2], PREPROCESS)
    np.testing.assert_allclose(vectors, alone, rtol=1e-4, atol=1e-6)


def test_no_image_at_all_is_an_error(model, tmp_path):
    (tmp_path / "bad.png").write_bytes(b"no")
    with pytest.raises(ImageError, match="None of the images"):
        embed_images(model, [tmp_path / "bad.png"], PREPROCESS, on_error=lambda _: None)


def test_working_ahead_keeps_the_order_and_passes_errors_on():
    assert list(ahead(lambda n: n * n, range(20))) == [n * n for n in range(20)]
    with pytest.raises(ZeroDivisionError):
        list(ahead(lambda n: 1 // n, [1, 0, 1]))
