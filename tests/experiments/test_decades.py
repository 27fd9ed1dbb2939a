import pytest
from typer.testing import CliRunner

from factlearn.cli import app
from factlearn.data.registry import open_facts
from factlearn.errors import ConfigError
from factlearn.experiments.decades import search, tune_by_decades
from factlearn.learning.config import load_config
from factlearn.learning.runs import Run


@pytest.mark.parametrize(
    ("scores", "tried"),
    [
        ({0.01: 0.1, 0.1: 0.5, 1.0: 0.2}, {0.01, 0.1, 1.0}),
        ({0.01: 0.1, 0.1: 0.5, 1.0: 0.6, 10.0: 0.4}, {0.01, 0.1, 1.0, 10.0}),
        ({0.001: 0.7, 0.01: 0.6, 0.1: 0.5, 1.0: None, 0.0001: 0.9}, {0.0001, 0.001, 0.01, 0.1, 1.0}),
    ],
)
def test_decades_are_tried_outwards_until_the_best_is_inside_or_tries_run_out(scores, tried):
    found = search(scores.__getitem__, 0.1)
    assert set(found) == tried
    assert found == {value: scores[value] for value in tried}


@pytest.mark.usefixtures("cache")
def test_the_best_at_the_end_on_held_out_training_images_is_chosen(sports_data, tmp_path):
    config = load_config(sports_data, ["strategy={name: mas, lambda: 1}", "seed=100"])
    found = tune_by_decades(config, tmp_path, tasks=2)
    assert found.strength == max(found.trials, key=lambda trial: trial.score).value
    assert [trial.value for trial in found.trials if trial.acceptable] == [found.strength]
    test = {sample.path.resolve() for sample in open_facts(config.data, 0).of_split("test").samples}
    runs = [Run.open(folder.parent) for folder in tmp_path.glob("*/config.yaml")]
    assert len(runs) == len(found.trials) >= 3
    assert all(test.isdisjoint({sample.path for sample in run.data.samples}) for run in runs)


def test_what_cannot_be_tuned_gets_one_sentence(sports_data, tmp_path):
    with pytest.raises(ConfigError, match="nothing to tune"):
        tune_by_decades(load_config(sports_data, ["strategy={name: finetune}"]), tmp_path)
    refused = CliRunner().invoke(app, ["tune", str(sports_data), "--rule", "best", "--out", str(tmp_path)])
    assert str(refused.exception) == "--rule is new or end, not 'best'."
