"""Damaging the files of an index folder, and everything the index says in return."""

import json

import numpy as np

from factlearn.errors import FactIndexError

COPIES = ("index.copy.json", "items.copy.arrow", "removed.copy.npy")


def files_of(index):
    return sorted(file for file in index.path.rglob("*") if file.is_file() and file.name != "lock")


def answers(index):
    """All that an index says, in many ways."""
    vector = np.linspace(-1, 1, 24, dtype=np.float32).reshape(3, 8)
    hits = [
        index.query("<person, riding, *>", k=200),
        index.query("<woman, holding, golf>", weights=(1, 2, 0.5), offset=3),
        index.query("<*, *, bike>", where="split = 'test' and vendor is null"),
        index.query("<dog>", where="year > 2000 or id like 'late/%'"),
        index.query("<dog>", also=["<*, riding>"], threshold=-3),
        index.query("<person>", without=["<*, riding, bike>"]),
        index.similar(vector, k=7),
        *index.query_many(["<dog>", "<woman>"], where="model = 'm2'"),
    ]
    shown = [(str(each.fact), each.score) for each in index.facts_of(vector)]
    stored = [dict(item) for item in index.items()]
    about = [list(index.models), [str(fact) for fact in index.facts], len(index), index.dimension]
    return json.dumps([[hit.to_json() for found in hits for hit in found], shown, stored, about])


def damage(content, rng):
    """One bit flipped, or the end cut off."""
    if rng.random() < 0.3:
        return content[: rng.integers(len(content))]
    changed = bytearray(content)
    changed[rng.integers(len(content))] ^= 1 << int(rng.integers(8))
    return bytes(changed)


def attempt(action):
    """What an action gives, or the error that refuses it."""
    try:
        return action(), None
    except FactIndexError as error:
        return None, error
