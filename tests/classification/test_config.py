import pytest

from factlearn.classification.config import load_classify_config
from factlearn.errors import ConfigError

TEXT = """
data: {source: paper, root: /data, tasks: [birds, scenes]}
model: {architecture: alexnet, weights: alexnet-imagenet}
training: {epochs: 100, batch_size: 200}
strategy: {name: mas, lambda: 1}
methods:
  ewc: {lambda: 50}
  mas: {lambda: 7, penalty: gradient}
scales:
  small:
    data: {source: emoji8, tasks: [animals, travel]}
    training: {epochs: 2}
"""


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "a.yaml"
    path.write_text(TEXT)
    return path


def test_one_value_changes_the_scale(file):
    full, small = load_classify_config(file), load_classify_config(file, ["scale=small"])
    assert full.data.source == "paper"
    assert full.training.epochs == 100
    assert small.data.source == "emoji8"
    assert small.data.root is None
    assert (small.training.epochs, small.training.batch_size) == (2, 200)
    assert small.scale == "small"


def test_what_is_set_by_hand_wins_over_the_scale(file):
    config = load_classify_config(file, ["training.epochs=9", "scale=small", "data.tasks=[food, flags]"])
    assert config.training.epochs == 9
    assert config.data.tasks == ("food", "flags")


def test_a_method_comes_with_its_own_settings(file):
    assert load_classify_config(file, ["strategy.name=ewc"]).strategy.lambda_ == 50
    assert load_classify_config(file, ["strategy.name=si"]).strategy.lambda_ == 1
    assert load_classify_config(file, ["strategy.name=finetune"]).strategy.name == "finetune"
    assert load_classify_config(file, ["strategy.name=ewc", "strategy.lambda=3"]).strategy.lambda_ == 3
    plain = load_classify_config(file).strategy
    assert (plain.lambda_, plain.penalty) == (1, "gradient")


@pytest.mark.parametrize(
    ("overrides", "message"),
    [
        (["scale=tiny"], "no scale 'tiny'; its scales are full, small"),
        (["strategy.name=msa"], "strategy"),
        (["data.root=null"], "name the folder of the data"),
        (["model.architecture=perceptron"], "no pretrained weights"),
        (["model.weights=null", "model.frozen=conv5"], "no weights to freeze"),
        (["model.image_size=32"], "at least 64 pixels"),
        (["training.epoch=3"], "did you mean epochs"),
        (["data.class=3"], "did you mean classes"),
        (["data.source=emoji9"], "data.source"),
    ],
)
def test_mistakes_are_named(file, overrides, message):
    with pytest.raises(ConfigError, match=message):
        load_classify_config(file, overrides)
