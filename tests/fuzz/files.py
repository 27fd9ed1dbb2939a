"""Parsers of files that may come from strangers: manifests, configs, runs, indexes, weights, images, backups."""

import gzip
import hashlib
import io
import json
import shutil
import tarfile
from functools import lru_cache

import numpy as np
import yaml
from PIL import Image
from safetensors.numpy import save

from factlearn.assets.networks import of_resnet_package
from factlearn.assets.sentences import SentenceVectors
from factlearn.assets.unpickle import load_arrays
from factlearn.assets.vectors import OfUserFile as VectorsOfUser
from factlearn.assets.weights import OfUserFile as WeightsOfUser
from factlearn.config import read_config
from factlearn.data.manifest import read_manifest
from factlearn.data.tasks import TaskSplit
from factlearn.data.unlabelled import folder_dataset
from factlearn.errors import FactlearnError
from factlearn.facts import Fact
from factlearn.files import json_text
from factlearn.images import load_image
from factlearn.language import LanguageSpace, WordVectorSource
from factlearn.learning.config import parse_config
from factlearn.learning.records import Record
from factlearn.learning.runs import Run
from factlearn.learning.storage import load_tensors
from factlearn.retrieval import FactIndex
from factlearn.upkeep.archive import Writer
from factlearn.upkeep.backup import backup, restore
from tests.assets import encoders
from tests.fuzz.parsers import folder, parser, written
from tests.retrieval.conftest import language_space

# Manifests

_CSV = b"path,split,subject,predicate,object,topic\na.png,train,person,riding,bike,x\nb.png,test,dog,,,\n"
_JSONL = (
    b'{"path": "a.png", "split": "train", "subject": "dog"}\n{"path": "b.png", "split": "test", "subject": "cat"}\n'
)


def _manifest(raw, name):
    path = written(f"manifest/{name}", raw)
    for image in ("a.png", "b.png"):
        (path.parent / image).touch()
    read_manifest(path, seed=0)
    read_manifest(path, on_error="skip", seed=0)


@parser(
    "manifests (csv)",
    [_CSV, _CSV.replace(b",", b";"), _CSV.decode().encode("utf-16")],
    tokens=(b'"', b";", b"\t", b"train"),
)
def manifest_csv(raw):
    _manifest(raw, "facts.csv")


@parser("manifests (jsonl)", [_JSONL], tokens=(b'"', b'"path": ', b"\\ud800"))
def manifest_jsonl(raw):
    _manifest(raw, "facts.jsonl")


def _parquet():
    import pyarrow as pa
    from pyarrow import parquet

    rows = [json.loads(line) for line in _JSONL.splitlines()]
    table = pa.Table.from_pylist([{**row, "predicate": "", "object": ""} for row in rows])
    stream = io.BytesIO()
    parquet.write_table(table, stream)
    return [stream.getvalue()]


@parser("manifests (parquet)", _parquet)
def manifest_parquet(raw):
    _manifest(raw, "facts.parquet")


@parser(
    "task splits", [b'{"tasks": [{"name": "one", "facts": ["<dog>"]}, {"name": "two", "facts": ["<cat>", "<a, b>"]}]}']
)
def task_split(raw):
    TaskSplit.load(written("tasks.json", raw))


# Configs

_CONFIG = {
    "learn": "classes",
    "data": {"source": "split-digits"},
    "model": {"backbone": "perceptron", "hidden": [16], "dropout": 0.2},
    "training": {"epochs": 3, "batch_size": 100, "learning_rate": 0.05},
    "strategy": {"name": "mas", "lambda": 2.0},
    "scales": {"small": {"training": {"epochs": 1}}},
    "methods": {"ewc": {"lambda": 100}},
}
_ALIASES = b"a: &a {x: 1}\nb: &b {<<: *a, y: [*a, *a]}\nstrategy: {<<: *b}\n"


@parser(
    "configs",
    [yaml.safe_dump(_CONFIG).encode(), _ALIASES + b"learn: facts\n"],
    tokens=(b"strategy:\n  name: si\n", b"- ", b": "),
)
def config(raw):
    path = written("config.yaml", raw)
    for overrides in ((), ("scale=small",), ("strategy.name=ewc",)):
        try:
            parse_config(read_config(path, overrides), path)
        except FactlearnError:
            if not overrides:
                raise


