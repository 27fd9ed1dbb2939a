import json

import pytest

from factlearn.assets import ASSETS
from factlearn.assets.cache import FORMAT, RECORD, asset_folder
from factlearn.files import write_json
from factlearn.upkeep import packages
from factlearn.upkeep.doctor import examine, usable
from tests.cli.commands import factlearn, output_of


@pytest.fixture
def found(cache):
    return {(finding.part, finding.name): finding for finding in examine()}


def test_a_working_installation_without_assets_is_usable_and_says_how_to_fetch_them(found):
    assert usable(found.values())
    assert found["versions", "torch"].detail.startswith("2.")
    asset = found["assets", "glove-6b-50d"]
    assert (asset.state, asset.remedy) == ("absent", "factlearn assets fetch glove-6b-50d")
    assert {name for part, name in found if part == "assets"} == set(ASSETS)
    assert {name for part, name in found if part == "extras"} == set(packages.extras())


def test_a_truncated_asset_is_a_problem_with_its_remedy(cache):
    folder = asset_folder("resnet50-imagenet")
    folder.mkdir(parents=True)
    write_json(folder / RECORD, {"format": FORMAT})
    (folder / "weights.safetensors").write_bytes(b"\x50" + bytes(7) + b"{}")
    findings = examine()
    (asset,) = [finding for finding in findings if finding.name == "resnet50-imagenet"]
    assert asset.state == "problem"
    assert str(folder) in asset.remedy
    assert not usable(findings)


def test_a_package_that_is_too_old_or_missing_is_a_problem(cache, monkeypatch):
    needed = [packages.Requirement("numpy>=99"), packages.Requirement("no-such-package>=1")]
    monkeypatch.setattr(packages, "requirements", lambda extra="": [] if extra else needed)
    problems = {finding.name: finding for finding in examine() if finding.state == "problem"}
    assert "needed is >=99" in problems["numpy"].detail
    assert problems["no-such-package"].remedy == "pip install 'no-such-package>=1'"


def test_the_command_fails_where_the_cache_cannot_be_written(tmp_path, monkeypatch):
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("FACTLEARN_CACHE", str(tmp_path / "file" / "cache"))
    done = factlearn("doctor", "--json", cwd=tmp_path)
    assert done.returncode == 0, "the folder above the file can be written"
    monkeypatch.setenv("FACTLEARN_CACHE", "/proc/factlearn")
    done = factlearn("doctor", cwd=tmp_path)
    assert done.returncode == 2
    assert "set FACTLEARN_CACHE" in done.stdout


def test_licences_name_every_package_that_is_needed_and_every_asset(cache, tmp_path):
    listed = json.loads(output_of("licences", "--json", cwd=tmp_path))
    assert {"torch", "numpy", "pydantic-core"} <= {package["name"] for package in listed["packages"]}
    assert all(package["licence"] for package in listed["packages"])
    assert [asset["name"] for asset in listed["assets"]] == list(ASSETS)
    assert "LGPL" in output_of("licences", cwd=tmp_path)
