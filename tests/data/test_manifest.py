import csv
import json
from collections.abc import Sequence
from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyarrow import parquet

from factlearn.data.manifest import read_manifest
from factlearn.data.rows import MANIFEST_SUFFIXES
from factlearn.errors import DatasetError
from factlearn.facts import Fact

HEADER = ("path", "split", "subject", "predicate", "object")
Row = dict[str, str]


def _row(path: str, split: str = "train", *units: str, **more: str) -> Row:
    subject, predicate, thing = (*units, "", "", "")[:3]
    return {"path": path, "split": split, "subject": subject, "predicate": predicate, "object": thing, **more}


ROWS = [
    _row("a.jpg", "train", "person", "riding", "bike", photographer="Ann"),
    _row("sub/b.jpg", "test", "dog", photographer="Ben, the elder"),
    _row("a.jpg", "train", "person", "smiling", photographer="Ann in March"),
]


def _write(path: Path, rows: Sequence[Row]) -> Path:
    if path.suffix == ".parquet":
        parquet.write_table(pa.Table.from_pylist(list(rows)), path)
    elif path.suffix in (".jsonl", ".ndjson"):
        path.write_text("".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows), encoding="utf-8")
    else:
        with open(path, "w", newline="", encoding="utf-8") as stream:
            writer = csv.DictWriter(stream, rows[0], delimiter="\t" if path.suffix == ".tsv" else ",")
            writer.writeheader()
            writer.writerows(rows)
    return path


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "sub").mkdir()
    for name in ("a.jpg", "c.jpg", "sub/b.jpg"):
        (tmp_path / name).write_bytes(b"picture")
    return tmp_path


def _refused(path: Path, **options: object) -> str:
    with pytest.raises(DatasetError) as caught:
        read_manifest(path, **options)  # type: ignore[arg-type]
    return str(caught.value)


def _csv(folder: Path, *lines: str, header: str = ",".join(HEADER)) -> Path:
    path = folder / "list.csv"
    path.write_text("\n".join((header, *lines)) + "\n", encoding="utf-8")
    return path


@pytest.mark.parametrize("suffix", MANIFEST_SUFFIXES)
def test_every_form_gives_the_same_samples(folder: Path, suffix: str) -> None:
    dataset = read_manifest(_write(folder / f"list{suffix}", ROWS))
    assert dataset.name == "list"
    assert [(sample.id, sample.path) for sample in dataset] == [(n, folder / n) for n in ("a.jpg", "sub/b.jpg")]
    assert [sample.facts for sample in dataset] == [
        (Fact("person", "riding", "bike"), Fact("person", "smiling")),
        (Fact("dog"),),
    ]
    assert [sample.split for sample in dataset] == ["train", "test"]
    assert [list(map(dict, sample.labels.values())) for sample in dataset] == [
        [{"photographer": "Ann"}, {"photographer": "Ann in March"}],
        [{"photographer": "Ben, the elder"}],
    ]


def test_rows_with_the_same_path_are_one_photo_however_it_is_spelled(folder: Path) -> None:
    (sample,) = read_manifest(_csv(folder, "a.jpg,train,dog,,", "./a.jpg,train,cat,,", "a.jpg,train,ball,,")).samples
    assert (sample.id, sample.facts) == ("a.jpg", (Fact("dog"), Fact("cat"), Fact("ball")))


def test_a_photo_on_both_sides_is_refused_naming_the_rows(folder: Path) -> None:
    path = _csv(folder, "c.jpg,train,dog,,", "a.jpg,train,dog,,", "a.jpg,test,cat,,")
    assert (
        "line 4: a.jpg is test here and train on line 3; a photo is for training or for testing, not both"
        in _refused(path)
    )
    dataset = read_manifest(path, on_error="skip")
    assert [(sample.id, sample.split, sample.facts) for sample in dataset][1] == ("a.jpg", "train", (Fact("dog"),))


@pytest.mark.parametrize("suffix", MANIFEST_SUFFIXES)
def test_a_missing_split_is_made_in_every_form_if_a_seed_is_given(folder: Path, suffix: str) -> None:
    rows = [{key: value for key, value in row.items() if key != "split"} for row in ROWS]
    path = _write(folder / f"list{suffix}", [*rows, {**rows[1], "path": "c.jpg"}])
    said: list[str] = []
    dataset = read_manifest(path, seed=0, report=said.append)
    assert [sample.split for sample in dataset] == ["train", "train", "test"]
    assert said == [
        f"list{suffix} has no column split: 2 photos are for training and 1, about a fifth of each fact's, for testing."
    ]
    assert {sample.split for sample in read_manifest(path)} == {""}


