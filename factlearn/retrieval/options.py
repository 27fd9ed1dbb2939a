"""Checks of the options of a query."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from factlearn.errors import FactIndexError
from factlearn.retrieval.where import Filter, parse_filter

_PLAIN = (1.0, 1.0, 1.0)
_MOST_WEIGHT = 1e6


def filter_of(where: str | None) -> Filter | None:
    """Parse a filter; None if it is empty."""
    return None if where is None or not where.strip() else parse_filter(where)


def weights_of(weights: Sequence[float] | None) -> NDArray[np.float64]:
    """The weights of subject, predicate and object; 1 each if none are given."""
    values = np.asarray(_PLAIN if weights is None else weights, np.float64)
    if values.shape != (3,) or not ((values >= 0) & (values <= _MOST_WEIGHT)).all() or not values.any():
        raise FactIndexError(
            f"The weights must be three numbers from 0 to {_MOST_WEIGHT:,.0f}, not all 0, such as 1,2,1; not {weights}."
        )
    return values


def check_page(k: int, offset: int) -> None:
    """Refuse page sizes and offsets that make no sense."""
    if k < 1:
        raise FactIndexError(f"k must be at least 1, not {k}; it is the number of images to return.")
    if offset < 0:
        raise FactIndexError(f"The offset must be at least 0, not {offset}; it is the number of images to skip.")


def check_margin(margin: float) -> None:
    """Refuse margins of an exclusion that make no sense."""
    if not 0 <= margin <= 1:
        raise FactIndexError(f"The margin must be from 0 (exclude least) to 1 (exclude most), not {margin}.")
