"""Commands with mistakes in them: one sentence, exit code 2, nothing left behind."""

import shutil

import pytest
from PIL import Image

from tests.cli.commands import factlearn, in_a_process, write

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
    "an unknown backbone": (["train", "config.yaml", "--set", "model.backbone=vgg61"], "did you mean vgg16"),
    "an unknown source": (["train", "config.yaml", "--set", "data={source: emojis}"], "did you mean emoji"),
    "a source of classes for facts": (["train", "config.yaml", "--set", "data={source: emoji8}"], "set learn: classes"),
    "a device that does not exist": (["train", "config.yaml", "--out", "x", "--set", "device=quantum"], "quantum"),
    "something else to learn": (["train", "config.yaml", "--set", "learn=objects"], "choose facts or classes"),
    "a scale that does not exist": (["train", "config.yaml", "--set", "scale=small"], "no scale 'small'"),
    "a run that does not exist": (["evaluate", "nothing"], "holds no run"),
    "predicting with nothing": (["predict", "nothing", "fine.png"], "holds no run"),
    "predicting a task nobody learned": (["predict", "run", "fine.png", "--task", "task 9"], "not learned a task"),
    "predicting with a stage that does not exist": (["predict", "run", "fine.png", "--stage", "9"], "no stage 9"),
    "predicting what is no image": (["predict", "run", "config.yaml"], "config.yaml"),
    "predicting an empty folder": (["predict", "run", "void"], "holds no images"),
    "protecting a class of a run of facts": (["adapt", "run", "--class", "red", "--out", "a"], "--facts"),
    "protecting two kinds of things": (["adapt", "run", "--used", "--images", "void", "--out", "a"], "one of --facts"),
    "a damaged evaluation": (["evaluate", "damaged"], "damaged"),
    "damaged weights": (["evaluate", "damaged", "--fresh"], "damaged"),
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
    "learning a finished run": (["learn", "run"], "all its tasks; teach it more with `factlearn learn run --data"),
    "importance of an unknown layer": (["importance", "run", "--layer", "fc9"], "fc9"),
    "an asset that does not exist": (["assets", "fetch", "vgg61"], "vgg61"),
    "an asset that was not fetched": (["assets", "path", "glove-6b-50d"], "not in the cache"),
}
CLASS_MISTAKES = {
    "an unknown method": (["train", "config.yaml", "--set", "strategy.name=msa"], "no lifelong method 'msa'"),
    "a folder that does not exist": (["train", "config.yaml", "--set", "data.root=/nowhere"], "does not exist"),
    "an unknown task": (["train", "config.yaml", "--set", "data.tasks=[rond]"], "no task 'rond'"),
    "a dataset that was not downloaded": (["train", "config.yaml", "--set", "data.source=paper"], "is not in"),
    "weights that do not exist": (["train", "config.yaml", "--set", "model.weights=/no.safetensors"], "does not exist"),
    "a scale that does not exist": (["train", "config.yaml", "--set", "scale=small"], "no scale"),
    "rows for a network of images": (["train", "config.yaml", "--set", "data={source: split-digits}"], "perceptron"),
    "splitting classes": (["split", "config.yaml"], "split works on facts"),
    "a place that is no run": (["evaluate", "empty"], "holds no run"),
    "predicting a text": (["predict", "run", "notes.txt"], "not an image"),
    "predicting a missing image": (["predict", "run", "missing.png"], "does not exist"),
    "predicting an empty folder": (["predict", "run", "empty"], "holds no images"),
    "predicting a broken image": (["predict", "run", "broken.png"], "damaged or truncated"),
    "predicting an unknown task": (["predict", "run", "x.png", "--task", "triangle"], "not learned a task 'triangle'"),
    "predicting with a stage that does not exist": (["predict", "run", "x.png", "--stage", "9"], "no stage 9"),
    "images for a run on rows": (["predict", "rows", "broken.png"], "rows of 64 numbers"),
    "indexing a run of classes": (["index", "build", "run", "--out", "i"], "learned classes"),
    "adapting to nothing": (["adapt", "run", "--out", "a"], "one of --class"),
    "protecting facts of a run of classes": (["adapt", "run", "--facts", "notes.txt", "--out", "a"], "--class"),
    "protecting an unknown class": (["adapt", "run", "--class", "round/rad", "--out", "a"], "did you mean 'round/red'"),
    "protecting what is not learned yet": (["adapt", "rows", "--class", "7", "--out", "a"], "has not been learned yet"),
    "learning tasks out of order": (["learn", "rows", "--task", "4-5"], "learns its tasks in order"),
    "learning a finished run": (["learn", "run"], "all its tasks"),
}


