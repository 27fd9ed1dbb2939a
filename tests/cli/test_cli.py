"""The commands as users type them, above all with mistakes in them."""

import io
import json
import os
import subprocess
import sys
import time
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import dataclass

import pytest
import yaml
from PIL import Image

from factlearn import __version__
from factlearn.cli import main


@dataclass
class Done:
    """What a command left: its exit code and what it printed."""

    returncode: int
    stdout: str
    stderr: str


def factlearn(*arguments, cwd):
    """Run a command in this process, which has torch loaded already."""
    out, err = io.StringIO(), io.StringIO()
    code = 0
    with pytest.MonkeyPatch.context() as patch, redirect_stdout(out), redirect_stderr(err):
        patch.chdir(cwd)
        patch.setenv("COLUMNS", "160")
        patch.setattr(sys, "argv", ["factlearn", *map(str, arguments)])
        try:
            main()
        except SystemExit as exit_:
            code = exit_.code or 0
    return Done(code, out.getvalue(), err.getvalue())


def in_a_process(*arguments, cwd):
    """Run a command as a shell does."""
    command = [sys.executable, "-c", "from factlearn.cli import main; main()", *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, cwd=cwd, check=False, timeout=120)


@pytest.fixture(scope="module")
def place(tmp_path_factory, manifest, vectors_file, vgg_weights):
    """A folder with a config, a finished run and an index of its test images."""
    folder = tmp_path_factory.mktemp("place")
    raw = {
        "seed": 1,
        "device": "cpu",
        "data": {"source": "manifest", "manifest": str(manifest)},
        "language": {"vectors": str(vectors_file)},
        "tasks": {"count": 2},
        "model": {
            "weights": str(vgg_weights),
            "image_size": 32,
            "frozen": "conv5",
            "hidden": [8],
            "standardise": True,
        },
        "training": {"epochs": 2, "learning_rate": 0.05},
        "strategy": {"name": "mas", "lambda": 1.0},
    }
    (folder / "config.yaml").write_text(yaml.safe_dump(raw))
    os.environ["FACTLEARN_CACHE"] = str(folder / "cache")
    try:
        done = factlearn("train", "config.yaml", "--out", "run", cwd=folder)
        assert done.returncode == 0, done.stderr
        assert "task 2" in done.stdout
        built = factlearn("index", "build", "run", "--images", manifest, "--out", "index", cwd=folder)
        assert built.returncode == 0, built.stderr
        yield folder
    finally:
        del os.environ["FACTLEARN_CACHE"]


def test_help_answers_within_a_second_and_the_version_is_told(tmp_path):
    in_a_process("--help", cwd=tmp_path)  # compiles what is not compiled yet
    seconds = []
    for _ in range(3):
        started = time.monotonic()
        done = in_a_process("--help", cwd=tmp_path)
        seconds.append(time.monotonic() - started)
    assert min(seconds) < 1
    assert done.returncode == 0
    for command in ("train", "evaluate", "split", "query", "index", "assets", "demo"):
        assert command in done.stdout
    assert in_a_process("--version", cwd=tmp_path).stdout == f"factlearn {__version__}\n"


def test_a_mistake_leaves_a_process_with_exit_code_2_and_no_traceback(tmp_path):
    done = in_a_process("evaluate", "nothing", cwd=tmp_path)
    assert done.returncode == 2
    assert done.stderr.startswith("factlearn: nothing holds no run")
    assert done.stderr.count("\n") == 1


