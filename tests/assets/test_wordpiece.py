"""Spelling in word pieces: greedy, whole, and the same however a text is written."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from factlearn.assets.wordpiece import UNKNOWN, WordPieces, words

LETTERS = "abcde"
PIECES = [UNKNOWN, "[CLS]", *LETTERS, *(f"##{letter}" for letter in LETTERS), "ab", "abc", "##cd", "##bcd", "ea", "!"]
SPELLING = WordPieces(PIECES)
LATIN = st.text(st.characters(max_codepoint=0x24F))


@given(st.text(LETTERS, min_size=1, max_size=100))
def test_the_pieces_of_a_word_put_together_are_the_word_and_each_is_the_longest_that_fits(word):
    rest = word
    for number, piece in enumerate(SPELLING.spell(word)):
        mark = "##" if number else ""
        assert piece.startswith(mark)
        fitting = [end for end in range(1, len(rest) + 1) if mark + rest[:end] in PIECES]
        assert len(piece) - len(mark) == max(fitting)
        rest = rest[max(fitting) :]
    assert not rest


@given(st.text())
def test_every_text_is_spelled_in_pieces_of_the_vocabulary_and_an_unknown_word_is_one(text):
    pieces = SPELLING.spell(text)
    assert set(pieces) <= set(PIECES)
    assert pieces.count(UNKNOWN) <= len(words(text))


@given(st.text())
def test_words_hold_no_spaces_and_are_cut_no_further(text):
    found = words(text)
    assert words(" ".join(found)) == found
    assert not any(word != "".join(word.split()) for word in found)


@given(LATIN, st.sampled_from(" \t\n\u00a0\u3000\u2028"))
def test_kinds_of_space_and_characters_that_cannot_be_seen_change_nothing(text, space):
    assert words(text.replace(" ", space)) == words(text) == words(f"\u200b\x00{text}\ufffd")


@given(st.text("abcxyzäéîõü -!"))
def test_case_and_accents_change_nothing(text):
    assert words(text.upper()) == words(text) == words(text.translate(str.maketrans("äéîõü", "aeiou")))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", []),
        ("don't stop!", ["don", "'", "t", "stop", "!"]),
        ("T-shirt, $5", ["t", "-", "shirt", ",", "$", "5"]),
        ("“curly” – ‘quotes’…", ["“", "curly", "”", "–", "‘", "quotes", "’", "…"]),
        ("Zürich Straße", ["zurich", "straße"]),
        ("犬と猫", ["犬", "と", "猫"]),
        ("ガ", ["カ"]),
        ("ΟΔΟΣ", ["οδοσ"]),
        ("İstanbul", ["istanbul"]),
        ("½ ﬁ ™", ["½", "ﬁ", "™"]),
        ("\ud800x\u200by", ["xy"]),
    ],
)
def test_words_are_cut_as_the_reference_cuts_them(text, expected):
    """Hugging Face's tokenizers 0.22.2 with MiniLM's own file; lone surrogates it refuses."""
    assert words(text) == expected


def test_a_word_that_cannot_be_spelled_to_its_end_or_is_too_long_is_one_unknown_piece():
    assert SPELLING.spell("abz abc") == [UNKNOWN, "abc"]
    assert SPELLING.spell("a" * 100) == ["a", *["##a"] * 99]
    assert SPELLING.spell("a" * 101) == [UNKNOWN]
    assert SPELLING.spell("[UNK] [CLS]") == [UNKNOWN] * 6
