"""The sums that closed forms need: enough for every readout, and nothing of any single image.

    totals[f]  = sum of [h, 1] over the images of label f
    scatter[g] = sum of (h - mean)(h - mean)^T over the images of all labels of group g

h are features; a label is a fact or a class; a group is the set of units that its facts have, since a fact without an
object says nothing about the object's output. Targets are the same for all images of a label, so that both the ridge
onto word vectors and the one onto indicators follow. Sums add: images can be added in any order, taken out again, and
the sums of two runs put together. One triangle of the scatter is kept, in float32; it is centred first, because the
features' common offset would otherwise use up float32's digits. Everything is computed in float64.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field

import torch
from torch import Tensor

from factlearn import processes
from factlearn.errors import ModelError

WIDE = torch.float64


@dataclass
class Moments:
    """Raw second moments of some labels' images, a 1 appended to the features.

    Attributes:
        gram: sum of [h, 1][h, 1]^T.
        rows: for each label the sum of [h, 1].
    """

    gram: Tensor
    rows: Tensor

    @property
    def counts(self) -> Tensor:
        """The number of images of each label."""
        return self.rows[:, -1]

    def plus(self, other: "Moments", weight: float) -> "Moments":
        """The moments with those of other images added, each counted `weight` times."""
        return Moments(self.gram + weight * other.gram, self.rows + weight * other.rows)


@dataclass
class Sums:
    """Sums over images by label; labels are numbered from 0.

    Attributes:
        totals: [labels, features + 1], float64; the last column counts images.
        groups: the group of each label.
        scatter: the packed lower triangle of each group's centred second moments.
    """

    totals: Tensor = field(default_factory=lambda: torch.zeros(0, 0, dtype=WIDE))
    groups: Tensor = field(default_factory=lambda: torch.zeros(0, dtype=torch.int64))
    scatter: dict[int, Tensor] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self.totals)

    @property
    def count(self) -> int:
        """The number of images."""
        return int(self.totals[:, -1].sum()) if len(self) else 0

    def extend(self, groups: Tensor, width: int) -> None:
        """Make room for labels, whose groups are given for all of them; those that exist keep theirs.

        Raises:
            ModelError: if the features have another length than those before.
        """
        if len(self) and self.totals.shape[1] != width + 1:
            raise ModelError(f"The sums are of {self.totals.shape[1] - 1} features, not of {width}; train again.")
        new = len(groups) - len(self)
        if new > 0:
            empty = torch.zeros(new, width + 1, dtype=WIDE)
            self.totals = torch.cat([self.totals, empty]) if len(self) else empty
            self.groups = torch.cat([self.groups, groups[-new:].cpu().to(torch.int64)])

    def add(self, pairs: Iterable[tuple[Tensor, Tensor]], *, sign: int = 1) -> None:
        """Add images, as batches of features and the labels' numbers; `sign=-1` takes them out again.

        Of several processes that learn together, each has other images; all get the sums over all of them.
        """
        raw: dict[int, Tensor] = {}
        before = {group: self._total(group) for group in self.scatter}
        if not processes.first():  # what was there before counts once
            self.totals, before = torch.zeros_like(self.totals), {}
        for features, numbers in pairs:
            rows, labels = with_one(features.cpu().to(WIDE)), numbers.cpu()
            self.totals.index_add_(0, labels, rows, alpha=sign)
            for group in self.groups[labels].unique().tolist():
                chosen = rows[self.groups[labels] == group]
                if group not in raw:
                    raw[group] = self._raw(group, before)
                raw[group].addmm_(chosen[:, :-1].T, chosen[:, :-1], alpha=sign)
        if processes.count() > 1:
            self._add_up(raw, before)
        for group, square in raw.items():
            total = self._total(group)
            if total[-1] > 0:
                self.scatter[group] = packed(_uncentre(square, total, -1))
            else:
                self.scatter.pop(group, None)

    def _raw(self, group: int, before: dict[int, Tensor]) -> Tensor:
        """The raw second moments of the images of a group that were there before, with these totals."""
        square = _square(self.totals.shape[1] - 1)
        if group in before:
            square += _uncentre(unpacked(self.scatter[group]), before[group], 1)
        return square

    def _add_up(self, raw: dict[int, Tensor], before: dict[int, Tensor]) -> None:
        """Add the other processes' totals and raw moments, of labels and groups that only they may have seen."""
        labels, width = processes.largest(torch.tensor(self.totals.shape)).tolist()
        totals, groups = torch.zeros(labels, width, dtype=WIDE), torch.zeros(labels, dtype=torch.int64)
        totals[: len(self), : self.totals.shape[1]] = self.totals
        groups[: len(self)] = self.groups
        self.totals, self.groups = processes.total(totals), processes.largest(groups)
        known = self.groups.unique()
        changed = processes.largest(torch.tensor([int(group in raw) for group in known.tolist()]))
        for group in known[changed > 0].tolist():
            square = raw[group] if group in raw else self._raw(group, before)
            processes.add_up(square)
            raw[group] = square

    def moments(self, chosen: Tensor | None = None) -> Moments:
        """The raw moments of the labels of some groups (a mask over labels that is constant on groups), or of all."""
        chosen = torch.ones(len(self), dtype=torch.bool) if chosen is None else chosen
        width = self.totals.shape[1]
        rows = torch.where(chosen[:, None], self.totals, 0.0)
        gram = _square(width)
        for group in self.groups[chosen].unique().tolist():
            if group in self.scatter:
                gram[:-1, :-1] += unpacked(self.scatter[group])
                _uncentre(gram[:-1, :-1], self._total(group), 1)
        gram[-1] = rows.sum(0)
        gram[:, -1] = gram[-1]
        return Moments(gram, rows)

    def without(self, labels: Iterable[int]) -> "Sums":
        """The sums with these labels dropped and the others renumbered.

        Images of theirs that were not taken out before stay in the second moments, as images of no label.
        """
        dropped = set(labels)
        kept = [label for label in range(len(self)) if label not in dropped]
        rest = Sums(self.totals[kept], self.groups[kept])
        for group, triangle in self.scatter.items():
            total = rest._total(group)
            if total[-1] > 0:
                moved = total[-1] != self._total(group)[-1]
                raw = _uncentre(unpacked(triangle), self._total(group), 1) if moved else None
                rest.scatter[group] = triangle if raw is None else packed(_uncentre(raw, total, -1))
        return rest

    def joined(self, other: "Sums", places: Tensor) -> "Sums":
        """The sums of both; `places` has the number that each label of the other gets here."""
        size = max(len(self), int(places.max()) + 1) if len(places) else len(self)
        groups = torch.zeros(size, dtype=torch.int64)
        groups[: len(self)] = self.groups
        groups[places] = other.groups
        totals = torch.zeros(size, max(self.totals.shape[1], other.totals.shape[1]), dtype=WIDE)
        if len(self):
            totals[: len(self)] = self.totals
        totals.index_add_(0, places, other.totals)
        both = Sums(totals, groups)
        for group in sorted({*self.scatter, *other.scatter}):
            square = _square(totals.shape[1] - 1)
            for part in (self, other):
                if group in part.scatter:
                    square += unpacked(part.scatter[group])
                    _uncentre(square, part._total(group), 1)
            both.scatter[group] = packed(_uncentre(square, both._total(group), -1))
        return both

    def state(self) -> dict[str, Tensor]:
        """Named tensors to be kept; none if no image was added."""
        if not len(self):
            return {}
        triangles = {f"scatter.{group}": triangle for group, triangle in self.scatter.items()}
        return {"totals": self.totals, "groups": self.groups, **triangles}

    @classmethod
    def of_state(cls, state: dict[str, Tensor]) -> "Sums":
        """The sums that `state` gave."""
        if "totals" not in state:
            return cls()
        start = "scatter."
        scatter = {int(name.removeprefix(start)): each for name, each in state.items() if name.startswith(start)}
        return cls(state["totals"], state["groups"], scatter)

    def _total(self, group: int) -> Tensor:
        return self.totals[self.groups == group].sum(0)


def with_one(features: Tensor) -> Tensor:
    """Features with a 1 appended, for the bias."""
    return torch.cat([features, torch.ones_like(features[:, :1])], dim=1)


def packed(square: Tensor, dtype: torch.dtype = torch.float32) -> Tensor:
    """The lower triangle of a symmetric matrix, row by row."""
    return square[_lower(len(square))].to(dtype)


def unpacked(triangle: Tensor) -> Tensor:
    """The symmetric matrix, in float64, whose lower triangle `packed` gave."""
    size = int(((8 * len(triangle) + 1) ** 0.5 - 1) / 2 + 0.5)
    square = _square(size)
    square[_lower(size)] = triangle.to(WIDE)
    square += square.tril(-1).T
    return square


def _lower(size: int) -> Tensor:
    return torch.ones(size, size, dtype=torch.bool).tril_()


def _square(size: int) -> Tensor:
    return torch.zeros(size, size, dtype=WIDE)


def _uncentre(square: Tensor, total: Tensor, sign: int) -> Tensor:
    """Centred moments of images with this total made raw (`sign=1`), or raw ones centred (-1), in place."""
    if total[-1] > 0:
        square.addr_(total[:-1], total[:-1], alpha=sign / float(total[-1]))
    return square