def test_an_interrupted_command_says_how_to_go_on(place, monkeypatch):
    def interrupted(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr("factlearn.learning.results.load_result", interrupted)
    done = factlearn("evaluate", "run", cwd=place)
    assert done.returncode == 130
    assert "--resume" in done.stderr


def test_evaluate_prints_json_with_the_whole_test_sets_map(place):
    result = json.loads(factlearn("evaluate", "run", "--json", cwd=place).stdout)
    assert 0 <= result["map_all"] <= 1
    assert result["tasks"] == ["task 1", "task 2"]
    assert len(result["matrix"]["prefix"]) == 2
    assert set(result["forgetting"]) == {"exact", "prefix"}


def test_evaluate_prints_tables_for_people(place):
    done = factlearn("evaluate", "run", "--fresh", cwd=place)
    for words in (
        "MAP after each task",
        "all, prefix",
        "all, exact",
        "average forgetting",
        "accuracy@10",
        "MRR",
    ):
        assert words in done.stdout


def test_query_gives_ranked_images_as_json_and_as_a_picture(place):
    done = factlearn("query", "index", "<person, riding, *>", "-k", 5, "--json", "--sheet", "sheet.png", cwd=place)
    assert done.returncode == 0, done.stderr
    answer = json.loads(done.stdout)
    assert answer["query"] == "<person, riding, *>"
    scores = [hit["score"] for hit in answer["hits"]]
    assert scores == sorted(scores, reverse=True)
    assert set(answer["hits"][0]["scores"]) == {"subject", "predicate"}
    assert Image.open(place / "sheet.png").width > 200


def test_query_reads_plain_words(place):
    done = factlearn("query", "index", "person riding bike", "--json", cwd=place)
    assert json.loads(done.stdout)["query"] == "<person, riding, bike>"


def test_split_saves_tasks_that_train_takes(place):
    done = factlearn("split", "config.yaml", "--out", "tasks.json", "--dendrogram", "tree.svg",
                     "--set", "tasks.method=agglomerative", "--json", cwd=place)  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout) == json.loads((place / "tasks.json").read_text())
    assert (place / "tree.svg").read_text().startswith("<?xml")
    done = factlearn("train", "config.yaml", "--out", "from-file", "--set", "tasks={method: file, file: tasks.json}",
                     "--set", "training.epochs=1", cwd=place)  # fmt: skip
    assert done.returncode == 0, done.stderr


def test_assets_are_listed_with_their_checksums(tmp_path):
    listed = json.loads(factlearn("assets", "list", "--json", cwd=tmp_path).stdout)
    assert {"vgg16-imagenet-conv", "glove-6b-50d", "emoji-pictures"} <= {asset["name"] for asset in listed}
    assert all(len(asset["sha256"]) in (0, 64) for asset in listed)


def write(folder, name, content):
    path = folder / name
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return name


