"""Arrays are read as numpy reads them, and anything else is refused."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import array_shapes, arrays

from factlearn.retrieval.folder.arrays import load_array

DTYPES = ("<f4", "<f8", "<f2", "<u8", "<i8", "|b1", "|u1")


@given(st.sampled_from(DTYPES).flatmap(lambda dtype: arrays(dtype, array_shapes(min_dims=0, max_dims=3))))
def test_what_numpy_saves_is_read_in_memory_and_mapped(tmp_path_factory, array):
    path = tmp_path_factory.getbasetemp() / "array.npy"
    np.save(path, array)
    for mapped in (False, True):
        read = load_array(path, mapped=mapped)
        assert (read.dtype, read.shape) == (array.dtype, array.shape)
        assert read.tobytes() == array.tobytes() == np.load(path).tobytes()


def test_an_empty_array_is_read(tmp_path):
    np.save(tmp_path / "a.npy", np.empty((0, 3), np.float32))
    assert load_array(tmp_path / "a.npy").shape == (0, 3)


DAMAGES = {
    "cut": lambda raw: raw[:-1],
    "longer": lambda raw: raw + b"\0",
    "another magic": lambda raw: b"\x92" + raw[1:],
    "another version": lambda raw: raw[:6] + b"\x02" + raw[7:],
    "empty": lambda raw: b"",
    "only a head": lambda raw: raw[:9],
    "more rows": lambda raw: raw.replace(b"(4, 3)", b"(5, 3)"),
    "rows without end": lambda raw: raw.replace(b"(4, 3), }" + b" " * 20, b"(4000000000000000000000, 3), }"[:29]),
    "another number": lambda raw: raw.replace(b"<f4", b"<f3"),
    "columns first": lambda raw: raw.replace(b"False", b"True "),
    "a call": lambda raw: raw.replace(b"(4, 3)", b"f(4,3)"),
}


@pytest.mark.parametrize("damage", DAMAGES)
def test_other_files_are_refused(tmp_path, damage):
    np.save(tmp_path / "a.npy", np.ones((4, 3), np.float32))
    raw = (tmp_path / "a.npy").read_bytes()
    damaged = DAMAGES[damage](raw)
    assert damaged != raw
    (tmp_path / "a.npy").write_bytes(damaged)
    for mapped in (False, True):
        with pytest.raises(ValueError, match=r"no array of numbers|its size"):
            load_array(tmp_path / "a.npy", mapped=mapped)


def test_objects_are_refused(tmp_path):
    np.save(tmp_path / "a.npy", np.array([{}], object), allow_pickle=True)
    with pytest.raises(ValueError, match="no array of numbers"):
        load_array(tmp_path / "a.npy")
