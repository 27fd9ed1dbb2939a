"""What a new user typed on photos of their own, where it once hit a wall: row by row, with what happens now."""

import json
import re
import shutil

import pytest
import yaml
from PIL import Image

from factlearn.retrieval import FactIndex
from tests.cli.commands import factlearn, output_of
from tests.conftest import draw, draw_shape
from tests.docs.blocks import blocks_of
from tests.learning.growing import write_manifest

GREEN, RED = (26, 152, 80), (215, 48, 39)


def test_row_1_a_finished_run_learns_new_facts_and_words_after_its_photos_are_gone(mine):
    for typed in (("learn", "runs/mas", "--task", "later"), ("train", "mine5.yaml", "--out", "runs/mas", "--resume")):
        raw = yaml.safe_load((mine / "config.yaml").read_text())
        (mine / "mine5.yaml").write_text(yaml.safe_dump({**raw, "tasks": {"count": 3}}))
        done = factlearn(*typed, cwd=mine)
        assert done.returncode == 2
        assert "factlearn learn runs/mas --data NEW.csv" in done.stderr
    write_manifest(mine / "new", "harvest.csv", [4, 5], split=False)
    shutil.rmtree(mine / "photos")
    done = factlearn("learn", "runs/mas", "--data", "new/harvest.csv", "--epochs", 1, cwd=mine)
    assert done.returncode == 0, done.stderr
    assert "36 photos gone" in done.stderr
    assert "harvest" in done.stdout
    assert "Nothing to do" in factlearn("learn", "runs/mas", "--data", "new/harvest.csv", cwd=mine).stderr
    assert json.loads(output_of("evaluate", "runs/mas", "--json", cwd=mine))["tasks"][-1] == "harvest"
    output_of("report", "runs/mas", "--out", "report.html", cwd=mine)
    guesses = json.loads(output_of("predict", "runs/mas", "new/5-0.png", "--top", 9, "--json", cwd=mine))
    assert "<tree>" in [guess["label"] for guess in guesses]


def test_row_1_a_finished_classifier_learns_new_classes_after_its_photos_are_gone(class_place, shapes, tmp_path):
    shutil.copytree(shapes, tmp_path / "shapes")
    raw = yaml.safe_load((class_place / "config.yaml").read_text())
    raw["data"]["root"] = str(tmp_path / "shapes")
    (tmp_path / "config.yaml").write_text(yaml.safe_dump(raw))
    output_of("train", "config.yaml", "--out", "run", cwd=tmp_path)
    for colour in ("red", "blue"):
        for seed in range(20, 26):
            draw_shape(tmp_path / "flags" / colour / f"{seed}.png", "square", colour, seed)
    shutil.rmtree(tmp_path / "shapes" / "round")
    assert "flags" in output_of("learn", "run", "--data", "flags", cwd=tmp_path)
    output_of("report", "run", "--out", "report.html", cwd=tmp_path)
    (guess,) = json.loads(output_of("predict", "run", "flags/red/20.png", "--task", "flags", "--json", cwd=tmp_path))
    assert guess["task"] == "flags"


@pytest.mark.assets
@pytest.mark.parametrize(
    ("text", "reading"),
    [
        ("a man riding a horse", "<person, riding, horse>"),
        ("dogs", "<dog>"),
        ("people playing tennis", "<person, playing, tennis>"),
        ("someone surfing", "<person, surfing>"),
        ("kid jumping", "<person, jumping>"),
        ("cyclist", "<person, riding, bike>"),
        ("person ridng hrose", "<person, riding, horse>"),
    ],
)
def test_row_2_plain_sentences_are_answered_and_the_reading_is_printed(album, text, reading):
    assert f"read as {reading}" in output_of("query", "ix", text, cwd=album)
    answer = json.loads(output_of("query", "ix", text, "--json", cwd=album))
    assert answer["query"] == answer["reading"]["query"] == reading
    assert answer["hits"]


