"""Inputs that are almost right: pieces of good ones, cut, doubled, swapped, and with what parsers trip over."""

import re

_NUMBER = re.compile(rb"-?\d+")
EXTREMES = (
    b"0",
    b"-1",
    b"1",
    b"255",
    b"65536",
    b"4294967296",
    b"99999999999999999999",
    b"1e309",
    b"-0.0",
    b"NaN",
    b"9" * 5000,
)
HOSTILE = (
    b"\0", b"\xff\xfe", b"\xef\xbb\xbf", b"\xed\xa0\x80", "\u202e".encode(), "ﬁ".encode(), "İ".encode(), b"\r",
    b"\n\n", b"../", b"/etc/passwd", b"~", b"%s%n", b"null", b"true", b"[]", b"{}", b'""', b"''", b"[[[[", b"}}}}",
    b"((((", b"<", b">", b",", b"|", b"*", b"&a", b"*a", b"<<: *a", b"!!python/object:os.system", b"2001-99-99",
    b" not ", b" or ", b"\\u0000",
)  # fmt: skip


def mutated(rng, seeds, tokens=()):
    """A good input with one to six changes."""
    data = bytearray(rng.choice(seeds))
    for _ in range(rng.randint(1, 6)):
        rng.choice(_CHANGES)(rng, data, seeds, tokens)
    return bytes(data)


def _place(rng, data):
    return rng.randrange(len(data) + 1)


def _part(rng, data, most=40):
    start = _place(rng, data)
    return start, min(len(data), start + rng.randint(1, most))


def _flip(rng, data, seeds, tokens):
    if data:
        data[rng.randrange(len(data))] ^= 1 << rng.randrange(8)


def _cut(rng, data, seeds, tokens):
    start, end = _part(rng, data)
    del data[start:end]


def _truncate(rng, data, seeds, tokens):
    del data[_place(rng, data) :]


def _double(rng, data, seeds, tokens):
    start, end = _part(rng, data)
    at = _place(rng, data)
    data[at:at] = data[start:end] * rng.choice((1, 1, 2, 50))


def _splice(rng, data, seeds, tokens):
    other = rng.choice(seeds)
    start, end = _part(rng, other, 200)
    at = _place(rng, data)
    data[at:at] = other[start:end]


def _insert(rng, data, seeds, tokens):
    at = _place(rng, data)
    data[at:at] = rng.choice(tokens) if tokens and rng.random() < 0.6 else rng.choice(HOSTILE)


def _number(rng, data, seeds, tokens):
    found = list(_NUMBER.finditer(bytes(data)))
    if found:
        chosen = rng.choice(found)
        data[chosen.start() : chosen.end()] = rng.choice(EXTREMES)


def _garbage(rng, data, seeds, tokens):
    at = _place(rng, data)
    data[at:at] = rng.randbytes(rng.randint(1, 8))


_CHANGES = (_flip, _flip, _cut, _truncate, _double, _splice, _insert, _insert, _number, _garbage)
