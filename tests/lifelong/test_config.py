import subprocess
import sys

import pytest

from factlearn.config import Section, parse_as
from factlearn.errors import ConfigError
from factlearn.lifelong.registry import METHODS, StrategyConfig, make_strategy, title_of
from factlearn.lifelong.strategy import Strategy


class Experiment(Section):
    strategy: StrategyConfig


def settings(raw, where="of a test"):
    return parse_as(Experiment, {"strategy": raw}, where).strategy


def dumped(config):
    return Experiment(strategy=config).model_dump(mode="json", by_alias=True)["strategy"]


@pytest.mark.parametrize("name", sorted(METHODS))
def test_every_method_is_made_from_its_name_alone_and_written_out_whole(name):
    config = settings({"name": name})
    assert isinstance(config, METHODS[name].config)
    assert isinstance(make_strategy(config), Strategy)
    assert dumped(config)["name"] == name
    assert settings(dumped(config)) == config


def test_settings_reach_the_method():
    ewc = {"name": "ewc", "lambda": 7, "labels": "true", "penalties": "separate", "penalty": "gradient", "floor": 0.5}
    made = make_strategy(settings(ewc))
    assert (made.strength, made.labels, made.penalties, made.form) == (7, "true", "separate", "gradient")
    assert made.floor == 0.5


def test_every_config_has_a_strength_or_none():
    assert settings({"name": "mas"}).strength == 5
    assert settings({"name": "lwf", "lambda": 3}).strength == 3
    assert settings({"name": "ridge"}).strength is None


@pytest.mark.parametrize(
    "source",
    ["train", "test", "both", ["<person, *, tennis>"], ["a, b, c, d"], {"task 1": ["<dog>"], "b": "both"}],
)
def test_importance_comes_from_words_facts_or_classes_for_all_tasks_or_one(source):
    config = settings({"name": "mas", "importance": source})
    assert dumped(config)["importance"] == source
    assert settings(dumped(config)) == config


def test_importance_of_a_task_is_measured_on_its_training_images_by_default():
    config = settings({"name": "l-mas", "importance": {"sports": "both"}})
    assert config.importance_of("sports") == "both"
    assert config.importance_of("other") == settings({"name": "si"}).importance_of("other") == "train"


@pytest.mark.parametrize("beside_the_config", [True, False])
def test_a_folder_or_a_file_of_patterns_is_found_again_from_anywhere(tmp_path, monkeypatch, beside_the_config):
    (tmp_path / "seen").mkdir()
    (tmp_path / "sports.txt").write_text("# sports\n<person, *, tennis>\n\n<dog>\n")
    where = tmp_path / "config.yaml" if beside_the_config else "of a test"
    if not beside_the_config:
        monkeypatch.chdir(tmp_path)
    folder = settings({"name": "mas", "importance": "seen"}, where)
    assert folder.importance == tmp_path / "seen"
    patterns = settings({"name": "mas", "importance": {"a": "sports.txt"}}, where)
    assert patterns.importance_of("a") == ("<person, *, tennis>", "<dog>")
    monkeypatch.undo()
    (tmp_path / "seen").rmdir()
    (tmp_path / "sports.txt").unlink()
    for config in (folder, patterns):
        assert settings(dumped(config)) == config


@pytest.mark.parametrize(
    ("raw", "message"),
    [
        ({"name": "mas", "importance": "trian"}, "strategy.importance: 'trian' is not train, test or both"),
        ({"name": "mas", "importance": {"task": 5}}, "strategy.importance: write train, test or both"),
        ({"name": "mas", "lambda": -1}, "strategy.lambda: input should be greater than or equal to 0"),
        ({"name": "mas", "lambda": float("inf")}, "strategy.lambda: input should be a finite"),
        ({"name": "mas", "lamda": 1}, "strategy.lamda: unknown key, did you mean lambda"),
        ({"name": "si", "importance": "test"}, "strategy.importance: unknown key"),
        ({"name": "ewc", "labels": "empirical", "importance": "test"}, "needs training targets"),
        ({"name": "maas"}, "strategy: there is no lifelong method 'maas'; did you mean mas"),
    ],
)
def test_nonsense_is_refused_with_its_place(raw, message):
    with pytest.raises(ConfigError) as error:
        settings(raw)
    assert message in str(error.value)


def test_a_file_of_patterns_that_names_none_is_refused(tmp_path):
    (tmp_path / "empty.txt").write_text("# nothing\n")
    with pytest.raises(ConfigError, match="names no facts"):
        settings({"name": "mas", "importance": str(tmp_path / "empty.txt")})


@pytest.mark.parametrize(
    ("raw", "title"),
    [
        ({"name": "mas"}, "MAS"),
        ({"name": "l-mas", "importance": "both"}, "l-MAS (train + test)"),
        ({"name": "mas", "importance": ["<dog>"]}, "MAS (adapted, only)"),
        ({"name": "mas", "protect": ["<dog>"]}, "MAS (adapted)"),
        ({"name": "mas", "importance": "both", "protect": ["<dog>"]}, "MAS (train + test, adapted)"),
        ({"name": "imm-mode"}, "IMM (mode)"),
    ],
)
def test_a_title_says_where_importance_comes_from_unless_from_training(raw, title):
    assert title_of(settings(raw)) == title


@pytest.mark.parametrize("module", ["factlearn.lifelong", "factlearn.lifelong.config", "factlearn.lifelong.registry"])
def test_the_package_and_its_shared_settings_load_without_torch(module):
    code = f"import sys, {module}; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
