"""What comes out of a pipe in pieces of any size gives the same lines."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from fleetlore.process.run import LineBuffer, OutputLine, TailBuffer, clean_output

PIECES = st.lists(st.binary(max_size=12) | st.sampled_from([b"\n", b"\n\n", b"ab\nc", b"x" * 30]), max_size=20)


def cut(pieces: list[bytes], longest: int) -> list[OutputLine]:
    lines = LineBuffer(longest)
    return [line for piece in pieces for line in lines.feed(piece)] + list(lines.flush())


@given(PIECES, st.integers(1, 40))
def test_any_cutting_into_pieces_gives_the_same_lines(pieces: list[bytes], longest: int) -> None:
    *whole, last = b"".join(pieces).split(b"\n")
    expected = [*whole, last] if last else whole
    assert cut(pieces, longest) == [OutputLine(text[:longest], is_cut=len(text) > longest) for text in expected]


@given(PIECES, st.integers(1, 40))
def test_of_anything_the_same_end_is_kept(pieces: list[bytes], most: int) -> None:
    tail = TailBuffer(most)
    for piece in pieces:
        tail.feed(piece)
    assert tail.decode_text() == clean_output(b"".join(pieces)[-most:]).strip()


@given(st.binary())
def test_whatever_it_was_it_becomes_readable(raw: bytes) -> None:
    assert all(character.isprintable() or character in "\t\n" or ord(character) > 0x9F for character in clean_output(raw))


def test_colours_titles_and_half_characters_are_left_out() -> None:
    assert clean_output(b"\xa9\x1b[1;31mred\x1b[0m \x1b]0;title\x07plain\r\n\tand\x00 more") == "red plain\n\tand more"