def test_row_3_a_row_appended_and_a_photo_deleted_stop_nothing(mine):
    with open(mine / "photos" / "facts.csv", "a") as stream:
        stream.write("0-0.png,train,person,jumping,\n")
    (mine / "photos" / "0-8.png").unlink()
    for command in (("evaluate", "runs/mas", "--fresh"), ("report", "runs/mas", "--out", "report.html")):
        done = factlearn(*command, cwd=mine)
        assert done.returncode == 0, done.stderr
        assert done.stderr.count("1 new row ignored, 1 photo gone.") == 1


def test_row_4_adapting_shows_what_it_protects_before_and_after_and_warns_where_it_may_not_help(mine):
    fact = json.loads((mine / "runs" / "mas" / "tasks.json").read_text())["tasks"][0]["facts"][0]
    (mine / "sports.txt").write_text(fact + "\n")
    said = output_of("adapt", "runs/mas", "--facts", "sports.txt", "--out", "adapted", cwd=mine)
    assert "100% is kept" in said
    assert "WARNING" not in said
    write_manifest(mine / "new", "harvest.csv", [4])
    learned = output_of("learn", "adapted", "--data", "new/harvest.csv", cwd=mine)
    told = json.loads(output_of("evaluate", "adapted", "--json", cwd=mine))["protection"]
    assert len(told["galleries"]) == 2  # among their own kind, and among all images
    (row,) = [line for line in learned.splitlines() if "protected " in line and "→" in line and "What" not in line]
    for before, now in zip(told["fates"][0]["before"], told["fates"][0]["now"], strict=True):
        assert f"{before:.3f} → {now:.3f}" in row
    warned = output_of("adapt", "runs/mas", "--facts", "sports.txt", "--only", "--out", "only", cwd=mine)
    assert "WARNING: only" in warned


def test_row_5_adapting_a_finished_run_is_no_dead_end(mine):
    fact = json.loads((mine / "runs" / "mas" / "tasks.json").read_text())["tasks"][0]["facts"][0]
    (mine / "keep.txt").write_text(fact + "\n")
    said = output_of("adapt", "runs/mas", "--facts", "keep.txt", "--out", "adapted", cwd=mine)
    assert "continue with: factlearn learn adapted --data NEW.csv" in said
    done = factlearn("learn", "adapted", cwd=mine)
    assert done.returncode == 2
    assert "teach it more with `factlearn learn adapted --data NEW.csv`" in done.stderr
    write_manifest(mine / "new", "harvest.csv", [4])
    shutil.rmtree(mine / "photos")
    done = factlearn("learn", "adapted", "--data", "new/harvest.csv", cwd=mine)
    assert done.returncode == 0, done.stderr
    assert "36 photos gone" in done.stderr


def test_row_6_one_refresh_finds_facts_that_were_learned_since(place, manifest, tmp_path):
    whole, young = place / "run", tmp_path / "run"
    shutil.copytree(whole, young)
    shutil.rmtree(young / "stages" / "2")
    tasks = json.loads((whole / "tasks.json").read_text())
    later = set(tasks["tasks"][1]["facts"])
    (young / "tasks.json").write_text(json.dumps({**tasks, "tasks": tasks["tasks"][:1]}))
    output_of("index", "build", "run", "--images", manifest, "--out", "ix", cwd=tmp_path)
    assert not later & {str(fact) for fact in FactIndex.open(tmp_path / "ix").facts}
    shutil.copytree(whole / "stages" / "2", young / "stages" / "2")
    shutil.copy(whole / "tasks.json", young / "tasks.json")
    drift = json.loads(output_of("index", "drift", "ix", "--json", cwd=tmp_path))
    assert later <= {group["fact"] for group in drift["groups"]}
    output_of("index", "refresh", "ix", cwd=tmp_path)
    index = FactIndex.open(tmp_path / "ix")
    assert later <= {str(fact) for fact in index.facts}
    gaining = {group["fact"] for group in drift["groups"] if group["gains"]}
    assert gaining & later
    assert {item["fact"] for item in index.items() if item["model"] == index.model} == gaining
    assert " 0 re-embedded" in output_of("index", "refresh", "ix", cwd=tmp_path)