# Runs


def _run_files():
    """A run with one stage, and a copy to damage whose config is short: reading a long one takes nine tenths of it."""
    from factlearn.learning.training import train

    good, work = folder("run-seed") / "run", folder("run-work") / "run"
    config = {key: value for key, value in _CONFIG.items() if key not in ("scales", "methods")}
    config["training"] = {**config["training"], "epochs": 1}
    train(parse_config(config, "fuzz"), good, stop_after=1)
    shutil.copytree(good, work)
    short = {key: config[key] for key in ("learn", "data", "model")}
    (work / "config.yaml").write_text(yaml.safe_dump(short))
    return good, work


_cache = {}


def _run():
    if "run" not in _cache:
        _cache["run"] = _run_files()
    return _cache["run"]


def _unsealed(raw):
    """A record without its checksum, as a forger would leave it; what is no JSON stays as it is."""
    try:
        body = json.loads(raw)
        body.pop("checksum", None)
        return json.dumps(body).encode()
    except (ValueError, AttributeError, TypeError, RecursionError):
        return raw


def _of_run(name):
    @lru_cache(maxsize=1)
    def seeds():
        return [(_run()[0] / name).read_bytes()]

    def run(raw):
        good, work = _run()
        try:
            (work / name).write_bytes(_unsealed(raw) if name.endswith(".json") else raw)
            opened = Run.open(work)
            opened.description()
            opened.task_names()
            opened.stage(1)
            opened.metrics()
            if name.endswith(".safetensors"):
                load_tensors(work / name)
            if raw == seeds()[0] or len(raw) % 20 == 0:  # what takes longer, for some of them
                opened.result()
                opened.model()
        finally:
            shutil.copyfile(good / name, work / name)

    parser(f"runs ({name})", seeds, tokens=(b'": ', b"null, ", b'"tasks": '))(run)


for _name in (
    "config.yaml",
    "run.json",
    "tasks.json",
    "stages/1/stage.json",
    "stages/1/model.safetensors",
    "metrics.jsonl",
):
    _of_run(_name)


@parser(
    "records of photos",
    [
        b'{"path": "/a.png", "split": "train", "subject": "dog", "predicate": "", "object": "", "id": "a", '
        b'"metadata": {}}\n'
    ],
)
def photo_record(raw):
    path = written("record/photos.jsonl", raw)
    (path.parent / "about.json").write_text('{"name": "x", "aliases": {}}')
    record = Record.read(path.parent)
    record.data  # noqa: B018
    record.compare()


# Indexes


def _index():
    if "index" not in _cache:
        place = folder("index-seed")
        vectors = np.random.default_rng(0).normal(size=(4, 3, 8)).astype(np.float32)
        index = FactIndex.create(
            place / "index", vectors, list("abcd"), paths=list("abcd"), language=language_space(), model="m",
            known_facts=[Fact("person", "riding", "bike"), Fact("dog")],
        )  # fmt: skip
        index.remove(["b"])
        shutil.copytree(index.path, folder("index-work") / "index")
        _cache["index"] = index.path
    return _cache["index"], _cache["index"].parents[1] / "index-work" / "index"


def _manifest_seeds():
    return [(_index()[0] / "index.json").read_bytes()]


def _sealed(raw):
    """A manifest with its checksum made right, as a forger would; what is no JSON stays as it is."""
    try:
        body = json.loads(raw)
        body.pop("checksum", None)
        body["checksum"] = hashlib.sha256(json.dumps(body, sort_keys=True).encode()).hexdigest()
        return json_text(body).encode()
    except (ValueError, AttributeError, RecursionError):
        return raw


@parser("index manifests", _manifest_seeds, tokens=(b'"../../x"', b'"segments": []', b"null", b'"files": {'))
def index_manifest(raw):
    good, work = _index()
    try:
        (work / "index.json").write_bytes(_sealed(raw))
        FactIndex.open(work).query("<dog>", k=2)
    finally:
        shutil.copyfile(good / "index.json", work / "index.json")


