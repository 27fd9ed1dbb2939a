import pytest
import torch
from pydantic import ValidationError
from safetensors.torch import load_file, save_file

from factlearn.errors import ConfigError, ModelError
from factlearn.facts import UNIT_NAMES
from factlearn.models.config import ModelConfig
from factlearn.models.embedder import FactEmbedder, build_embedder
from factlearn.models.network import Standardise


def embedder(**choices):
    torch.manual_seed(0)
    return FactEmbedder(ModelConfig(**{"image_size": 32, "hidden": (16,), **choices}), dimension=5)


def test_the_last_layer_forks_into_subject_predicate_and_object():
    model = embedder().eval()
    images = torch.randn(2, 3, 32, 32)
    vectors = model(images)
    assert vectors.shape == (2, 3, 5)
    shared = model.suffix.shared(model.suffix.pool(model.suffix.convolutions(images)).flatten(1))
    for place, unit in enumerate(UNIT_NAMES):
        torch.testing.assert_close(vectors[:, place], model.suffix.fork[unit](shared))


def test_with_a_skip_the_outputs_also_see_the_features_under_the_hidden_layers():
    model = embedder(skip=True).eval()
    images = torch.randn(2, 3, 32, 32)
    below = model.suffix.pool(model.suffix.convolutions(images)).flatten(1)
    seen = torch.cat([model.suffix.shared(below), below], dim=1)
    assert model.suffix.width == seen.shape[1] == 16 + 512
    torch.testing.assert_close(model(images)[:, 1], model.suffix.fork["predicate"](seen))
    assert embedder(skip=True, hidden=()).suffix.width == 512


@pytest.mark.parametrize("frozen", ["none", "conv1", "conv3", "conv5"])
def test_only_what_is_not_frozen_learns(frozen):
    model = embedder(frozen=frozen)
    model(torch.randn(1, 3, 32, 32)).square().sum().backward()
    assert all(parameter.grad is None for parameter in model.prefix.parameters())
    assert all(parameter.grad is not None for parameter in model.suffix.parameters())
    convolutions = [
        m for part in (model.prefix, model.suffix) for m in part.modules() if isinstance(m, torch.nn.Conv2d)
    ]
    assert len(convolutions) == 13


def test_the_frozen_cut_does_not_change_the_function(vgg_weights):
    images = torch.randn(2, 3, 32, 32)
    outputs = []
    for frozen in ("none", "conv2", "conv5"):
        model = embedder(frozen=frozen).eval()
        model.load_pretrained(vgg_weights)
        whole = embedder(frozen="none")
        model.suffix.shared.load_state_dict(whole.suffix.shared.state_dict())
        model.suffix.fork.load_state_dict(whole.suffix.fork.state_dict())
        outputs.append(model(images))
    for output in outputs[1:]:
        torch.testing.assert_close(output, outputs[0])


def test_imagenet_weights_land_in_both_parts(vgg_weights):
    tensors = load_file(vgg_weights)
    model = embedder(frozen="conv4")
    model.load_pretrained(vgg_weights)
    torch.testing.assert_close(model.prefix[0].weight, tensors["features.0.weight"], rtol=0, atol=0)
    torch.testing.assert_close(model.suffix.convolutions[0].weight, tensors["features.24.weight"], rtol=0, atol=0)


def test_fully_connected_weights_are_used_where_they_fit(tmp_path, vgg_weights):
    tensors = load_file(vgg_weights)
    tensors["classifier.0.weight"], tensors["classifier.0.bias"] = torch.randn(16, 512), torch.randn(16)
    save_file(tensors, tmp_path / "full.safetensors")
    model = embedder()
    model.load_pretrained(tmp_path / "full.safetensors")
    torch.testing.assert_close(model.suffix.shared[0].weight, tensors["classifier.0.weight"])