def colours(path):
    """The colours of a picture."""
    with Image.open(path) as sheet:
        return {colour for _, colour in sheet.convert("RGB").getcolors(1 << 20)}


@pytest.mark.assets
def test_row_7_a_verdict_is_given_only_where_labels_decide_it(album, tmp_path):
    sheet = tmp_path / "sheet.png"
    out = output_of("query", "ix", "<man, riding, horse>", "--sheet", sheet, "-k", 5, cwd=album)
    assert "right" not in out
    assert not colours(sheet) & {GREEN, RED}
    out = output_of("query", "ix", "a man riding a horse", "--sheet", sheet, "-k", 5, cwd=album)
    assert "5 of 5 right" in out
    assert GREEN in colours(sheet)
    command = ("query", "ix", "<person>", "--and", "<*, riding>", "--not", "<*, *, bike>", "-k", 150, "--json")
    judged = {hit["fact"]: hit["right"] for hit in json.loads(output_of(*command, cwd=album))["hits"]}
    assert (judged["<person, riding, horse>"], judged["<person, dancing>"]) == (True, False)


@pytest.mark.assets
def test_row_8_not_excludes_firmly_by_an_adjustable_margin(album):
    def facts(*options):
        command = ("query", "ix", "<*, riding>", "--not", "<*, *, horse>", "-k", 10, *options, "--json")
        return [hit["fact"] for hit in json.loads(output_of(*command, cwd=album))["hits"]]

    assert "<person, riding, horse>" not in facts()
    assert len(facts("--not-margin", 0)) == 10
    done = factlearn("query", "ix", "<*, riding>", "--not", "<dog>", "--not-margin", 2, cwd=album)
    assert done.returncode == 2
    assert "margin" in done.stderr


def test_row_9_an_image_of_three_units_is_not_read_as_two(place, manifest, tmp_path):
    """With one image; tests/retrieval/test_fitting.py measures it over many."""
    output_of("train", place / "config.yaml", "--out", "run", "--set", "strategy={name: ridge}", cwd=tmp_path)
    output_of("index", "build", "run", "--images", manifest, "--out", "ix", cwd=tmp_path)
    answer = output_of("query", "ix", "--image", manifest.parent / "0-0.png", "--json", cwd=tmp_path)
    assert json.loads(answer)["facts"][0]["fact"] == "<person, riding, bike>"


def test_row_10_classes_of_all_tasks_compete_with_each_other_and_with_none_of_these(class_place, shapes):
    for shape in ("round", "square"):
        photo = shapes / shape / "train" / "red" / "0.png"
        guesses = json.loads(output_of("predict", "run", photo, "--top", 7, "--json", cwd=class_place))
        assert len({(guess["task"], guess["label"]) for guess in guesses}) == 3 + 3 + 1
        assert [guess["task"] for guess in guesses if guess["label"] == "none of these"] == [""]
        chances = [guess["probability"] for guess in guesses]
        assert sorted(chances, reverse=True) == chances
        assert sum(chances) < 1.9  # the classes of each of two heads used to add up to one