def _of_index(kind):
    @lru_cache(maxsize=1)
    def prepared():
        good, work = _index()
        file = next(work.glob(kind))
        return file, file.relative_to(work).as_posix(), (good / "index.json").read_bytes()

    def seeds():
        return [prepared()[0].read_bytes()]

    def run(raw):
        """A file of a stranger's index, whose manifest has the file's own checksum."""
        good, work = _index()
        file, name, manifest = prepared()
        body = json.loads(manifest)
        entry = {"bytes": len(raw), "sha256": hashlib.sha256(raw).hexdigest()}
        for part in (body["files"], *(segment["files"] for segment in body["segments"])):
            part.update({name: entry} if name in part else {})
        try:
            file.write_bytes(raw)
            (work / "index.json").write_bytes(_sealed(json.dumps(body)))
            index = FactIndex.open(work)
            index.query("<dog>", k=2)
            index.items()
        finally:
            shutil.copyfile(good / name, file)
            shutil.copyfile(good / "index.json", work / "index.json")

    parser(f"index files ({kind.rsplit('/', 1)[1]})", seeds)(run)


for _kind in ("segments/*/rows.npy", "segments/*/sums.npy", "segments/*/items.arrow", "deleted/*/removed.npy",
              "language/*/language.json", "language/*/units.safetensors"):  # fmt: skip
    _of_index(_kind)


# Vectors and weights

_WORDS = b"3 4\nperson 1 2 3 4\ndog 0.5 -1 2e-3 4\nbike 1 1 1 1\n"
_BINARY = b"2 4\n" + b"dog " + np.arange(4, dtype="<f4").tobytes() + b"\ncat " + np.ones(4, "<f4").tobytes() + b"\n"


def _vectors(raw, name):
    WordVectorSource(str(written(name, raw))).open()


@parser("word vectors (text)", [_WORDS, _WORDS[4:]], tokens=(b" ", b"\n", b"1e400"))
def vectors_text(raw):
    _vectors(raw, "vectors.txt")


@parser("word vectors (binary)", [_BINARY])
def vectors_binary(raw):
    _vectors(raw, "vectors.bin")


@parser("word vectors (gzip)", [gzip.compress(_WORDS), gzip.compress(_BINARY)])
def vectors_gzip(raw):
    _vectors(raw, "vectors.txt.gz")


@parser("word vectors (converted)", [_WORDS, _WORDS[4:], _BINARY, gzip.compress(_WORDS)])
def vectors_converted(raw):
    VectorsOfUser(4)(written("user.txt", raw), folder("converted"))


@parser("language spaces", [b'{"source": "glove-6b-50d", "source_fingerprint": "x", "aliases": {}, "normalise": true}'])
def language(raw):
    path = written("language/language.json", raw)
    if not (path.parent / "units.safetensors").exists():
        space = language_space()
        space.embed([Fact("dog")])
        space.save(folder("language-seed"))
        shutil.copyfile(path.parents[1] / "language-seed" / "units.safetensors", path.parent / "units.safetensors")
    LanguageSpace.load(path.parent).unit("dog")


def _safetensors():
    return [save({"features.0.weight": np.ones((2, 3), np.float32), "b": np.zeros(4, np.float16)})]


@parser("safetensors", _safetensors, tokens=(b'"shape":[', b'"F64"', b'"data_offsets":[0,8]'))
def safetensors(raw):
    path = written("weights.safetensors", raw)
    WeightsOfUser.read(path)
    load_tensors(path)


def _pth():
    import torch

    seeds = []
    for new in (True, False):
        stream = io.BytesIO()
        torch.save({"w": torch.ones(2, 3)}, stream, _use_new_zipfile_serialization=new)
        seeds.append(stream.getvalue())
    return seeds


@parser("torch files", _pth)
def torch_file(raw):
    WeightsOfUser.read(written("weights.pth", raw))


def _pickles():
    import pickle

    return [pickle.dumps({"a": np.ones(3, np.float32)}, protocol) for protocol in (4, 3)]


@parser("pickles of arrays", _pickles)
def pickled(raw):
    load_arrays(written("arrays.pkl", raw))


_MODEL = {"weightsManifest": [{"paths": ["one.bin"], "weights": [
    {"name": "conv1/kernel", "shape": [1, 1, 3, 2], "dtype": "float32"},
    {"name": "bn_conv1/moving_mean", "shape": [2], "dtype": "float32"},
]}]}  # fmt: skip


