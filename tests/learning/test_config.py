"""The config of a run, of facts or of classes."""

import pytest
import yaml

from factlearn.errors import ConfigError
from factlearn.learning.config import ClassesConfig, FactsConfig, load_config, parse_config
from tests.learning.helpers import parsed

CLASSES = """
learn: classes
data: {source: paper, root: /data, tasks: [birds, scenes]}
model: {backbone: alexnet, weights: alexnet-imagenet}
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


def write(tmp_path, text):
    path = tmp_path / "run.yaml"
    path.write_text(text)
    return path


def assert_one_sentence(error):
    assert "\n" not in str(error)
    assert str(error).endswith((".", "?"))
    assert not str(error).endswith(("..", "?."))


@pytest.fixture
def classes(tmp_path):
    return write(tmp_path, CLASSES)


@pytest.mark.parametrize("kind", ["config", "shapes_config", "digits_config"])
def test_a_config_survives_being_written_and_read(kind, request):
    config = parsed(request.getfixturevalue(kind))
    assert parse_config(yaml.safe_load(config.to_yaml()), "test") == config


def test_learn_decides_what_a_config_may_say(tmp_path):
    assert isinstance(load_config(write(tmp_path, "seed: 1\n")), FactsConfig)
    assert isinstance(load_config(write(tmp_path, "learn: classes\n")), ClassesConfig)
    assert isinstance(load_config(write(tmp_path, "seed: 1\n"), ["learn=classes"]), ClassesConfig)
    with pytest.raises(ConfigError, match=r"learn: choose facts or classes, not 'objects'"):
        load_config(write(tmp_path, "learn: objects\n"))
    with pytest.raises(ConfigError, match="tasks: unknown key"):
        load_config(write(tmp_path, "learn: classes\ntasks: {count: 2}\n"))
    with pytest.raises(ConfigError, match="emoji8 holds classes, not facts"):
        load_config(write(tmp_path, "data: {source: emoji8}\n"))


def test_sections_can_be_changed_as_a_whole(config):
    changed = parsed(config).changed(strategy={"name": "si"}, seed=8)
    assert (changed.strategy.name, changed.seed) == ("si", 8)
    assert changed.data == parsed(config).data


def test_overrides_reach_nested_keys_and_are_read_as_yaml(tmp_path):
    path = write(tmp_path, "seed: 1\n")
    config = load_config(path, ["training.epochs=3", "model.hidden=[8, 4]", "strategy.name=mas", "strategy.lambda=7"])
    assert config.training.epochs == 3
    assert config.model.hidden == (8, 4)
    assert config.strategy.name == "mas"
    assert config.strategy.lambda_ == 7


def test_files_named_in_a_config_are_found_beside_it(tmp_path, monkeypatch):
    (tmp_path / "sports.txt").write_text("<person, riding, *>\n# a comment\n<person, jumping>\n")
    (tmp_path / "facts.csv").write_text("")
    monkeypatch.chdir("/")
    config = load_config(
        write(
            tmp_path,
            "data: {source: manifest, manifest: facts.csv}\n"
            "strategy: {name: mas, importance: sports.txt}\n"
            "evaluation: {subsets: {sports: sports.txt}}\n",
        )
    )
    patterns = ("<person, riding, *>", "<person, jumping>")
    assert config.data.manifest == tmp_path / "facts.csv"
    assert config.strategy.importance == patterns
    assert config.evaluation.subsets == {"sports": patterns}


def test_one_value_changes_the_scale(classes):
    full, small = load_config(classes), load_config(classes, ["scale=small"])
    assert full.data.source == "paper"
    assert full.training.epochs == 100
    assert small.data.source == "emoji8"
    assert not hasattr(small.data, "root")
    assert (small.training.epochs, small.training.batch_size) == (2, 200)
    assert small.scale == "small"


def test_what_is_set_by_hand_wins_over_the_scale(classes):
    config = load_config(classes, ["training.epochs=9", "scale=small", "data.tasks=[food, flags]"])
    assert config.training.epochs == 9
    assert config.data.tasks == ("food", "flags")


def test_a_method_comes_with_its_own_settings(classes):
    assert load_config(classes, ["strategy.name=ewc"]).strategy.lambda_ == 50
    assert load_config(classes, ["strategy.name=si"]).strategy.lambda_ == 1
    assert load_config(classes, ["strategy.name=finetune"]).strategy.name == "finetune"
    assert load_config(classes, ["strategy.name=ewc", "strategy.lambda=3"]).strategy.lambda_ == 3
    plain = load_config(classes).strategy
    assert (plain.lambda_, plain.penalty) == (1, "gradient")


def test_importance_names_facts_for_facts_and_classes_for_classes():
    names = {"strategy": {"name": "mas", "importance": ["a, b, c, d, e", "x"]}}
    assert parse_config({"learn": "classes", **names}, "test").strategy.importance == ("a, b, c, d, e", "x")
    with pytest.raises(ConfigError, match=r"strategy: importance: .*a, b, c, d, e"):
        parse_config(names, "test")


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("trainig: {}", "trainig: unknown key, did you mean training"),
        ("training: {epohcs: 3}", "training.epohcs: unknown key, did you mean epochs"),
        ("strategy: {name: mass}", "did you mean mas?"),
        ("strategy: {name: mas, lamda: 3}", "did you mean lambda"),
        ("strategy: {name: mas, importance: nowhere}", "is not train, test or both"),
        ("training: {epochs: many}", "training.epochs"),
        ("training: {epochs: 0}", "training.epochs"),
        ("data: {source: manifest}", "data.manifest"),
        ("data: {source: emojis}", "did you mean emoji"),
        ("data: [emoji]", "write a section with a source"),
        ("model: {backbone: vgg61}", "did you mean vgg16"),
        ("model: {backbone: perceptron}", "no pretrained weights"),
        ("model: {frozen: conv6}", "frozen: choose one of none, conv1"),
        ("model: {blocks: 6}", "VGG-16 has 5 blocks"),
        ("model: {blocks: 3, frozen: conv4}", "choose one of none, conv1, conv2, conv3"),
        ("tasks: {names: [a, b], count: 3}", "2 names for 3 tasks"),
        ("evaluation: {subsets: {sports: ['<person, riding']}}", "unmatched bracket"),
        ("evaluation: {subsets: {sports: gone.txt}}", "gone.txt"),
        ("just text", "holds no keys"),
        ("a: [", "not readable YAML"),
    ],
)
def test_a_mistake_in_a_config_of_facts_is_named_by_its_key(tmp_path, text, says):
    with pytest.raises(ConfigError) as caught:
        load_config(write(tmp_path, text))
    assert says in str(caught.value)
    assert_one_sentence(caught.value)


@pytest.mark.parametrize(
    ("overrides", "message"),
    [
        (["scale=tiny"], "no scale 'tiny'; its scales are full, small"),
        (["strategy.name=msa"], "strategy: there is no lifelong method 'msa'"),
        (["data.root=null"], "data.root"),
        (["model.backbone=perceptron"], "no pretrained weights"),
        (["model.weights=null", "model.frozen=conv5"], "no weights to freeze"),
        (["model.image_size=32"], "at least 64 pixels"),
        (["model.architecture=alexnet"], "model.architecture: unknown key"),
        (["training.epoch=3"], "did you mean epochs"),
        (["data.class=3"], "did you mean classes"),
        (["data.source=emoji9"], "no data source 'emoji9'; did you mean emoji"),
    ],
)
def test_a_mistake_in_a_config_of_classes_is_named_by_its_key(classes, overrides, message):
    with pytest.raises(ConfigError) as caught:
        load_config(classes, overrides)
    assert message in str(caught.value)
    assert_one_sentence(caught.value)


def test_files_of_vectors_and_weights_are_looked_for_beside_the_config(tmp_path, monkeypatch, vectors_file):
    folder = tmp_path / "project"
    folder.mkdir()
    (folder / "words.txt").write_bytes(vectors_file.read_bytes())
    (folder / "net.safetensors").touch()
    (folder / "c.yaml").write_text("language: {vectors: words.txt}\nmodel: {weights: net.safetensors}\n")
    monkeypatch.chdir(tmp_path)
    config = load_config(folder / "c.yaml")
    assert config.language.vectors == str(folder / "words.txt")
    assert config.model.weights == str(folder / "net.safetensors")
    assert load_config(folder / "c.yaml", ["language.vectors=glove-6b-50d"]).language.vectors == "glove-6b-50d"