def test_row_11_adding_nothing_but_unreadable_files_succeeds(index, photos, tmp_path):
    (photos / "bad.jpg").write_bytes(b"corrupt")
    done = factlearn("index", "add", "ix", "photos", "--skip-unreadable", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "0 new, 0 changed, 4 unchanged, 0 moved, 0 duplicates, 1 skipped; 4 images" in done.stdout
    assert "Skipped: " in done.stderr
    assert "bad.jpg" in done.stderr


def test_row_12_all_unreadable_images_are_listed_with_the_way_on(place, index, photos, tmp_path):
    for number in range(25):
        (photos / f"bad{number:02d}.jpg").write_bytes(b"corrupt")
    whole = (photos / "0.png").read_bytes()
    (photos / "trip" / "cut.png").write_bytes(whole[: len(whole) // 2])
    for command in (("build", place / "run", "--images", "photos", "--out", "other"), ("add", "ix", "photos")):
        done = factlearn("index", *command, cwd=tmp_path)
        assert done.returncode == 2
        assert "26 of" in done.stderr
        assert "--skip-unreadable" in done.stderr
        assert done.stderr.count("bad") == 20
        assert "and 6 more" in done.stderr
    assert not (tmp_path / "other").exists()
    assert len(FactIndex.open(index)) == 4
    built = output_of(
        "index", "build", place / "run", "--images", "photos", "--out", "other", "--skip-unreadable", cwd=tmp_path
    )
    assert "4 images" in built


def test_row_12_training_lists_all_unreadable_images_with_the_way_on(mine):
    for name in ("0-0.png", "1-1.png"):
        (mine / "photos" / name).write_bytes(b"corrupt")
    done = factlearn("train", "config.yaml", "--out", "other", cwd=mine)
    assert done.returncode == 2
    assert all(words in done.stderr for words in ("2 images", "data.on_error to skip", "0-0.png", "1-1.png"))
    assert not (mine / "other").exists()
    output_of("train", "config.yaml", "--out", "other", "--set", "data.on_error=skip", cwd=mine)


@pytest.mark.parametrize("kind", ["place", "class_place"])
def test_row_12_predicting_a_folder_lists_all_unreadable_images(kind, photos, request):
    for name in ("bad.jpg", "worse.png"):
        (photos / name).write_bytes(b"corrupt")
    place = request.getfixturevalue(kind)
    done = factlearn("predict", "run", photos, cwd=place)
    assert done.returncode == 2
    assert all(words in done.stderr for words in ("2 of 6", "--skip-unreadable", "bad.jpg", "worse.png"))
    guesses = json.loads(output_of("predict", "run", photos, "--skip-unreadable", "--json", cwd=place))
    assert len({guess["image"] for guess in guesses}) == 4


def test_row_13_a_moved_folder_is_noticed_and_relocated(index, photos, tmp_path):
    photos.rename(tmp_path / "archive")
    done = factlearn("index", "refresh", "ix", cwd=tmp_path)
    assert done.returncode == 0
    assert "0 re-embedded, 0 kept, 4 missing" in done.stdout
    assert f"factlearn index relocate ix {photos} NEW" in done.stderr
    before = FactIndex.open(index)
    assert "4 relocated, 0 missing, 0 different" in output_of(
        "index", "relocate", "ix", "photos", "archive", cwd=tmp_path
    )
    after = FactIndex.open(index)
    assert (sorted(after.ids), len(after)) == (sorted(before.ids), 4)
    assert all(path.is_file() for path in after.paths)
    assert {hit.id: hit.score for hit in after.query("<tree>")} == {hit.id: hit.score for hit in before.query("<tree>")}
    assert "4 kept, 0 missing" in output_of("index", "refresh", "ix", cwd=tmp_path)


def test_row_13_adding_a_moved_folder_does_not_double_the_index(index, photos, tmp_path):
    photos.rename(tmp_path / "archive")
    draw(5, 350, tmp_path / "archive" / "new.png")
    added = output_of("index", "add", "ix", "archive", cwd=tmp_path)
    assert "1 new, 0 changed, 0 unchanged, 4 moved, 0 duplicates, 0 skipped; 5 images" in added
    assert all(path.is_file() for path in FactIndex.open(index).paths)


def test_row_14_a_run_that_moved_with_its_index_is_found_and_otherwise_asked_for(place, photos, tmp_path):
    old = tmp_path / "old"
    shutil.copytree(place / "run", old / "runs" / "mas")
    output_of("index", "build", "runs/mas", "--images", photos, "--out", "indexes/ix", cwd=old)
    new = tmp_path / "new"
    old.rename(new)
    draw(4, 360, photos / "new.png")
    assert "1 new" in output_of("index", "add", "indexes/ix", photos, cwd=new)
    output_of("query", "indexes/ix", "--image", photos / "0.png", cwd=new)
    (new / "runs" / "mas").rename(tmp_path / "elsewhere")
    lost = factlearn("index", "add", "indexes/ix", photos, cwd=new)
    assert lost.returncode == 2
    assert "--run RUN" in lost.stderr
    assert "5 unchanged" in output_of("index", "add", "indexes/ix", photos, "--run", tmp_path / "elsewhere", cwd=new)


def test_row_15_a_config_used_from_another_folder_finds_its_manifest(place, tmp_path):
    write_manifest(tmp_path / "photos", "facts.csv", range(4))
    raw = yaml.safe_load((place / "config.yaml").read_text())
    raw["data"]["manifest"] = "facts.csv"
    (tmp_path / "photos" / "mine.yaml").write_text(yaml.safe_dump(raw))
    (tmp_path / "elsewhere").mkdir()
    assert "task 2" in output_of("split", "../photos/mine.yaml", cwd=tmp_path / "elsewhere")


@pytest.mark.parametrize("delimiter", [";", "\t", ","])
def test_row_16_any_usual_table_with_windows_paths_is_indexed(place, photos, tmp_path, delimiter):
    rows = [("path", "split", "subject", "predicate", "object"), ("trip\\3.png", "test", "dog", "jumping", "")]
    text = "\r\n".join(delimiter.join(row) for row in rows)
    (photos / "list.csv").write_bytes(b"\xef\xbb\xbf" + text.encode())
    output_of("index", "build", place / "run", "--images", photos / "list.csv", "--out", "ix", cwd=tmp_path)
    (item,) = FactIndex.open(tmp_path / "ix").items()
    assert (item["id"], item["fact"], item["path"]) == ("trip/3.png", "<dog, jumping>", str(photos / "trip" / "3.png"))


@pytest.mark.assets
def test_row_17_misspelt_units_suggest_taught_ones_for_all_words_at_once(album):
    done = factlearn("query", "ix", "<perosn, riding, hrose>", cwd=album)
    assert done.returncode == 2
    assert re.search(r"'perosn': person,.*'hrose': horse", " ".join(done.stderr.split()))


def test_row_18_the_snippet_of_the_methods_page_is_complete(tmp_path):
    from tests.docs.miniature import ROOT

    snippet = next(block for block in blocks_of(ROOT, "docs/methods.md") if block.language == "python")
    assert "from factlearn.lifelong import" in snippet.text
    namespace: dict = {}
    exec(compile(snippet.text, snippet.place, "exec"), namespace)
    assert namespace["saved"]
    assert "Choosing lambda" in (ROOT / "docs" / "methods.md").read_text()


def test_row_19_python_takes_paths_everywhere(place, manifest, monkeypatch):
    import factlearn
    from factlearn.learning.results import load_result

    monkeypatch.chdir(place)
    assert 0 <= load_result("run").final.map_all <= 1
    assert factlearn.load_run("run").embed(str(manifest.parent / "0-0.png")).shape == (3, 8)


def test_row_20_building_onto_an_index_is_refused_before_embedding(place, index, photos, tmp_path):
    command = ("index", "build", place / "run", "--images", photos, "--out", "ix")
    done = factlearn(*command, cwd=tmp_path)
    assert done.returncode == 2
    assert "--overwrite" in done.stderr
    assert "embedding" not in done.stderr
    assert "4 images" in output_of(*command, "--overwrite", cwd=tmp_path)


def test_row_21_runs_are_listed_with_their_sizes_and_pruned(mine):
    (before,) = json.loads(output_of("runs", "list", "--json", cwd=mine))
    assert "runs/mas" in output_of("runs", "list", cwd=mine)
    assert "MB freed" in output_of("runs", "prune", "runs/mas", cwd=mine)
    (after,) = json.loads(output_of("runs", "list", "--json", cwd=mine))
    assert before["bytes"] - before["prunable_bytes"] == after["bytes"]
    output_of("report", "runs/mas", "--out", "report.html", cwd=mine)
    done = factlearn("evaluate", "runs/mas", "--fresh", cwd=mine)
    assert done.returncode == 2
    assert done.stderr.count("\n") == 1
    assert "Stage 1 of runs/mas was pruned" in done.stderr