HEADER = "path,split,subject,predicate,object\n"
MISTAKES = {
    "a config that does not exist": (["train", "no.yaml"], "no.yaml does not exist"),
    "a misspelt key": (["train", "config.yaml", "--set", "training.epohcs=3"], "did you mean epochs"),
    "a misspelt section": (["train", "config.yaml", "--set", "trainig.epochs=3"], "did you mean training"),
    "a value of the wrong kind": (
        ["train", "config.yaml", "--set", "training.epochs=lots"],
        "training.epochs",
    ),
    "a value out of range": (["train", "config.yaml", "--set", "training.learning_rate=-1"], "learning_rate"),
    "an override without a value": (["train", "config.yaml", "--set", "training.epochs"], "KEY=VALUE"),
    "an unknown method": (["train", "config.yaml", "--set", "strategy.name=mass"], "strategy"),
    "a run already there": (["train", "config.yaml", "--out", "run"], "holds a run already"),
    "a run folder that is a file": (["train", "config.yaml", "--out", "config.yaml"], "is a file"),
    "resuming nothing": (["train", "config.yaml", "--out", "nothing", "--resume"], "holds no run"),
    "a manifest that does not exist": (["train", "config.yaml", "--set", "data.manifest=no.csv"], "no.csv"),
    "a manifest that is not text": (
        ["train", "config.yaml", "--set", "data.manifest=binary.csv"],
        "binary.csv",
    ),
    "a manifest without columns": (["train", "config.yaml", "--set", "data.manifest=columns.csv"], "column"),
    "a manifest with a missing image": (
        ["train", "config.yaml", "--set", "data.manifest=missing.csv"],
        "gone.png",
    ),
    "a manifest with an object but no predicate": (
        ["train", "config.yaml", "--set", "data.manifest=gap.csv"],
        "line 2",
    ),
    "an empty manifest": (["train", "config.yaml", "--set", "data.manifest=empty.csv"], "empty.csv"),
    "a corrupt image": (
        [
            "train",
            "config.yaml",
            "--out",
            "x",
            "--set",
            "data.manifest=corrupt.csv",
            "--set",
            "tasks.count=1",
        ],
        "corrupt.png",
    ),
    "a word without a vector": (["train", "config.yaml", "--set", "data.manifest=word.csv"], "'zebra'"),
    "word vectors that do not exist": (
        ["train", "config.yaml", "--set", "language.vectors=no.bin"],
        "no.bin",
    ),
    "an unknown asset": (["train", "config.yaml", "--set", "language.vectors=glove-7b"], "glove-7b"),
    "too many tasks": (["train", "config.yaml", "--set", "tasks.count=99"], "99 tasks"),
    "a split that does not exist": (
        ["train", "config.yaml", "--set", "tasks={method: file, file: no.json}"],
        "no.json",
    ),
    "a subset of unknown facts": (
        ["train", "config.yaml", "--set", "evaluation.subsets={s: [<cat>]}"],
        "<cat>",
    ),
    "a run that does not exist": (["evaluate", "nothing"], "holds no run"),
    "a damaged run": (["evaluate", "damaged"], "damaged"),
    "an index that does not exist": (["query", "nothing", "<dog>"], "nothing"),
    "a damaged index": (["query", "broken-index", "<dog>"], "broken-index"),
    "no images asked for": (["query", "index", "<dog>", "-k", "0"], "k"),
    "a query without a name": (["query", "index", "<*, *, *>"], "every unit open"),
    "an empty query": (["query", "index", ""], "empty"),
    "an unclosed query": (["query", "index", "<person, riding"], "unmatched bracket"),
    "a query with a strange word": (["query", "index", "<zebra>"], "'zebra'"),
    "plain words nobody knows": (["query", "index", "person riding zebra"], "zebra"),
    "a sheet that is no picture": (["query", "index", "<dog>", "--sheet", "sheet.txt"], "sheet.txt"),
    "an empty folder of images": (["index", "build", "run", "--images", "void", "--out", "i"], "void"),
    "a folder that does not exist": (
        ["index", "build", "run", "--images", "nowhere", "--out", "i"],
        "nowhere",
    ),
    "a stage that does not exist": (["index", "build", "run", "--stage", "9", "--out", "i"], "no stage 9"),
    "an index already there": (["index", "build", "run", "--out", "index"], "index"),
    "neither a fact nor an image": (["query", "index"], "--image"),
    "a fact and an image": (["query", "index", "<dog>", "--image", "fine.png"], "--image"),
    "an image that is none": (["query", "index", "--image", "corrupt.png"], "corrupt.png"),
    "weights that are none": (["query", "index", "<dog>", "--weights", "1,x,1"], "1,2,1"),
    "two weights": (["query", "index", "<dog>", "--weights", "1,2"], "three numbers"),
    "weights of what is open": (["query", "index", "<dog>", "--weights", "0,1,1"], "<dog>"),
    "a filter without quotes": (["query", "index", "<dog>", "--where", "split = test"], "single quotes"),
    "a filter on an unknown column": (["query", "index", "<dog>", "--where", "spilt = 'test'"], "'spilt'"),
    "a negative page": (["query", "index", "<dog>", "--offset", "-1"], "offset"),
    "a picture of two queries": (["query", "index", "<dog>", "<tree>", "--sheet", "s.png"], "one query"),
    "adding to nothing": (["index", "add", "nothing", "void"], "nothing"),
    "adding an empty folder": (["index", "add", "index", "void"], "void"),
    "adding a corrupt image": (["index", "add", "index", "corrupt.png"], "corrupt.png"),
    "removing nothing": (["index", "remove", "index"], "Say which"),
    "removing an unknown image": (["index", "remove", "index", "x.png"], "'x.png'"),
    "verifying a damaged index": (["index", "verify", "broken-index"], "segment 000001-1"),
    "an unknown kind of search": (["index", "optimize", "index", "--kinds", "lsh"], "'lsh'"),
    "a memory that is none": (["index", "optimize", "index", "--memory", "much"], "2GB"),
    "a format nobody knows": (["index", "export", "index", "x.csv"], ".parquet"),
    "upgrading nothing": (["index", "upgrade", "nothing"], "nothing"),
    "refreshing nothing": (["index", "refresh", "nothing"], "nothing"),
    "a database that is not there": (["query", "milvus:no/such.db/c", "<dog>"], "such.db"),
    "adapting to nothing": (["adapt", "run", "--out", "a"], "one of --facts"),
    "adapting to a missing file": (["adapt", "run", "--facts", "no.txt", "--out", "a"], "no.txt"),
    "adapting to unknown facts": (["adapt", "run", "--facts", "unknown.txt", "--out", "a"], "<cat>"),
    "learning an unknown task": (["learn", "run", "--task", "sports"], "no task 'sports'"),
    "learning a finished run": (["learn", "run"], "all its tasks"),
    "importance of an unknown layer": (["importance", "run", "--layer", "fc9"], "fc9"),
    "an asset that does not exist": (["assets", "fetch", "vgg61"], "vgg61"),
    "an asset that was not fetched": (["assets", "path", "glove-6b-50d"], "not in the cache"),
}


