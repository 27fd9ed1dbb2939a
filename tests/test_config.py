import pytest
import yaml

from factlearn.config import RunConfig, load_config, parse_config
from factlearn.errors import ConfigError


def write(tmp_path, text):
    path = tmp_path / "run.yaml"
    path.write_text(text)
    return path


def test_a_config_survives_being_written_and_read(config):
    parsed = parse_config(config, "test")
    assert RunConfig.model_validate(yaml.safe_load(parsed.to_yaml())) == parsed


def test_every_config_of_the_project_is_valid():
    from pathlib import Path

    files = sorted(Path(__file__).parents[1].glob("configs/*.yaml"))
    assert files
    for file in files:
        overrides = ["data.manifest=photos.csv"] if "manifest" in file.read_text() else []
        load_config(file, overrides)


def test_overrides_reach_nested_keys_and_are_read_as_yaml(tmp_path):
    path = write(tmp_path, "seed: 1\n")
    config = load_config(path, ["training.epochs=3", "model.hidden=[8, 4]", "strategy.name=mas", "strategy.lambda=7"])
    assert config.training.epochs == 3
    assert config.model.hidden == (8, 4)
    assert config.strategy.name == "mas"
    assert config.strategy.lambda_ == 7


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("trainig: {}", "trainig: unknown key, did you mean training"),
        ("training: {epohcs: 3}", "training.epohcs: unknown key, did you mean epochs"),
        ("strategy: {name: mass}", "strategy"),
        ("strategy: {name: mas, lamda: 3}", "did you mean lambda"),
        ("training: {epochs: many}", "training.epochs"),
        ("training: {epochs: 0}", "training.epochs"),
        ("data: {source: manifest}", "name the file"),
        ("tasks: {names: [a, b], count: 3}", "2 names for 3 tasks"),
        ("evaluation: {subsets: {sports: ['<person, riding']}}", "unmatched bracket"),
        ("just text", "holds no keys"),
        ("a: [", "not readable YAML"),
    ],
)
def test_a_mistake_is_named_by_its_key(tmp_path, text, says):
    with pytest.raises(ConfigError, match=says):
        load_config(write(tmp_path, text))


@pytest.mark.parametrize("override", ["epochs", "=3", "seed.x=3", "a..b=1", "training.epochs=["])
def test_a_bad_override_is_refused(tmp_path, override):
    with pytest.raises(ConfigError, match="--set"):
        load_config(write(tmp_path, "seed: 1\n"), [override])


def test_a_missing_config_says_where_others_are(tmp_path):
    with pytest.raises(ConfigError, match="does not exist"):
        load_config(tmp_path / "no.yaml")