def test_a_split_in_some_rows_only_is_refused(folder: Path) -> None:
    path = folder / "list.jsonl"
    path.write_text('{"path": "a.jpg", "split": "train", "subject": "dog"}\n{"path": "c.jpg", "subject": "dog"}\n')
    assert "line 2: it has no split, unlike rows before it" in _refused(path, seed=0)
    assert "split (is 'spilt' meant?)" in _refused(_csv(folder, header="path,spilt,subject,predicate,object"), seed=0)


def test_paths_start_from_the_root_if_one_is_given(folder: Path) -> None:
    (folder / "lists").mkdir()
    path = _write(folder / "lists" / "list.csv", ROWS)
    assert read_manifest(path, root=folder).samples[0].path == folder / "a.jpg"
    assert "does not exist" in _refused(path)
    absolute = _write(folder / "lists" / "absolute.csv", [_row(str(folder / "a.jpg"), "train", "dog")])
    assert read_manifest(absolute).samples[0].path == folder / "a.jpg"


def test_a_byte_order_mark_and_loose_spelling_are_forgiven(folder: Path) -> None:
    path = folder / "list.csv"
    text = " Path ,SPLIT,subject,predicate,object\r\n./a.jpg , Train,Person, riding ,Bike\r\n\r\n"
    path.write_bytes(b"\xef\xbb\xbf" + text.encode())
    sample = read_manifest(path).samples[0]
    assert (sample.id, sample.split, sample.fact) == ("a.jpg", "train", Fact("person", "riding", "bike"))


@pytest.mark.parametrize("suffix", [".csv", ".tsv"])
@pytest.mark.parametrize("delimiter", [",", ";", "\t", "|"])
@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16"])
def test_the_separator_and_the_encoding_are_recognised(
    folder: Path, suffix: str, delimiter: str, encoding: str
) -> None:
    lines = (("Path", *HEADER[1:]), ("a.jpg", "train", "café", "", ""), ("c.jpg", "test", "a,b", "", ""))
    rows = [delimiter.join(f'"{field}"' if "," in field else field for field in line) for line in lines]
    (folder / f"list{suffix}").write_bytes("\r\n".join(rows).encode(encoding))
    dataset = read_manifest(folder / f"list{suffix}", on_error="skip")
    assert dataset.samples[0].fact == Fact("café")


def test_windows_paths_are_understood_unless_a_file_has_backslashes(folder: Path) -> None:
    (sample,) = read_manifest(_csv(folder, "sub\\b.jpg,train,dog,,")).samples
    assert (sample.id, sample.path) == ("sub/b.jpg", folder / "sub" / "b.jpg")
    (folder / "sub\\b.jpg").write_bytes(b"picture")
    (sample,) = read_manifest(_csv(folder, "sub\\b.jpg,train,dog,,")).samples
    assert sample.path == folder / "sub\\b.jpg"


def test_every_problem_row_is_reported_with_its_line_in_one_error(folder: Path) -> None:
    path = _csv(
        folder,
        "a.jpg,train,dog,,",
        "gone.jpg,train,dog,,",
        "a.jpg,training,dog,,",
        "a.jpg,train,,riding,bike",
        "a.jpg,train,dog,,ball",
        "a.jpg,train,Dog,,",
        ",train,dog,,",
        "sub,train,dog,,",
        "c.jpg,train,dog",
        "c.jpg,test,dog,,,,",
        "c.jpg,train,a<b,,",
        "c.jpg,,dog,,",
        "c.jpg,train,cat,,",
    )
    message = _refused(path)
    assert "list.csv has 11 problem rows" in message
    for line, words in {
        3: "gone.jpg does not exist",
        4: "the split is 'training' instead of train or test",
        5: "has no subject",
        6: "an object but no predicate",
        7: "a.jpg with <dog> is already listed, on line 2",
        8: "the path is empty",
        9: "sub is not a file",
        10: "it has 3 fields instead of 5",
        11: "it has 7 fields instead of 5",
        12: "reserved characters",
        13: "the split is ''",
    }.items():
        (found,) = [text for text in message.splitlines() if text.startswith(f"  line {line}: ")]
        assert words in found


def test_problem_rows_are_skipped_by_choice_and_reported(folder: Path) -> None:
    said: list[str] = []
    path = _csv(folder, "a.jpg,train,dog,,", "gone.jpg,train,dog,,", "c.jpg,test,dog,,")
    dataset = read_manifest(path, on_error="skip", report=said.append)
    assert [sample.id for sample in dataset] == ["a.jpg", "c.jpg"]
    assert len(said) == 1
    assert "line 3" in said[0]


def test_skipping_every_row_is_an_error(folder: Path) -> None:
    assert "no usable rows" in _refused(_csv(folder, "gone.jpg,train,dog,,"), on_error="skip")
    assert "no usable rows" in _refused(_csv(folder))