@pytest.mark.parametrize("mistake", MISTAKES)
def test_a_mistake_gets_one_sentence_and_exit_code_2(place, mistake, monkeypatch):
    write(place, "binary.csv", b"\xff\xfe\x00\x01\x80")
    write(place, "columns.csv", "path,split\na.png,train\n")
    write(place, "missing.csv", HEADER + "gone.png,train,dog,,\n")
    write(place, "gap.csv", HEADER + "config.yaml,train,dog,,bike\n")
    write(place, "empty.csv", "")
    write(place, "unknown.txt", "<cat>\n")
    write(place, "corrupt.png", b"\x89PNG\r\n\x1a\nrubbish")
    write(place, "corrupt.csv", HEADER + "corrupt.png,train,dog,,\ncorrupt.png,test,dog,jumping,\n")
    Image.new("RGB", (40, 40)).save(place / "fine.png")
    write(place, "word.csv", HEADER + "fine.png,train,zebra,,\nfine.png,test,zebra,jumping,\n")
    (place / "void").mkdir(exist_ok=True)
    damaged = place / "damaged"
    if not damaged.exists():
        import shutil

        shutil.copytree(place / "run", damaged)
        write(damaged / "stages" / "2", "vectors.safetensors", b"\x00" * 50)
        shutil.copytree(place / "index", place / "broken-index")
        (rows,) = (place / "broken-index").glob("segments/*/rows.npy")
        content = bytearray(rows.read_bytes())
        content[-3] ^= 4
        rows.write_bytes(content)
    arguments, says = MISTAKES[mistake]
    before = {path for path in place.rglob("*") if "cache" not in path.parts}
    monkeypatch.setenv("FACTLEARN_OFFLINE", "1")
    done = factlearn(*arguments, cwd=place)
    assert done.returncode == 2, done.stdout + done.stderr
    assert says in done.stderr
    assert "Traceback" not in done.stderr
    said = [line for line in done.stderr.splitlines() if line.startswith("factlearn: ")]
    assert len(said) == 1
    left = {path for path in place.rglob("*") if "cache" not in path.parts} - before
    assert not left


