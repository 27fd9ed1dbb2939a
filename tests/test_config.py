"""From YAML to checked values, and the registries that configs choose from."""

from pathlib import Path
from typing import Annotated, Literal

import pytest
import yaml
from pydantic import BeforeValidator, SerializeAsAny

from factlearn.config import (
    Choice,
    Located,
    Registry,
    Section,
    dump_yaml,
    parse_as,
    read_config,
    scales_of,
    shipped,
    with_overrides,
)
from factlearn.errors import ConfigError

CONFIGS = Path(__file__).parents[1] / "configs"
SCALED = """
data: {source: web, root: /data, tasks: [a]}
training: {epochs: 100, batch_size: 200}
strategy: {name: mas, lambda: 1}
methods:
  ewc: {lambda: 50}
  mas: {lambda: 7, penalty: gradient}
scales:
  small:
    data: {source: toy}
    training: {epochs: 2}
    methods:
      ewc: {lambda: 3}
"""


class Shape:
    """What tests register: an entry has a config and a place it comes from."""

    def __init__(self, config, origin=None):
        self.config, self.origin = config, origin or config


class RoundConfig(Section):
    kind: Literal["round"] = "round"
    radius: int = 1


class SquareConfig(Section):
    kind: Literal["square"] = "square"
    side: int = 1


SHAPES: Registry[Shape] = Registry("shape", "factlearn.no-such-group", ())
SHAPES.register("round", Shape(RoundConfig))
SHAPES.register("square", Shape(SquareConfig))


class Drawing(Section):
    shape: Annotated[SerializeAsAny[Section], BeforeValidator(Choice(SHAPES, "kind", "round"))]
    title: str = ""
    paper: Located | None = None


def write(folder, text, name="own.yaml"):
    folder.mkdir(parents=True, exist_ok=True)
    (folder / name).write_text(text)
    return folder / name


# The project's own configs


def every_config():
    """Each file of configs/ with each of its scales."""
    files = sorted(CONFIGS.rglob("*.yaml"))
    return [(file.relative_to(CONFIGS).as_posix(), scale) for file in files for scale in ["full", *scales_of(file)]]


@pytest.mark.parametrize(("name", "scale"), every_config())
def test_every_config_of_the_project_is_valid_at_every_scale(name, scale):
    from factlearn.learning.config import load_config, parse_config

    text = (CONFIGS / name).read_text()
    missing = ["data.manifest=photos.csv"] if "\n  source: manifest" in text else []
    missing += ["data.root=objects"] if "\n  source: folder" in text else []
    config = load_config(CONFIGS / name, [*missing, f"scale={scale}"])
    assert config.scale == scale
    assert parse_config(yaml.safe_load(config.to_yaml()), "test") == config


