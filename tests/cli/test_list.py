"""`factlearn list`: what configs and commands may name."""

import json

import pytest

from factlearn.assets import ASSETS
from factlearn.data.registry import SOURCES
from factlearn.experiments.paper.registry import EXPERIMENTS
from factlearn.lifelong.registry import METHODS
from factlearn.models.backbones import BACKBONES, Backbone, register_backbone
from factlearn.retrieval.stores import STORES
from tests.cli.commands import factlearn, output_of

REGISTRIES = {
    "methods": METHODS,
    "sources": SOURCES,
    "backbones": BACKBONES,
    "stores": STORES,
    "experiments": EXPERIMENTS,
}


@pytest.mark.parametrize("kind", REGISTRIES)
def test_everything_registered_is_listed_with_one_line_on_what_it_is(kind, tmp_path):
    listed = json.loads(output_of("list", kind, "--json", cwd=tmp_path))
    assert list(listed) == list(REGISTRIES[kind])
    for about in listed.values():
        assert about["title"]
        assert about["summary"]
        assert "\n" not in about["summary"]
    table = output_of("list", kind, cwd=tmp_path)
    assert all(name in table for name in listed)


def test_a_backbone_of_your_own_is_listed(tmp_path):
    register_backbone(Backbone("own", "My own", "for tests", list, {}))
    try:
        listed = json.loads(output_of("list", "backbones", "--json", cwd=tmp_path))
    finally:
        BACKBONES.unregister("own")
    assert listed["own"]["title"] == "My own"
    assert listed["own"]["blocks"] == {}


def test_an_unknown_kind_says_which_there_are(tmp_path):
    done = factlearn("list", "planets", cwd=tmp_path)
    assert done.returncode == 2
    assert "backbones" in done.stderr
    assert "Traceback" not in done.stderr


def test_help_ends_with_the_names_that_configs_may_use(tmp_path):
    words = " ".join(factlearn("train", "--help", cwd=tmp_path).stdout.split())
    assert "methods: drift, ebll, ewc, finetune" in words
    assert "backbones: alexnet" in words
    assert "facts-four-tasks" in factlearn("reproduce", "--help", cwd=tmp_path).stdout


def test_a_backbone_says_where_it_can_be_cut_what_it_takes_and_whose_its_weights_are(tmp_path):
    listed = json.loads(output_of("list", "backbones", "--json", cwd=tmp_path))
    lite = listed["efficientnet-lite0"]
    assert list(lite["blocks"].items())[-1] == ("head", 1280)
    assert lite["mean"] == pytest.approx([127 / 255] * 3)
    assert lite["weights"] in ASSETS
    assert lite["licence"] == ASSETS[lite["weights"]].licence
    one = json.loads(output_of("list", "backbones", "torchvision/resnet18", "--json", cwd=tmp_path))
    assert one["torchvision/resnet18"]["blocks"]["layer4"] == 512
    done = factlearn("list", "backbones", "torchvision/resnet19", cwd=tmp_path)
    assert done.returncode == 2
    assert "did you mean torchvision/resnet1" in " ".join(done.stderr.split())