def test_a_long_listing_is_cut_and_the_rest_counted(folder: Path) -> None:
    message = _refused(_csv(folder, *(f"gone{number}.jpg,train,dog,," for number in range(1500))))
    assert len(message.splitlines()) == 22
    assert message.endswith("and 1,480 more")


def test_a_missing_column_is_named_with_its_likely_misspelling(folder: Path) -> None:
    message = _refused(_csv(folder, "a.jpg,train,dog,,", header="path,split,subject,predicat,obj"))
    assert "predicate (is 'predicat' meant?)" in message
    assert "object" in message
    assert "two columns called path" in _refused(_csv(folder, header="path,path,split,subject,predicate,object"))
    table = folder / "list.parquet"
    parquet.write_table(pa.table({"path": ["a.jpg"], "split": ["train"]}), table)
    assert "lacks the columns subject, predicate, object" in _refused(table)


def test_lines_are_counted_through_quoted_line_ends(folder: Path) -> None:
    path = _csv(folder, 'a.jpg,train,dog,,,"two\nlines"', "gone.jpg,train,dog,,,", header=",".join(HEADER) + ",note")
    assert "line 4: " in _refused(path)


def test_bytes_that_are_not_utf8_are_named_by_line(folder: Path) -> None:
    path = folder / "list.csv"
    path.write_bytes(",".join(HEADER).encode() + b"\na.jpg,train,dog,,\nc.jpg,train,caf\xe9,,\n")
    assert "line 3: the subject is not UTF-8" in _refused(path)
    path = folder / "list.jsonl"
    path.write_bytes(b'{"path": "a.jpg", "split": "train", "subject": "caf\xe9"}\n')
    assert "line 1: the subject is not UTF-8" in _refused(path)


def test_json_rows_may_leave_units_out_but_not_misspell_them(folder: Path) -> None:
    path = folder / "list.jsonl"
    path.write_text(
        '{"path": "a.jpg", "split": "train", "subject": "dog", "likes": 3, "tags": ["x"], "object": null}\n'
        "\n"
        '{"path": "c.jpg", "split": "train", "subject": "person", "predicte": "riding"}\n'
        '{"path": "c.jpg", "split": "train"}\n'
        '{"path": "c.jpg", "split": "train", "subject": 3}\n'
        '["c.jpg"]\n'
        "{nonsense\n",
        encoding="utf-8",
    )
    message = _refused(path)
    for words in (
        "line 3: it has no predicate (is 'predicte' meant?)",
        "line 4: it has no subject",
        "line 5: the subject is 3 instead of text",
        "line 6: it is not a JSON object",
        "line 7: it is not JSON",
    ):
        assert words in message
    (sample,) = read_manifest(path, on_error="skip").samples
    assert sample.fact == Fact("dog")
    assert dict(sample.metadata) == {"likes": "3", "tags": '["x"]'}


def test_files_that_are_no_manifest_are_refused(folder: Path) -> None:
    (folder / "empty.csv").touch()
    (folder / "bad.parquet").write_bytes(b"PAR1 no")
    (folder / "quote.csv").write_text(",".join(HEADER) + '\n"a.jpg,train,dog,,\n')
    (folder / "dir.csv").mkdir()
    assert "is empty" in _refused(folder / "empty.csv")
    assert "not a whole Parquet file" in _refused(folder / "bad.parquet")
    assert "cannot be read at line 2" in _refused(folder / "quote.csv")
    assert "is a folder" in _refused(folder / "dir.csv")
    assert "does not exist" in _refused(folder / "none.csv")
    assert "unknown kind" in _refused(folder / "list.xlsx")
    assert "choose refuse or skip" in _refused(folder / "empty.csv", on_error="ignore")


def test_names_no_file_system_takes_are_problem_rows(folder: Path) -> None:
    rows = [_row("a\0b.jpg", "train", "dog"), _row("x" * 5000, "train", "dog")]
    message = _refused(_write(folder / "list.jsonl", rows))
    assert message.count("does not exist") == 2


@settings(deadline=None, max_examples=60)
@given(st.lists(st.tuples(*[st.text(max_size=8)] * 5), max_size=6), st.sampled_from(["csv", "jsonl", "parquet"]))
def test_any_table_is_read_or_refused_with_a_dataset_error(
    tmp_path_factory: pytest.TempPathFactory, cells: list[tuple[str, ...]], kind: str
) -> None:
    folder = tmp_path_factory.mktemp("table")
    (folder / "a.jpg").touch()
    rows = [_row("a.jpg", "train", "dog"), *(dict(zip(HEADER, row, strict=True)) for row in cells)]
    try:
        path = _write(folder / f"list.{kind}", rows)
    except (UnicodeEncodeError, pa.ArrowException, csv.Error):  # text that cannot be written at all
        return
    dataset = read_manifest(path, on_error="skip")
    assert dataset.samples[0].id == "a.jpg"
    assert len({sample.id for sample in dataset}) == len(dataset)
