"""Commands for named weights, word vectors and pictures."""

import json

from tests.cli.commands import factlearn


def test_assets_are_listed_with_their_checksums(tmp_path):
    listed = json.loads(factlearn("assets", "list", "--json", cwd=tmp_path).stdout)
    assert {"vgg16-imagenet-conv", "glove-6b-50d", "emoji-pictures"} <= {asset["name"] for asset in listed}
    assert all(len(asset["sha256"]) in (0, 64) for asset in listed)
