"""Files from strangers: they cannot run code, write outside their folder, or take all memory (see SECURITY.md)."""

import ast
import hashlib
import json
import resource
import zipfile
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest

from factlearn.assets.weights import OfUserFile
from factlearn.config import read_config
from factlearn.errors import AssetError, ConfigError, FactIndexError, LanguageError, RunError
from factlearn.facts import Fact
from factlearn.files import json_text
from factlearn.language import WordVectorSource
from factlearn.learning.runs import Run
from factlearn.learning.storage import load_tensors
from factlearn.retrieval import FactIndex
from tests.assets import encoders
from tests.retrieval.conftest import language_space

PACKAGE = Path(__file__).parents[1] / "factlearn"


@contextmanager
def little_memory(more=300 << 20):
    """Within the block, no more than this may be allocated."""
    before = resource.getrlimit(resource.RLIMIT_AS)
    pages = int(Path("/proc/self/statm").read_text().split()[0])
    resource.setrlimit(resource.RLIMIT_AS, (pages * resource.getpagesize() + more, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_AS, before)


def calls():
    """Every call in the package: its file, the name it is called by, and its keyword arguments."""
    for path in PACKAGE.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Call):
                yield path.name, ast.unparse(node.func), {each.arg: ast.unparse(each.value) for each in node.keywords}


def test_nothing_is_unpickled_evaluated_or_loaded_with_yamls_tags():
    found = list(calls())
    names = {name for _, name, _ in found}
    assert not names & {"eval", "exec", "pickle.load", "pickle.loads", "yaml.load", "yaml.unsafe_load", "os.system"}
    assert not [where for where, _, options in found if options.get("allow_pickle", "False") != "False"]
    assert [options["weights_only"] for _, name, options in found if name == "torch.load"] == ["True"]
    assert not [where for where, _, options in found if options.get("shell", "False") != "False"]


MERGES = "\n".join(f"a{n}: &a{n} {{<<: [{', '.join([f'*a{n - 1}'] * 9)}]}}" for n in range(1, 40))
YAML = {
    "aliases of aliases": "a0: &a0 [x, x]\n"
    + "\n".join(f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 9)}]" for n in range(1, 40)),
    "merges of merges": f"a0: &a0 {{x: 1}}\n{MERGES}",
    "an alias of itself": "a: &a [*a]",
    "deep nesting": "a: " + "[" * 3_000,
    "a python object": "a: !!python/object/apply:os.system ['true']",
    "a date that is none": "a: 2001-99-99",
}


@pytest.mark.parametrize("what", YAML)
def test_a_config_can_neither_grow_nor_call_anything(tmp_path, what):
    path = tmp_path / "config.yaml"
    path.write_text(YAML[what])
    with little_memory(), pytest.raises(ConfigError):
        read_config(path)
    with pytest.raises(RunError):
        Run.open(tmp_path)


def test_ordinary_aliases_and_merges_in_a_config_work(tmp_path):
    (tmp_path / "config.yaml").write_text("base: &base {epochs: 3}\ntraining: {<<: *base, batch_size: 5}\n")
    assert read_config(tmp_path / "config.yaml")["training"] == {"epochs": 3, "batch_size": 5}


@pytest.fixture
def index(tmp_path):
    vectors = np.random.default_rng(0).normal(size=(4, 3, 8)).astype(np.float32)
    return FactIndex.create(
        tmp_path / "outer" / "index", vectors, list("abcd"), paths=list("abcd"), language=language_space(), model="m",
        known_facts=[Fact("dog")],
    ).path  # fmt: skip


def forge(index, change):
    """Change an index's manifest and make its checksum right again."""
    body = json.loads((index / "index.json").read_text())
    del body["checksum"]
    change(body)
    body["checksum"] = hashlib.sha256(json.dumps(body, sort_keys=True).encode()).hexdigest()
    (index / "index.json").write_text(json_text(body))


FORGERIES = {
    "a segment outside": lambda body: body["segments"][0].update(name="../../evil"),
    "removed images outside": lambda body: body["segments"][0].update(deleted="../../../evil"),
    "a file outside": lambda body: body["files"].update({"../../../etc/passwd": {"bytes": 1, "sha256": "x"}}),
    "an absolute file": lambda body: body["files"].update({"/etc/passwd": {"bytes": 1, "sha256": "x"}}),
    "more images than there are": lambda body: body["segments"][0].update(count=10**15),
    "fewer than none": lambda body: body["segments"][0].update(count=-1),
}


