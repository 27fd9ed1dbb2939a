import os
import pickle
import resource
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import array_shapes, arrays

from factlearn.assets.unpickle import load_arrays
from factlearn.errors import AssetError


class _Calls:
    """Pickles as a call of any function with any arguments."""

    def __init__(self, function: Any, *arguments: Any) -> None:
        self.call = (function, arguments)

    def __reduce__(self) -> Any:
        return self.call


@pytest.mark.parametrize("protocol", range(6))
def test_a_pickle_that_calls_os_system_is_refused_and_runs_nothing(tmp_path: Path, protocol: int) -> None:
    marker = tmp_path / "ran"
    path = tmp_path / "evil.ckpt"
    path.write_bytes(pickle.dumps({"kernel": _Calls(os.system, f"touch {marker}")}, protocol))
    with pytest.raises(AssetError, match=r"evil\.ckpt was refused: it names \w+\.system"):
        load_arrays(path)
    assert not marker.exists()


@pytest.mark.parametrize(
    "function", [eval, exec, getattr, __import__, open, np.load, np.fromfile, np.frombuffer, pickle.loads]
)
def test_no_other_callable_is_admitted(tmp_path: Path, function: Any) -> None:
    path = tmp_path / "evil.ckpt"
    path.write_bytes(pickle.dumps(_Calls(function, "1"), 4))
    with pytest.raises(AssetError, match="was refused"):
        load_arrays(path)


def test_references_outside_the_file_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "evil.ckpt"
    path.write_bytes(b"Pelsewhere\n.")
    with pytest.raises(AssetError, match="outside itself"):
        load_arrays(path)


@given(
    array=arrays(st.sampled_from([np.float32, np.float64, np.int64, np.bool_]), array_shapes()),
    protocol=st.sampled_from([3, 4]),
    fortran=st.booleans(),
)
def test_arrays_come_back_as_they_were(
    tmp_path_factory: pytest.TempPathFactory, array: np.ndarray, protocol: int, fortran: bool
) -> None:
    tree = {"layer": {"kernel": np.asfortranarray(array) if fortran else array, "name": "x", "numbers": [1, 2.5]}}
    path = tmp_path_factory.mktemp("pickles") / "good.ckpt"
    path.write_bytes(pickle.dumps(tree, protocol))
    back = load_arrays(path)
    np.testing.assert_array_equal(back["layer"]["kernel"], array)
    assert back["layer"]["numbers"] == [1, 2.5]


def test_old_and_new_names_of_numpys_module_are_the_same(tmp_path: Path) -> None:
    new = pickle.dumps(np.arange(3.0), 3)
    for module in (b"numpy.core.multiarray", b"numpy._core.multiarray"):
        path = tmp_path / "a.ckpt"
        path.write_bytes(new.replace(b"numpy._core.multiarray", module).replace(b"numpy.core.multiarray", module))
        assert load_arrays(path).tolist() == [0.0, 1.0, 2.0]


def test_a_damaged_or_missing_pickle_is_an_asset_error(tmp_path: Path) -> None:
    whole = pickle.dumps(np.arange(100.0), 4)
    path = tmp_path / "cut.ckpt"
    for length in range(len(whole)):
        path.write_bytes(whole[:length])
        with pytest.raises(AssetError, match=r"cut\.ckpt"):
            load_arrays(path)
    with pytest.raises(AssetError, match="cannot be read"):
        load_arrays(tmp_path / "none.ckpt")


def test_a_pickle_cannot_take_memory_by_numbers_or_grow_by_names(tmp_path: Path) -> None:
    """Found by `python -m tests.fuzz`: the number under which a value is remembered was a size in C."""
    path = tmp_path / "forged.ckpt"
    path.write_bytes(b"\x80\x04}r\x00\x00\x00\x0c.")  # remembered as number 200 million: 3 GB in C
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    assert load_arrays(path) == {}
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 100_000  # kB
    levels = b"".join(b"]q%c(h%ch%ce" % (n, n - 1, n - 1) for n in range(1, 60))
    path.write_bytes(b"\x80\x04]q\x00" + levels + b".")  # each list names the one before it twice
    load_arrays(path)
