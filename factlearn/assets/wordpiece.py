"""Spelling a text in BERT's word pieces, all in lower case and without accents.

A text is cut at spaces and around every punctuation mark and Chinese character. A word is spelled from its left by the
longest piece that fits, where pieces that continue a word are marked by `##`; a word that cannot be spelled, or is far
too long, is one unknown piece.
"""

import unicodedata
from collections.abc import Iterator, Sequence

UNKNOWN = "[UNK]"
CONTINUES = "##"
_LONGEST_WORD = 100
_CHINESE = (
    (0x4E00, 0x9FFF), (0x3400, 0x4DBF), (0x20000, 0x2A6DF), (0x2A700, 0x2B73F), (0x2B740, 0x2B81F), (0x2B920, 0x2CEAF),
    (0xF900, 0xFAFF), (0x2F800, 0x2FA1F),
)  # fmt: skip


def words(text: str) -> list[str]:
    """The words of a text, in lower case without accents; each punctuation mark is one."""
    spaced = "".join(_cleaned(character) for character in text)
    bare = (character for character in unicodedata.normalize("NFD", spaced) if unicodedata.category(character) != "Mn")
    lower = "".join(character.lower() for character in bare)  # one by one: a sigma at the end is as any other
    return "".join(f" {character} " if _is_punctuation(character) else character for character in lower).split()


def _cleaned(character: str) -> str:
    kind = unicodedata.category(character)
    if kind.startswith("Z") or character in "\t\n\r":
        return " "
    if kind in ("Cc", "Cf", "Co", "Cs") or character == "\ufffd":
        return ""
    is_chinese = any(first <= ord(character) <= last for first, last in _CHINESE)
    return f" {character} " if is_chinese else character


def _is_punctuation(character: str) -> bool:
    is_ascii_sign = "!" <= character <= "~" and not character.isalnum()
    return is_ascii_sign or unicodedata.category(character).startswith("P")


class WordPieces:
    """A vocabulary of pieces, in order."""

    def __init__(self, pieces: Sequence[str]) -> None:
        self.rows = {piece: row for row, piece in enumerate(pieces)}

    def spell(self, text: str) -> list[str]:
        """The pieces of a text."""
        return [piece for word in words(text) for piece in self._spelled(word)]

    def _spelled(self, word: str) -> list[str]:
        pieces = list(self._longest_first(word)) if len(word) <= _LONGEST_WORD else [UNKNOWN]
        return [UNKNOWN] if UNKNOWN in pieces else pieces

    def _longest_first(self, word: str) -> Iterator[str]:
        start = 0
        while start < len(word):
            mark = CONTINUES if start else ""
            fitting = (end for end in range(len(word), start, -1) if mark + word[start:end] in self.rows)
            end = next(fitting, 0)
            if not end:
                yield UNKNOWN
                return
            yield mark + word[start:end]
            start = end
