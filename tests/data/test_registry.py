from pathlib import Path
from typing import Literal

import pytest
import yaml

from factlearn.config import Section, dump_yaml, parse_as, read_config, shipped
from factlearn.data import FactDataset, Sample
from factlearn.data.classes import ClassSequence
from factlearn.data.digits import SplitDigitsConfig
from factlearn.data.emoji import EmojiConfig
from factlearn.data.emoji8 import Emoji8Config
from factlearn.data.registry import (
    SOURCES,
    ClassData,
    FactData,
    SourceConfig,
    open_classes,
    open_facts,
    open_source,
    source,
)
from factlearn.errors import ConfigError, DatasetError, FactlearnError
from factlearn.facts import Fact

FACTS = {"emoji", "manifest"}
CLASSES = {"emoji8", "folder", "paper", "permuted-digits", "split-digits"}


class Facts(Section):
    data: FactData = EmojiConfig()


class Classes(Section):
    data: ClassData = Emoji8Config()


def parsed(schema, data, where="here"):
    return parse_as(schema, {"data": data}, where).data


def refused(schema, data):
    with pytest.raises(ConfigError) as caught:
        parsed(schema, data)
    return str(caught.value)


def test_every_source_is_registered_with_what_can_be_learned_from_it():
    assert {name for name, each in SOURCES.items() if each.learn == "facts"} == FACTS
    assert {name for name, each in SOURCES.items() if each.learn == "classes"} == CLASSES
    assert all(each.name == name and each.summary for name, each in SOURCES.items())
    assert {name for name, each in SOURCES.items() if each.notice} == {"emoji", "emoji8"}


@pytest.mark.parametrize("name", sorted(FACTS | CLASSES))
def test_a_source_opens_or_refuses_in_one_sentence(name, tmp_path, cache):
    places = {"manifest": "no.csv", "root": "nowhere"}
    own = SOURCES[name].config
    config = own(source=name, **{key: tmp_path / place for key, place in places.items() if key in own.model_fields})
    if name.endswith("digits"):
        assert isinstance(open_source(config, seed=0), ClassSequence)
        return
    with pytest.raises(FactlearnError) as caught:
        open_source(config, seed=0)
    assert str(caught.value).endswith(".")
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("name", sorted(FACTS | CLASSES))
def test_the_default_section_names_its_own_source(name):
    assert SOURCES[name].config.model_fields["source"].default == name


def test_a_section_is_checked_as_the_source_it_names(tmp_path):
    assert parsed(Facts, {}) == EmojiConfig()
    assert parsed(Facts, {"vendors": ["Goog", "Twtr"]}).vendors == ("Goog", "Twtr")
    assert parsed(Classes, {}) == Emoji8Config()
    assert parsed(Classes, {"source": "split-digits", "count": 2}) == SplitDigitsConfig(count=2)
    assert "data.root: unknown key" in refused(Facts, {"root": "x"})
    assert "data.vendor: unknown key, did you mean vendors?" in refused(Facts, {"vendor": ["Goog"]})
    assert "data.count" in refused(Classes, {"source": "split-digits", "count": 0})
    assert "data.tasks" in refused(Classes, {"tasks": []})
    manifest = refused(Facts, {"source": "manifest"})
    assert manifest.endswith("data: manifest: name the file, here or with --set data.manifest=FILE.")
    for name in ("folder", "paper"):
        root = refused(Classes, {"source": name, "root": None})
        assert root.endswith("data: root: name the folder of the data, here or with --set data.root=FOLDER.")


def test_a_misspelt_source_suggests_the_one_meant():
    assert "data: there is no data source 'emojy'; did you mean emoji?" in refused(Facts, {"source": "emojy"})


def test_a_source_of_the_other_kind_is_refused_with_a_remedy():
    message = refused(Facts, {"source": "emoji8"})
    assert "data: emoji8 holds classes, not facts; set learn: classes, or choose one of emoji, manifest." in message
    assert "set learn: facts" in refused(Classes, {"source": "emoji"})
    with pytest.raises(ConfigError, match="split-digits holds classes, not facts"):
        open_facts(SplitDigitsConfig(), seed=0)
    assert len(open_classes(SplitDigitsConfig(), seed=0).tasks) == 5


def test_paths_start_from_the_config_file(tmp_path):
    (tmp_path / "photos.csv").touch()
    config = parsed(Facts, {"source": "manifest", "manifest": "photos.csv"}, tmp_path / "run.yaml")
    assert config.manifest == tmp_path / "photos.csv"


def test_every_key_of_a_section_survives_yaml(tmp_path):
    config = Facts(data=SOURCES["manifest"].config(manifest=tmp_path / "a.csv", on_error="skip"))
    again = parse_as(Facts, yaml.safe_load(dump_yaml(config)), "here")
    assert again == config
    assert type(again.data) is type(config.data)


@pytest.mark.parametrize("file", sorted(shipped("").rglob("*.yaml")), ids=lambda file: file.stem)
def test_the_data_of_every_shipped_config_is_valid(file):
    source = yaml.safe_load(file.read_text())["data"]["source"]
    needed = {"manifest": ["data.manifest=photos.csv"], "folder": ["data.root=photos"]}.get(source, [])
    data = read_config(file, needed)["data"]
    schema = Facts if SOURCES[data["source"]].learn == "facts" else Classes
    assert parsed(schema, data, file).source == data["source"]


def write_manifest(folder, *rows):
    for name in ("a.jpg", "b.jpg"):
        (folder / name).write_bytes(b"no picture")
    path = folder / "list.csv"
    path.write_text("\n".join(("path,split,subject,predicate,object", *rows)))
    return {"source": "manifest", "manifest": str(path)}


def test_facts_need_training_and_test_images(tmp_path):
    with pytest.raises(DatasetError, match="list has no test images; mark some rows with split test"):
        open_facts(parsed(Facts, write_manifest(tmp_path, "a.jpg,train,dog,,")), seed=0)


def test_damaged_images_are_refused_later_or_skipped_now(tmp_path, capsys):
    data = write_manifest(tmp_path, "a.jpg,train,dog,,", "b.jpg,test,dog,,")
    assert len(open_facts(parsed(Facts, data), seed=0)) == 2
    with pytest.raises(DatasetError, match="no usable images"):
        open_facts(parsed(Facts, {**data, "on_error": "skip"}), seed=0)
    assert "a.jpg is not an image of a known format" in capsys.readouterr().err


class StreetConfig(SourceConfig):
    source: Literal["street"] = "street"
    city: str


def open_street(config, seed):
    samples = (Sample(split, Path(split), Fact(config.city), split) for split in ("train", "test"))
    return FactDataset(f"{config.city} {seed}", tuple(samples))


@pytest.fixture
def street():
    yield source("street", learn="facts", config=StreetConfig, summary="street scenes of one city")(open_street)
    SOURCES.unregister("street")


def test_a_source_from_outside_is_chosen_by_its_name(street):
    config = parsed(Facts, {"source": "street", "city": "ghent"})
    assert open_facts(config, seed=7).name == "ghent 7"
    assert "city: ghent" in dump_yaml(Facts(data=config))
    assert "data.city: field required" in refused(Facts, {"source": "street"})
    assert "choose one of emoji, manifest, street" in refused(Facts, {"source": "emoji8"})


def test_two_sources_of_one_name_are_refused(street):
    register = source("street", learn="facts", config=StreetConfig, summary="the same")
    register(open_street)
    with pytest.raises(ConfigError, match=r"two data sources called 'street': .*open_street and .*other"):

        @register
        def other(config, seed): ...