def test_weights_of_another_network_are_refused(tmp_path):
    save_file({"features.0.weight": torch.zeros(1)}, tmp_path / "w.safetensors")
    with pytest.raises(ModelError, match=r"no features\.0\.weight that fits"):
        embedder().load_pretrained(tmp_path / "w.safetensors")
    (tmp_path / "w.safetensors").write_bytes(b"rubbish")
    with pytest.raises(ModelError, match="not a readable safetensors"):
        embedder().load_pretrained(tmp_path / "w.safetensors")


@pytest.mark.parametrize("choices", [{"image_size": 16}, {"blocks": 4, "frozen": "conv5"}, {"blocks": 6}])
def test_impossible_shapes_are_refused(choices):
    with pytest.raises(ValidationError):
        embedder(**choices)


def test_fewer_blocks_give_larger_maps_of_fewer_channels():
    suffix = embedder(blocks=3, frozen="conv3").suffix
    assert len(suffix.convolutions) == 0
    assert suffix.shared[0].in_features == 256 * 4 * 4


def test_a_config_with_weights_builds_the_pretrained_network(vgg_weights):
    config = ModelConfig(image_size=32, hidden=(16,), weights=str(vgg_weights))
    torch.testing.assert_close(
        build_embedder(config, 5).suffix.convolutions[0].weight, load_file(vgg_weights)["features.0.weight"]
    )
    fresh = build_embedder(config, 5, pretrained=False)
    assert not torch.equal(fresh.suffix.convolutions[0].weight, load_file(vgg_weights)["features.0.weight"])
    with pytest.raises(ConfigError, match="does not exist"):
        build_embedder(config.model_copy(update={"weights": "no/such.safetensors"}), 5)


def test_training_mode_never_reaches_the_frozen_prefix():
    model = embedder(frozen="conv2").train()
    assert not model.prefix.training
    assert model.suffix.training


def test_the_fingerprint_follows_every_weight():
    model = embedder()
    before = model.fingerprint()
    assert before == embedder().fingerprint()
    with torch.no_grad():
        model.suffix.fork["object"].bias[3] += 1e-6
    assert model.fingerprint() != before


def test_standardised_features_are_centred_with_one_deviation_over_the_fitted_images():
    layer = Standardise((4, 2, 2))
    features = torch.rand(50, 4, 2, 2) ** 3 * 10
    assert not layer.fitted
    layer.fit(features.split(7))
    assert layer.fitted
    out = layer(features)
    torch.testing.assert_close(out.mean(0), torch.zeros(4, 2, 2), atol=1e-6, rtol=0)
    assert float(out.square().mean().sqrt()) == pytest.approx(0.1, rel=1e-4)


def test_standardising_ignores_a_samples_overall_brightness():
    layer = Standardise((4, 2, 2))
    features = torch.rand(9, 4, 2, 2) + 0.1
    layer.fit([features])
    torch.testing.assert_close(layer(features * 7), layer(features), rtol=1e-3, atol=1e-4)


def test_statistics_are_fixed_by_the_first_fit():
    suffix = embedder(frozen="conv5", standardise=True).suffix
    suffix.fit([torch.rand(8, 512, 1, 1)])
    mean = suffix.standardise.mean.clone()
    suffix.fit([torch.rand(8, 512, 1, 1) * 5])
    torch.testing.assert_close(suffix.standardise.mean, mean, rtol=0, atol=0)


def test_features_that_never_differ_are_refused():
    with pytest.raises(ModelError, match="do not differ"):
        Standardise((4, 1, 1)).fit([torch.ones(5, 4, 1, 1)])


def test_bfloat16_of_the_frozen_layers_changes_features_in_the_third_digit_and_their_name():
    exact = embedder(frozen="conv5", features=("conv4", "conv5"), hidden=()).eval()
    quick = embedder(frozen="conv5", features=("conv4", "conv5"), hidden=(), precision="bfloat16").eval()
    quick.load_state_dict(exact.state_dict())
    images = torch.randn(4, 3, 32, 32)
    found, expected = quick.frozen(images), exact.frozen(images)
    assert found.dtype == torch.float32
    assert not torch.equal(found, expected)
    assert float((found - expected).norm() / expected.norm()) < 0.02
    assert quick.prefix_fingerprint() != exact.prefix_fingerprint()
