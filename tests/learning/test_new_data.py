"""Opening data that is added to a run: the manifest's separator and missing split."""

import pytest
from PIL import Image

from factlearn.learning.new_data import open_new_facts


@pytest.mark.parametrize("separator", [",", ";", "\t", "|"])
def test_a_manifest_without_a_split_may_have_any_separator(tmp_path, separator):
    rows = [["path", "subject", "predicate", "object"]]
    for number in range(5):
        Image.new("RGB", (8, 8), (40 * number, 0, 0)).save(tmp_path / f"{number}.png")
        rows.append([f"{number}.png", "apple", "", ""])
    (tmp_path / "new.csv").write_text("\n".join(separator.join(row) for row in rows) + "\n")
    dataset = open_new_facts(tmp_path / "new.csv", seed=0)
    assert (len(dataset.of_split("train")), len(dataset.of_split("test"))) == (4, 1)
