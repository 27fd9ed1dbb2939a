"""An answer is whole or an error: the images that a server answers from are counted before and after each answer.

A server answers without an error while it has only a part of a collection: one that lost writes when it was killed, one
that is loading after a restart, a cluster that lost a node. The record knows how many images there are, or between
which numbers a write in progress moves; if the count is another one, the answer is asked for again until the time limit
of the address has passed. The count comes from the same server with the same consistency as the answer, and a server
needs seconds to lose or load a part, so two right counts enclose a whole answer. A right count of less than half a
second ago serves as the first.
"""

import math
import time
from collections.abc import Callable
from typing import TypeVar

from factlearn.errors import FactIndexError
from factlearn.progress import say
from factlearn.retrieval.milvus.record import Head, RecordStore

Answer = TypeVar("Answer")
_PAUSES = (0.1, 2.0)
_RECENT = 0.5  # seconds
_SILENT = 3.0  # seconds before it is said what is waited for


class Guard:
    """The number of images that the server answers from, compared with the record.

    Args:
        records: where the record is.
        head: the state that was opened.
        fixed: whether no other process can have changed it.
    """

    def __init__(self, records: RecordStore, head: Head, *, fixed: bool = False) -> None:
        self._records = records
        self._head = head
        self._fixed = fixed
        self._right = -math.inf  # when the count was last right
        self._collection = records.connection.address.collection

    def count(self, *, strong: bool = False) -> int:
        """The number of images, once all are there.

        Raises:
            FactIndexError: if they are not there within the time limit.
        """
        return self._waited(lambda: self._counted(strong=strong))

    def whole(self, ask: Callable[[], Answer]) -> Answer:
        """What `ask` finds, if all images were there before and after.

        Raises:
            FactIndexError: if they are not there within the time limit.
        """

        def asked() -> tuple[int | None, Answer | None]:
            recent = time.monotonic() - self._right < _RECENT
            wrong = None if recent else self._counted()[0]
            found = ask() if wrong is None else None
            return (self._counted()[0] if wrong is None else wrong), found

        found: Answer = self._waited(asked)  # type: ignore[assignment]
        return found

    def _counted(self, *, strong: bool = False) -> tuple[int | None, int]:
        """The number of images if it is a wrong one, and the number in any case."""
        began = time.monotonic()
        count = self._records.connection.count(self._collection, strong=strong)
        if not self._fixed and not self._head.allows(count):
            self._head = self._records.head()  # others may have changed the index
        if not self._head.allows(count):
            return count, count
        self._right = began
        return None, count

    def _waited(self, attempt: Callable[[], tuple[int | None, Answer]]) -> Answer:
        """The result of an attempt that met no wrong count."""
        address = self._records.connection.address
        began, told = time.monotonic(), False
        pause, longest = _PAUSES
        while True:
            wrong, found = attempt()
            if wrong is None:
                return found
            waited = time.monotonic() - began
            if address.file or waited + pause > address.timeout:
                raise self._incomplete(wrong)
            if waited > _SILENT and not told:
                told = True
                say(f"{address.place}: waiting for the server, which has {wrong:,} of {self._head.count:,} images")
            time.sleep(pause)
            pause = min(2 * pause, longest)

    def _incomplete(self, count: int) -> FactIndexError:
        place, head = self._records.connection.address.place, self._head
        least, most = (head.least, head.most) if head.writing else (head.count, head.count)
        expected = f"{least:,}" if least == most else f"{least:,} to {most or 'more'}"
        return FactIndexError(
            f"{place} answers from {count:,} images instead of {expected}: the server is still loading them, has lost "
            "some, or another program changed them; wait and try again, or accept what is there with "
            "`factlearn index refresh --policy repair` and add the rest again."
        )