def test_a_run_is_adapted_goes_on_and_shows_its_importance(place):
    first = factlearn("train", "config.yaml", "--out", "first", "--tasks", 1, cwd=place)
    assert first.returncode == 0, first.stderr
    fact = json.loads((place / "first" / "tasks.json").read_text())["tasks"][0]["facts"][0]
    write(place, "keep.txt", f"# what must stay\n{fact}\n")
    adapted = factlearn("adapt", "first", "--facts", "keep.txt", "--out", "second", cwd=place)
    assert adapted.returncode == 0, adapted.stderr
    learned = factlearn("learn", "second", "--task", "task 2", cwd=place)
    assert learned.returncode == 0, learned.stderr
    assert "task 2" in learned.stdout
    shown = factlearn("importance", "first", "--out", "omega.png", cwd=place)
    assert "shared.0.weight" in shown.stdout
    compared = factlearn("importance", "first", "--compare", "second", "--stage", 1, "--out", "both.svg", cwd=place)
    assert compared.returncode == 0, compared.stderr
    assert "correlation" in compared.stdout
    assert (place / "both.svg").stat().st_size > 1000
    rows = json.loads(factlearn("memory", "first", "second", "--json", cwd=place).stdout)
    assert [row["stage"] for row in rows] == [1, 1, 2]
    assert len({row["stored_bytes"] for row in rows}) == 1
    assert "between tasks" in factlearn("memory", "run", cwd=place).stdout


def test_importance_in_use_is_gathered_while_indexing(place, manifest):
    built = factlearn(
        "index", "build", "run", "--images", manifest.parent, "--out", "used", "--learn-importance", cwd=place
    )
    assert built.returncode == 0, built.stderr
    assert "importance of 54 images" in built.stdout
    adapted = factlearn("adapt", "run", "--used", "--out", "to-use", cwd=place)
    assert adapted.returncode == 0, adapted.stderr


def test_an_index_grows_shrinks_and_is_looked_after(place, manifest):
    pictures = place / "grown"
    pictures.mkdir()
    for seed in range(3):
        Image.new("RGB", (40, 40), (80 * seed, 10, 10)).save(pictures / f"{seed}.png")

    def done(*arguments):
        result = factlearn(*arguments, cwd=place)
        assert result.returncode == 0, result.stderr
        return result.stdout

    done("index", "build", "run", "--images", manifest, "--out", "looked-after")
    assert "3 new, 0 changed" in done("index", "add", "looked-after", pictures)
    assert "0 new, 0 changed, 3 unchanged" in done("index", "add", "looked-after", pictures)
    assert "1 removed" in done("index", "remove", "looked-after", "1.png")
    (pictures / "2.png").unlink()
    assert "1 removed" in done("index", "remove", "looked-after", "--missing")
    about = json.loads(done("index", "info", "looked-after", "--json"))
    assert about["images"] == 54 + 1
    assert about["models"][0]["stage"] == 2
    assert "split" in about["columns"]
    answer = json.loads(
        done(
            "query", "looked-after", "<*, jumping>", "--not", "<dog>", "--where", "split = 'test'", "--json", "-k", 100
        )
    )
    assert {hit["metadata"]["split"] for hit in answer["hits"]} == {"test"}
    both = json.loads(done("query", "looked-after", "<dog>", "<tree>", "-k", 2, "--json"))
    assert [each["query"] for each in both] == ["<dog>", "<tree>"]
    like = json.loads(done("query", "looked-after", "--image", pictures / "0.png", "--json"))
    assert like["hits"][0]["id"] == "0.png"
    assert len(like["facts"]) == 6
    assert "up to date" in done("index", "drift", "looked-after")
    assert "0 repaired, 0 embedded again" in done("index", "refresh", "looked-after")
    assert "chosen" in done("index", "optimize", "looked-after")
    assert "as it was written" in done("index", "verify", "looked-after")
    assert "55 images" in done("index", "export", "looked-after", "all.parquet")
    assert "is up to date" in done("index", "upgrade", "looked-after")
