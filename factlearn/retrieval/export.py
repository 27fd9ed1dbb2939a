"""Exporting an index as one file for other programs."""

from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from factlearn.errors import FactIndexError
from factlearn.facts import UNIT_NAMES
from factlearn.files import atomic_write
from factlearn.retrieval.rows import pack, width_of

if TYPE_CHECKING:
    from factlearn.retrieval.index import FactIndex


def export(index: "FactIndex", out: Path) -> None:
    """Write all images of an index.

    `.parquet`: one row per image, with its item and its vectors in the columns subject, predicate and object.
    `.faiss`: a flat FAISS inner-product index of the rows (see `retrieval/search.py` for how to query it), with the
    images' ids beside it in `.ids.txt`.

    Raises:
        FactIndexError: if the file name ends in something else.
    """
    if out.suffix == ".parquet":
        _parquet(index, out)
    elif out.suffix == ".faiss":
        _faiss(index, out)
    else:
        raise FactIndexError(f"{out} ends in neither .parquet nor .faiss; choose one of them.")


def _parquet(index: "FactIndex", out: Path) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    vectors, items = index.vectors, index.items()
    names = list(dict.fromkeys(name for item in items for name in item))
    columns = {name: pa.array([item.get(name) for item in items], pa.string()) for name in names}
    for unit, name in enumerate(UNIT_NAMES):
        flat = pa.array(np.ascontiguousarray(vectors[:, unit]).ravel(), pa.float32())
        columns[name] = pa.FixedSizeListArray.from_arrays(flat, index.dimension)
    with atomic_write(out, "wb") as stream:
        pq.write_table(pa.table(columns), stream)


def _faiss(index: "FactIndex", out: Path) -> None:
    import faiss

    flat = faiss.IndexFlatIP(width_of(index.dimension))
    flat.add(pack(index.vectors))
    with atomic_write(out, "wb") as stream:
        stream.write(faiss.serialize_index(flat).tobytes())
    with atomic_write(out.with_suffix(".ids.txt")) as stream:
        stream.writelines(f"{name}\n" for name in index.ids)