def assert_one_sentence(done, says):
    assert done.returncode == 2, done.stdout + done.stderr
    assert says in done.stderr
    assert "Traceback" not in done.stderr
    said = [line for line in done.stderr.splitlines() if line.startswith("factlearn: ")]
    assert len(said) == 1


def files_below(folder):
    return set(folder.rglob("*"))


@pytest.fixture(scope="module")
def mistaken(place):
    """The folder of facts with files that are wrong in some way."""
    write(place, "binary.csv", b"\xff\xfe\x00\x01\x80")
    write(place, "columns.csv", "path,split\na.png,train\n")
    write(place, "missing.csv", HEADER + "gone.png,train,dog,,\n")
    write(place, "gap.csv", HEADER + "config.yaml,train,dog,,bike\n")
    write(place, "empty.csv", "")
    write(place, "unknown.txt", "<cat>\n")
    write(place, "corrupt.png", b"\x89PNG\r\n\x1a\nrubbish")
    write(place, "corrupt.csv", HEADER + "corrupt.png,train,dog,,\nfine.png,test,dog,jumping,\n")
    for name in ("fine.png", "other.png"):
        Image.new("RGB", (40, 40)).save(place / name)
    write(place, "word.csv", HEADER + "fine.png,train,zebra,,\nother.png,test,zebra,jumping,\n")
    (place / "void").mkdir()
    shutil.copytree(place / "run", place / "damaged")
    for file in ("stage.json", "model.safetensors"):
        write(place / "damaged" / "stages" / "2", file, b"\x00" * 50)
    shutil.copytree(place / "index", place / "broken-index")
    (rows,) = (place / "broken-index").glob("segments/*/rows.npy")
    content = bytearray(rows.read_bytes())
    content[-3] ^= 4
    rows.write_bytes(content)
    return place


@pytest.mark.parametrize("mistake", MISTAKES)
def test_a_mistake_gets_one_sentence_and_exit_code_2_and_leaves_nothing(mistaken, mistake):
    arguments, says = MISTAKES[mistake]
    before = files_below(mistaken)
    assert_one_sentence(factlearn(*arguments, cwd=mistaken), says)
    assert files_below(mistaken) == before


@pytest.fixture(scope="module")
def mistaken_classes(class_place, shapes):
    """The folder of classes with files that are wrong in some way."""
    write(class_place, "notes.txt", "hello")
    write(class_place, "broken.png", (shapes / "round" / "test" / "red" / "5.png").read_bytes()[:80])
    (class_place / "empty").mkdir()
    return class_place


@pytest.mark.parametrize("mistake", CLASS_MISTAKES)
def test_a_mistake_with_classes_gets_one_sentence_and_exit_code_2_and_leaves_nothing(mistaken_classes, mistake):
    arguments, says = CLASS_MISTAKES[mistake]
    before = files_below(mistaken_classes)
    assert_one_sentence(factlearn(*arguments, cwd=mistaken_classes), says)
    assert files_below(mistaken_classes) == before


def test_a_mistake_leaves_a_process_with_exit_code_2_and_no_traceback(tmp_path):
    done = in_a_process("evaluate", "nothing", cwd=tmp_path)
    assert done.returncode == 2
    assert done.stderr.startswith("factlearn: nothing holds no run")
    assert done.stderr.count("\n") == 1