@pytest.mark.parametrize("what", FORGERIES)
def test_the_manifest_of_an_index_cannot_lead_outside_it(index, what):
    forge(index, FORGERIES[what])
    with little_memory(), pytest.raises(FactIndexError):
        FactIndex.open(index)
    assert {path.name for path in index.parent.iterdir()} == {"index"}


def test_an_index_whose_folders_are_links_is_refused_before_anything_is_deleted_behind_them(index, tmp_path):
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "precious").write_text("kept")
    opened = FactIndex.open(index)
    (index / "structures").symlink_to(tmp_path / "mine")
    for change in (lambda: FactIndex.open(index), lambda: opened.remove(["a"])):
        with pytest.raises(FactIndexError, match="link"):
            change()
    assert (tmp_path / "mine" / "precious").read_text() == "kept"


@pytest.mark.parametrize("file", ["rows.npy", "sums.npy"])
def test_an_array_that_says_it_is_huge_is_refused_before_it_is_allocated(index, file):
    path = next(index.glob(f"segments/*/{file}"))
    header = path.read_bytes().replace(b"(4,", b"(9" + b"9" * 13 + b",")
    path.write_bytes(header)
    name = path.relative_to(index).as_posix()
    entry = {"bytes": len(header), "sha256": hashlib.sha256(header).hexdigest()}
    forge(index, lambda body: body["segments"][0]["files"].update({name: entry}))
    with little_memory(), pytest.raises(FactIndexError):
        FactIndex.open(index)


@pytest.mark.parametrize("name", ["words.txt", "words.bin", "words.vec.gz"])
def test_word_vectors_that_say_they_are_huge_are_refused_before_they_are_allocated(tmp_path, name):
    import gzip

    content = b"99999999 9999\ndog 1 2 3\n"
    (tmp_path / name).write_bytes(gzip.compress(content) if name.endswith(".gz") else content)
    with little_memory(), pytest.raises(LanguageError, match="more numbers than fit"):
        WordVectorSource(str(tmp_path / name)).open()


def test_a_safetensors_header_that_is_huge_is_refused(tmp_path):
    path = tmp_path / "w.safetensors"
    path.write_bytes((1 << 62).to_bytes(8, "little") + b"{}")
    claims = b'{"w":{"dtype":"F32","shape":[99999999999],"data_offsets":[0,399999999996]}}'
    for content in (path.read_bytes(), len(claims).to_bytes(8, "little") + claims + bytes(8)):
        path.write_bytes(content)
        with little_memory(), pytest.raises(AssetError):
            OfUserFile.read(path)
        with little_memory(), pytest.raises(RunError):
            load_tensors(path)


def test_a_torch_file_that_unpacks_to_all_memory_is_refused(tmp_path):
    import torch

    torch.save({"w": torch.zeros(1 << 22)}, tmp_path / "plain.pth")
    with (
        zipfile.ZipFile(tmp_path / "plain.pth") as plain,
        zipfile.ZipFile(tmp_path / "packed.pth", "w", zipfile.ZIP_DEFLATED) as packed,
    ):
        for name in plain.namelist():
            packed.writestr(name, plain.read(name))
    assert OfUserFile.read(tmp_path / "plain.pth")["w"].shape == (1 << 22,)
    with pytest.raises(AssetError, match="compressed"):
        OfUserFile.read(tmp_path / "packed.pth")


@pytest.mark.parametrize("file", ["tokenizer", "weights"])
def test_a_sentence_encoder_that_unpacks_to_all_memory_is_refused_before_it_is_read(tmp_path, file):
    bomb = encoders.minilm_package(tmp_path / "bomb.tgz", **{file: bytes(400 << 20)})
    assert bomb.stat().st_size < 4 << 20
    with little_memory(100 << 20), pytest.raises(AssetError, match="does not hold MiniLM's") as raised:
        encoders.convert(bomb, tmp_path)
    assert "far too large" in str(raised.value.__cause__)
