"""What may be asked beside a fact, checked."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from factlearn.errors import FactIndexError
from factlearn.retrieval.where import Filter, parse_filter

_PLAIN = (1.0, 1.0, 1.0)
_MOST_WEIGHT = 1e6


def filter_of(where: str | None) -> Filter | None:
    """A filter as it is written; none if nothing is."""
    return None if where is None or not where.strip() else parse_filter(where)


def weights_of(weights: Sequence[float] | None) -> NDArray[np.float64]:
    """Three weights; 1 each if none are given."""
    values = np.asarray(_PLAIN if weights is None else weights, np.float64)
    if values.shape != (3,) or not ((values >= 0) & (values <= _MOST_WEIGHT)).all() or not values.any():
        raise FactIndexError(
            f"The weights must be three numbers from 0 to {_MOST_WEIGHT:,.0f}, not all 0, as 1,2,1; not {weights}."
        )
    return values


def check_page(k: int, offset: int) -> None:
    """Refuse a page that cannot be."""
    if k < 1:
        raise FactIndexError(f"k must be at least 1, not {k}; it is how many images to return.")
    if offset < 0:
        raise FactIndexError(f"The offset must be at least 0, not {offset}; it is how many images to pass over.")