def test_the_projects_configs_are_found_from_anywhere(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert shipped("demo.yaml").samefile(CONFIGS / "demo.yaml")


# Reading


def test_overrides_reach_nested_keys_and_leave_the_values_they_came_from_alone():
    raw = {"training": {"epochs": 1}}
    assert with_overrides(raw, ["training.epochs=3", "a.b.c=[x, 1]"]) == {
        "training": {"epochs": 3},
        "a": {"b": {"c": ["x", 1]}},
    }
    assert raw == {"training": {"epochs": 1}}


@pytest.mark.parametrize("override", ["epochs", "=3", "seed.x=3", "a..b=1", "training.epochs=["])
def test_a_bad_override_is_refused(tmp_path, override):
    with pytest.raises(ConfigError, match="--set"):
        read_config(write(tmp_path, "seed: 1\n"), [override])


def test_a_scale_replaces_keys_and_starts_a_section_of_another_variant_empty(tmp_path):
    path = write(tmp_path, SCALED)
    assert scales_of(path) == ["small"]
    full, small = read_config(path), read_config(path, ["scale=small"])
    assert full["data"] == {"source": "web", "root": "/data", "tasks": ["a"]}
    assert small["data"] == {"source": "toy"}
    assert small["training"] == {"epochs": 2, "batch_size": 200}
    assert read_config(path, ["scale=small", "training.epochs=9"])["training"]["epochs"] == 9
    assert "scales" not in full
    assert "methods" not in full
    with pytest.raises(ConfigError, match="no scale 'tiny'; its scales are full, small"):
        read_config(path, ["scale=tiny"])


def test_settings_by_method_are_used_when_the_method_is_selected(tmp_path):
    path = write(tmp_path, SCALED)
    assert read_config(path)["strategy"] == {"name": "mas", "lambda": 1, "penalty": "gradient"}
    assert read_config(path, ["strategy.name=ewc"])["strategy"] == {"name": "ewc", "lambda": 50}
    assert read_config(path, ["strategy.name=ewc", "scale=small"])["strategy"] == {"name": "ewc", "lambda": 3}
    assert read_config(path, ["strategy.name=ewc", "strategy.lambda=4"])["strategy"]["lambda"] == 4
    assert read_config(path, ["strategy.name=si"])["strategy"] == {"name": "si"}


@pytest.mark.parametrize(
    ("text", "says"), [("just text", "holds no keys"), ("a: [", "not readable YAML"), ("", "holds no keys")]
)
def test_a_file_that_is_no_config_is_one_sentence(tmp_path, text, says):
    with pytest.raises(ConfigError, match=says) as caught:
        read_config(write(tmp_path, text))
    assert "\n" not in str(caught.value)
    assert scales_of(tmp_path / "own.yaml") == []


def test_a_missing_config_says_where_others_are(tmp_path):
    with pytest.raises(ConfigError, match=r"does not exist; the project's own are in configs/"):
        read_config(tmp_path / "no.yaml")


# Paths


def test_a_path_starts_from_the_folder_of_the_config_file_or_else_from_the_current_one(tmp_path, monkeypatch):
    beside = write(tmp_path / "configs", "x", "paper.txt")
    here = write(tmp_path / "here", "x", "paper.txt")
    only_here = write(tmp_path / "here", "x", "other.txt")
    monkeypatch.chdir(tmp_path / "here")
    file = tmp_path / "configs" / "own.yaml"

    def located(value, where=file):
        return parse_as(Drawing, {"shape": {}, "paper": value}, where).paper

    assert located("paper.txt") == beside
    assert located("other.txt") == only_here
    assert located("new.txt") == tmp_path / "here" / "new.txt"
    assert located(str(here)) == here
    assert located("paper.txt", "in words") == here
    assert located("~/x") == Path.home().resolve() / "x"


# Registries


def test_a_section_is_checked_as_the_variant_it_names():
    assert parse_as(Drawing, {"shape": {"kind": "square", "side": 3}}, "test").shape == SquareConfig(side=3)
    assert parse_as(Drawing, {"shape": {"radius": 3}}, "test").shape == RoundConfig(radius=3)
    drawing = Drawing(shape=SquareConfig(side=2))
    assert yaml.safe_load(dump_yaml(drawing))["shape"] == {"kind": "square", "side": 2}
    assert parse_as(Drawing, yaml.safe_load(dump_yaml(drawing)), "test") == drawing


@pytest.mark.parametrize(
    ("raw", "says"),
    [
        ({"shape": {"kind": "squar"}}, "shape: there is no shape 'squar'; did you mean square?"),
        ({"shape": {"kind": "line"}}, "there is no shape 'line'; choose one of round, square."),
        ({"shape": {"kind": "square", "sied": 3}}, "shape.sied: unknown key, did you mean side?"),
        ({"shape": {"kind": "square", "radius": 3}}, "shape.radius: unknown key"),
        ({"shape": "round"}, "shape: write a section with a kind, such as {kind: round}"),
        ({"shape": {}, "titel": ""}, "titel: unknown key, did you mean title?"),
        ({}, "shape: field required"),
    ],
)
def test_a_mistake_is_named_by_its_key(raw, says):
    with pytest.raises(ConfigError) as caught:
        parse_as(Drawing, raw, "of a test")
    assert str(caught.value).startswith("The config of a test is not valid: ")
    assert says in str(caught.value)


def test_a_registry_refuses_a_second_entry_of_a_name_unless_it_comes_from_the_same_place():
    registry = Registry("shape", "factlearn.no-such-group", ())
    registry.register("round", Shape(RoundConfig))
    again = registry.register("round", Shape(RoundConfig))
    assert registry.find("round") is again
    with pytest.raises(ConfigError, match="two shapes called 'round'"):
        registry.register("round", Shape(SquareConfig))
    registry.unregister("round")
    assert len(registry) == 0
    assert "round" not in registry


def test_a_registry_imports_its_modules_when_it_is_first_looked_at(tmp_path, monkeypatch):
    package = "shapes_of_a_test"
    write(tmp_path / package, "", "__init__.py")
    for name in ("b", "a"):
        write(
            tmp_path / package,
            f"from tests.test_config import LATE, Shape, SquareConfig\nLATE.register({name!r}, Shape(SquareConfig))\n",
            f"{name}_shape.py",
        )
    monkeypatch.syspath_prepend(str(tmp_path))
    assert list(LATE) == ["a", "b"]


LATE: Registry[Shape] = Registry("shape", "factlearn.no-such-group", ("shapes_of_a_test",))


def test_a_plugin_that_does_not_load_is_named(monkeypatch):
    class Broken:
        name, value = "street", "street.shapes"

        def load(self):
            raise ModuleNotFoundError("No module named 'street'")

    monkeypatch.setattr("factlearn.config.entry_points", lambda group: [Broken()])
    registry = Registry("shape", "factlearn.shapes", ())
    for _ in range(2):  # it stays broken, and says so each time
        with pytest.raises(ConfigError, match=r"The shape 'street' \(street\.shapes\) does not load"):
            registry.find("round")
