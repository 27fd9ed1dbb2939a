"""The miniature checkout that every page starts from, with the demo's runs and index already in it."""

import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.docs import forkserver
from tests.docs.miniature import make_assets, make_checkout

METHODS = ("finetune", "mas", "joint")
_LARGE = 1 << 20


class Checkout:
    """A folder in which the blocks of a page run, one after the other."""

    def __init__(self, base: Path) -> None:
        self.folder = base / "checkout"
        self.server = str(base / "server")
        self._original = base / "original"
        commands = base / "commands"
        self.environment = {
            **{name: os.environ[name] for name in ("LANG", "LC_ALL", "TMPDIR") if name in os.environ},
            "PATH": f"{commands}:/usr/bin:/bin",
            "HOME": str(self.folder),
            "PYTHONPATH": str(self.folder),
            "PYTHONDONTWRITEBYTECODE": "1",
            "FACTLEARN_CACHE": str(base / "cache"),
            "FACTLEARN_OFFLINE": "1",
            "OMP_NUM_THREADS": "1",  # for so little work, more threads only cost time
        }
        commands.mkdir()
        for name in ("factlearn", "python"):
            script = f'#!/bin/sh\nexec {sys.executable} -I -S {forkserver.__file__} {name} {self.server} "$@"\n'
            (commands / name).write_text(script)
            (commands / name).chmod(0o755)

    def restore(self) -> None:
        """Undo whatever the page before did; large files, which are never changed in place, are shared."""
        if not self._original.exists():
            self.folder.rename(self._original)
        shutil.rmtree(self.folder, ignore_errors=True)
        shutil.copytree(self._original, self.folder, symlinks=True, copy_function=_copy)

    def shell(self, script: str) -> tuple[int, str]:
        """Run a script that stops at the first command that fails; its exit code and output."""
        trap = "trap 'echo \"in line $((LINENO - 1)): $BASH_COMMAND\" >&2' ERR\n"
        done = subprocess.run(
            ["bash", "-eE", "-o", "pipefail", "-c", trap + script],
            cwd=self.folder, env=self.environment, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT, text=True, check=False, timeout=120,
        )  # fmt: skip
        return done.returncode, done.stdout


def _copy(source: str, target: str) -> None:
    if os.path.getsize(source) > _LARGE:
        os.link(source, target)
    else:
        shutil.copy2(source, target)


@pytest.fixture(scope="session")
def original(tmp_path_factory):
    """The miniature checkout as every page finds it, and the server that its commands run in."""
    base = tmp_path_factory.mktemp("docs")
    checkout = Checkout(base)
    checkout.folder.mkdir()
    make_checkout(checkout.folder)
    server = subprocess.Popen(
        [sys.executable, forkserver.__file__, "serve", checkout.server],
        cwd=checkout.folder,
        env={**checkout.environment, "PATH": os.environ["PATH"]},
    )
    try:
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv("FACTLEARN_CACHE", checkout.environment["FACTLEARN_CACHE"])
            make_assets(base)
        while not os.path.exists(checkout.server):
            assert server.poll() is None, "the server did not start"
            time.sleep(0.05)
        steps = [f"factlearn train configs/demo.yaml --out runs/demo/{m} --set strategy.name={m}" for m in METHODS]
        code, said = checkout.shell("\n".join([*steps, "factlearn index build runs/demo/mas --out indexes/demo"]))
        assert code == 0, said
        yield checkout
    finally:
        server.terminate()
        server.wait()
        shutil.rmtree(base, ignore_errors=True)


@pytest.fixture
def checkout(original):
    """The checkout, fresh."""
    original.restore()
    return original
