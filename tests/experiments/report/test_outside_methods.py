"""A method that the package knows nothing of is trained by its name, and reports call it what it calls itself."""

import os
import subprocess
import sys
from pathlib import Path
from typing import Literal

import pytest
import yaml
from typer.testing import CliRunner

import factlearn
from factlearn.cli import app
from factlearn.lifelong.config import MethodConfig
from factlearn.lifelong.registry import METHODS, method
from factlearn.lifelong.strategy import Strategy

MODULE = '''
"""A method in a package of its own."""

from typing import Any, Literal, Self

from factlearn.lifelong.config import PenaltyConfig
from factlearn.lifelong.registry import method
from factlearn.lifelong.strategy import Learner, Strategy


class MineConfig(PenaltyConfig):
    name: Literal["mine"] = "mine"


@method(title="Mine & others'", summary="slows down after the first task", config=MineConfig)
class Mine(Strategy):
    def __init__(self, strength: float) -> None:
        self.strength = strength

    @classmethod
    def of(cls, config: Any) -> Self:
        return cls(config.lambda_)

    def after_backward(self, learner: Learner) -> None:
        if learner.task:
            for parameter in learner.parameters().values():
                if parameter.grad is not None:
                    parameter.grad /= 1 + self.strength
'''


class HaltConfig(MethodConfig):
    """Settings of a method that a program registers."""

    name: Literal["halt"] = "halt"


@pytest.fixture
def halt():
    """A method that a program registers."""
    METHODS.find("mas")

    @method(title="Halt", summary="learns the first task only", config=HaltConfig)
    class Halt(Strategy):
        def after_backward(self, learner):
            if learner.task:
                learner.optimizer.zero_grad()

    yield "halt"
    METHODS.unregister("halt")


def shown_in_pages(text, title, summary):
    return f"<strong>{title}</strong>: {summary}" in text and f"{title} ends with" in text


@pytest.mark.parametrize("kind", ["config", "digits_config"])
def test_a_registered_method_is_trained_by_name_and_reported_with_its_title(kind, halt, request, tmp_path):
    raw = request.getfixturevalue(kind)
    (tmp_path / "config.yaml").write_text(yaml.safe_dump(raw))

    def call(*arguments):
        done = CliRunner().invoke(app, [str(argument) for argument in arguments])
        assert done.exit_code == 0, done.exception
        return done.stdout

    for name in (halt, "mas"):
        call("train", tmp_path / "config.yaml", "--set", f"strategy.name={name}", "--out", tmp_path / name)
    assert "Halt" in call("compare", tmp_path / halt, tmp_path / "mas")
    call("report", tmp_path / halt, tmp_path / "mas", "--out", tmp_path / "report.html")
    text = (tmp_path / "report.html").read_text()
    assert shown_in_pages(text, "Halt", "learns the first task only")
    assert shown_in_pages(text, "MAS", METHODS["mas"].summary.replace("'", "&#39;"))


def test_a_method_of_an_installed_package_is_found_through_its_entry_point(digits_config, tmp_path):
    package = tmp_path / "site"
    about = package / "mine-0.1.dist-info"
    about.mkdir(parents=True)
    (package / "my_method.py").write_text(MODULE)
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: mine\nVersion: 0.1\n")
    (about / "entry_points.txt").write_text("[factlearn.methods]\nmine = my_method\n")
    (tmp_path / "config.yaml").write_text(yaml.safe_dump(digits_config))
    path = os.pathsep.join([str(package), str(Path(factlearn.__file__).parents[1])])

    def call(*arguments):
        command = [sys.executable, "-c", "from factlearn.cli import main; main()", *map(str, arguments)]
        environment = {**os.environ, "PYTHONPATH": path, "COLUMNS": "200"}
        done = subprocess.run(command, check=False, env=environment, capture_output=True, text=True, timeout=300)
        assert done.returncode == 0, done.stderr
        return done.stdout

    options = ("--set", "strategy.name=mine", "--set", "strategy.lambda=9")
    assert "(mine)" in call("train", tmp_path / "config.yaml", *options, "--out", tmp_path / "run")
    assert "slows down after the first task" in call("list", "methods")
    call("report", tmp_path / "run", "--out", tmp_path / "report.html")
    text = (tmp_path / "report.html").read_text()
    assert shown_in_pages(text, "Mine &amp; others&#39;", "slows down after the first task")
    assert "lambda: 9.0" in text