@parser(
    "tfjs (model.json)",
    [json.dumps(_MODEL).encode()],
    tokens=(b'"shape": [', b'"dtype": "int32"', b'"paths": ["one.bin", "one.bin"]'),
)
def tfjs(raw):
    of_resnet_package(_tfjs_package(raw), folder("tfjs"))


def _tfjs_package(model):
    path = written("package.tgz", b"")
    with tarfile.open(path, "w:gz", compresslevel=1) as archive:
        for name, content in (("package/model.json", model), ("package/one.bin", bytes(32))):
            header = tarfile.TarInfo(name)
            header.size = len(content)
            archive.addfile(header, io.BytesIO(content))
    return path


def _packages():
    return [_tfjs_package(json.dumps(_MODEL).encode()).read_bytes()]


@parser("tfjs (package)", _packages)
def tfjs_package(raw):
    of_resnet_package(written("package.tgz", raw), folder("tfjs"))


_TOKENIZER_TOKENS = (b'"vocab": {', b'"vocab": [', b'"lowercase": true', b'"\\ud800": ', b"1e400", b"[" * 3_000)


def _encoder(package):
    """Convert a sentence encoder; what is accepted encodes."""
    out = folder("encoder")
    encoders.convert(package, out, encoders.SMALLEST)
    SentenceVectors(out)["riding dogs!"]


def _packed(**files):
    return encoders.minilm_package(written("encoder.tgz", b""), size=encoders.SMALLEST, **files)


@parser("sentence encoders (tokenizer)", [json.dumps(encoders.TOKENIZER).encode()], tokens=_TOKENIZER_TOKENS)
def tokenizer(raw):
    _encoder(_packed(tokenizer=raw))


@parser(
    "sentence encoders (weights)", lambda: [encoders.random_weights(encoders.SMALLEST)], tokens=(b'"shape":[', b'"F32"')
)
def encoder_weights(raw):
    _encoder(_packed(weights=raw))


@parser("sentence encoders (package)", lambda: [_packed().read_bytes()])
def encoder_package(raw):
    _encoder(written("encoder.tgz", raw))


# Images, tars and backups


def _images():
    pixels = Image.fromarray(np.random.default_rng(0).integers(0, 255, (9, 7, 3), np.uint8))
    seeds = []
    for kind in ("PNG", "JPEG", "GIF", "BMP", "WEBP", "TIFF", "PPM"):
        stream = io.BytesIO()
        pixels.save(stream, kind)
        seeds.append(stream.getvalue())
    return seeds


@parser("images", _images)
def image(raw):
    load_image(written("image", raw), max_pixels=1_000_000)


def _tars():
    """One of each dialect: plain, with a long name, with extended headers, and a sidecar of facts."""
    seeds = []
    for form in (tarfile.USTAR_FORMAT, tarfile.GNU_FORMAT, tarfile.PAX_FORMAT):
        stream = io.BytesIO()
        with tarfile.open(fileobj=stream, mode="w", format=form) as archive:
            long = "" if form == tarfile.USTAR_FORMAT else "ä" * 120
            for name, content in ((f"a{long}.png", _images()[0]), (f"a{long}.json", b'{"subject": "dog"}')):
                member = tarfile.TarInfo(name)
                member.size = len(content)
                archive.addfile(member, io.BytesIO(content))
        seeds.append(stream.getvalue())
    return seeds


@parser("tars", _tars)
def photos_in_tar(raw):
    path = written("tars/photos.tar", raw)
    for sample in folder_dataset(path).samples:
        load_image(sample.path, max_pixels=1_000_000)


def _backups():
    path = folder("backups") / "index.tar"
    backup(_index()[0], path)
    return [path.read_bytes(), _small_backup()]


def _small_backup():
    stream = io.BytesIO()
    writer = Writer(stream, {"format": "factlearn backup", "version": 1, "kind": "run"})
    config = yaml.safe_dump({**_CONFIG, "scales": None}).encode()
    for name, content in (("data/config.yaml", config), ("data/tasks.json", b'{"tasks": [{"name": "a"}]}')):
        writer.add(name, io.BytesIO(content), len(content))
    writer.finish()
    return stream.getvalue()


@parser("backups", _backups)
def archive(raw):
    restore(written("restore/backup.tar", raw), folder("restored") / "out")
