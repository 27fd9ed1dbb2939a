"""Where image files lie: in folders, in tar files, in object storage; one way to list, open and recognise them.

A member of a tar is named as if the tar were a folder, `/data/shard-0000.tar/00012.jpg`; it is read where it is and
never extracted. An object is named by its address, `s3://bucket/photos/00012.jpg`. Both travel as an ordinary `Path`,
whose single slash after `s3:` stands for two. A file in a folder costs no more than it would without any of this.
"""

from factlearn.places.files import (
    Status,
    absolute,
    content_key,
    files_below,
    holds_files,
    is_file,
    is_folder,
    is_gone,
    is_in_tar,
    open_file,
    status,
    written,
)
from factlearn.places.patterns import expand
from factlearn.places.remote import is_remote
from factlearn.places.tars import is_tar

__all__ = [
    "Status",
    "absolute",
    "content_key",
    "expand",
    "files_below",
    "holds_files",
    "is_file",
    "is_folder",
    "is_gone",
    "is_in_tar",
    "is_remote",
    "is_tar",
    "open_file",
    "status",
    "written",
]
