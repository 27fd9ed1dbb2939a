import subprocess
import sys

import pytest
from pydantic import TypeAdapter, ValidationError

from factlearn.lifelong.config import CONFIGS, StrategyConfig
from factlearn.lifelong.registry import make_strategy
from factlearn.lifelong.strategy import Strategy

ADAPTER = TypeAdapter(StrategyConfig)


def dumped(config):
    return config.model_dump(mode="json", by_alias=True)


@pytest.mark.parametrize("name", CONFIGS)
def test_every_method_is_made_from_its_name_alone_and_written_out_whole(name):
    config = ADAPTER.validate_python({"name": name})
    assert isinstance(config, CONFIGS[name])
    assert isinstance(make_strategy(config), Strategy)
    assert ADAPTER.validate_python(dumped(config)) == config


def test_settings_reach_the_method():
    ewc = {"name": "ewc", "lambda": 7, "labels": "true", "penalties": "separate", "penalty": "gradient"}
    strategy = make_strategy(ADAPTER.validate_python(ewc))
    assert (strategy.strength, strategy.labels, strategy.penalties, strategy.form) == (
        7,
        "true",
        "separate",
        "gradient",
    )


@pytest.mark.parametrize(
    "source", ["train", "test", "both", ["<person, *, tennis>"], {"task 1": ["<dog>"], "b": "both"}]
)
def test_importance_comes_from_words_or_facts_for_all_tasks_or_one(source):
    config = ADAPTER.validate_python({"name": "mas", "importance": source})
    assert dumped(config)["importance"] == source
    assert ADAPTER.validate_python(dumped(config)) == config


def test_importance_by_task_name_is_train_where_nothing_is_said():
    config = ADAPTER.validate_python({"name": "l-mas", "importance": {"sports": "both"}})
    assert config.importance_of("sports") == "both"
    assert config.importance_of("other") == "train"


def test_a_folder_is_found_again_from_anywhere(tmp_path, monkeypatch):
    (tmp_path / "seen").mkdir()
    monkeypatch.chdir(tmp_path)
    config = ADAPTER.validate_python({"name": "mas", "importance": "seen"})
    assert config.importance == tmp_path / "seen"


@pytest.mark.parametrize(
    ("raw", "message"),
    [
        ({"name": "mas", "importance": "trian"}, "none of train, test and both"),
        ({"name": "mas", "importance": ["<a, b"]}, "importance"),
        ({"name": "mas", "lambda": -1}, "greater than or equal to 0"),
        ({"name": "mas", "lambda": float("inf")}, "finite"),
        ({"name": "si", "importance": "test"}, "Extra inputs"),
        ({"name": "ewc", "labels": "empirical", "importance": "test"}, "needs training targets"),
        ({"name": "maas"}, "does not match any of the expected tags"),
    ],
)
def test_what_cannot_be_meant_is_refused(raw, message):
    with pytest.raises(ValidationError, match=message):
        ADAPTER.validate_python(raw)


def test_settings_are_checked_without_torch():
    code = "import sys, factlearn.lifelong.config; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
