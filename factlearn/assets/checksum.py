"""A download that is not what it should be: no other source is tried after it, lest it be overlooked."""

from pathlib import Path

from factlearn.errors import AssetError
from factlearn.files import sha256_file


class WrongChecksumError(AssetError):
    """Something downloaded or given is not, byte for byte, what was recorded."""

    def __init__(self, what: str) -> None:
        super().__init__(f"{what} was refused: its checksum is not the recorded one.")


def verify(path: Path, sha256: str, what: str) -> None:
    """Compare a file with its recorded SHA-256; an empty one means that somebody else has checked it."""
    if sha256 and sha256_file(path) != sha256:
        raise WrongChecksumError(what)
