"""A service that is killed while images are added: what it acknowledged is there, nothing is there twice."""

import os
import random
import subprocess
import sys
import threading
import time
from contextlib import suppress

import httpx
import pytest

from factlearn.retrieval import FactIndex
from tests.conftest import draw
from tests.server.running import TOKEN


def start(index, token_file):
    code = "from factlearn.cli import main; main()"
    arguments = ["serve", str(index), "--port", "0", "--rate", "0", "--quiet", "--token-file", str(token_file)]
    process = subprocess.Popen([sys.executable, "-c", code, *arguments], stdout=subprocess.PIPE, text=True)
    return process, process.stdout.readline().split()[3]


def add_until_killed(process, url, picture, number, acknowledged, seconds):
    """Add images one after the other until the service, killed meanwhile, no longer answers."""
    headers = {"Authorization": f"Bearer {TOKEN}"}
    with httpx.Client(base_url=url, headers=headers, timeout=120) as http, suppress(httpx.HTTPError):
        while not http.get("/api/v1").json()["indexes"][0]["writable"]:
            time.sleep(0.05)
        for turn in range(10_000):
            name = f"kill{number}/{turn}"
            response = http.post("/api/v1/images", files={"image": ("x.png", picture)}, data={"id": name})
            if response.status_code == 201:
                acknowledged.append(name)
            if turn == 0:  # the model is loaded: from now on, additions are quick
                threading.Timer(seconds, process.kill).start()


@pytest.mark.slow
def test_acknowledged_additions_survive_kills(photos, tmp_path):
    kills = int(os.environ.get("FACTLEARN_KILLS", "50"))
    (tmp_path / "token").write_text(TOKEN)
    draw(0, 5, tmp_path / "x.png")
    picture = (tmp_path / "x.png").read_bytes()
    acknowledged, pick = [], random.Random(0)
    for number in range(kills):
        process, url = start(photos, tmp_path / "token")
        add_until_killed(process, url, picture, number, acknowledged, pick.uniform(0.05, 1.0))
        process.kill()
        process.communicate(timeout=60)
    index = FactIndex.open(photos, verify=True)
    assert set(acknowledged) <= set(index.ids)
    assert len(set(index.ids)) == len(index.ids)
    print(f"{kills} kills, {len(acknowledged)} additions acknowledged, all there")
