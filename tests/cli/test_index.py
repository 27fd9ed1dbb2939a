"""Commands that build indexes, look after them and search them."""

import json

import pytest
from PIL import Image

from tests.cli.commands import factlearn, output_of


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


def test_an_index_grows_shrinks_and_is_looked_after(place, manifest):
    pictures = place / "grown"
    pictures.mkdir()
    for seed in range(3):
        Image.new("RGB", (40, 40), (80 * seed, 10, 10)).save(pictures / f"{seed}.png")

    def done(*arguments):
        return output_of(*arguments, cwd=place)

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
    assert "0 repaired, 0 re-embedded" in done("index", "refresh", "looked-after")
    assert "chosen" in done("index", "optimize", "looked-after")
    assert "no damage found" in done("index", "verify", "looked-after")
    assert "55 images" in done("index", "export", "looked-after", "all.parquet")
    assert "is up to date" in done("index", "upgrade", "looked-after")


def test_an_index_is_copied_to_another_place(place):
    assert "copied: 54 images" in output_of("index", "copy", "index", "copied", cwd=place)
    asked = ("<person, riding, *>", "-k", 20, "--json")
    assert output_of("query", "copied", *asked, cwd=place) == output_of("query", "index", *asked, cwd=place)
    again = factlearn("index", "copy", "index", "copied", cwd=place)
    assert (again.returncode, "already an index" in again.stderr) == (2, True)
    assert "54 images" in output_of("index", "copy", "index", "copied", "--overwrite", cwd=place)
    itself = factlearn("index", "copy", "index", "../" + place.name + "/index", "--overwrite", cwd=place)
    assert (itself.returncode, "to itself" in itself.stderr) == (2, True)


SECRET = "milvus://me:s3cret@127.0.0.1:1/photos?timeout=0.1"


@pytest.mark.parametrize(
    "arguments",
    [
        ("index", "build", "run", "--out", SECRET),
        ("index", "copy", "index", SECRET),
        ("index", "copy", SECRET, "elsewhere"),
        ("index", "verify", SECRET),
        ("index", "upgrade", SECRET),
        ("index", "info", SECRET),
        ("index", "refresh", SECRET),
        ("index", "remove", SECRET, "x"),
        ("query", SECRET, "<dog>"),
    ],
)
def test_a_server_that_is_away_is_one_sentence_without_the_password(place, arguments):
    pytest.importorskip("pymilvus")
    done = factlearn(*arguments, cwd=place)
    assert done.returncode == 2
    (sentence,) = done.stderr.splitlines()
    assert "milvus://127.0.0.1:1/photos?timeout=0.1 cannot be reached" in sentence
    assert "s3cret" not in done.stdout + done.stderr
