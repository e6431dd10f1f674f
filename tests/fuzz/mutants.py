"""What is fed to a reader: valid samples with a few things changed, and one thing repeated until it is long."""

from __future__ import annotations

import re
from collections.abc import Sequence

from hypothesis import strategies as st

_token = re.compile(rb"\w+|\s|[^\w\s]")

PIECES = [
    *(b"", b"\0", b"\xff\xfe", b"\xed\xa0\x80", b"\\ud800", b"\n", b"\r\n", b"\x85", "\u2028".encode(), b"\x1b[31m", "\u202e".encode()),
    *(b'"', b"'", b'"""', b"'''", b"`", b"\\", b"(", b"[", b"{", b"]", b"}", b"<", b"--", b"/*", b"#", b"%", b"%00", b"%zz", b"${", b"$("),
    *(b"://", b"[::1", b"@", b"?", b"&", b"=", b":", b",", b"*", b"**", b"..", b"/", b"~", b"~nobody/x", b"-", b"|", b"!!python/name:os"),
    *(b"null", b"true", b"[]", b"{}", b'""', b"-1", b"0", b"1e400", b"nan", b"inf", b"9" * 30, b"9" * 5000, b"0x" + b"f" * 300, b"1_0"),
    *(b"0001-01-01T00:00:00+14:00", b"9999-12-31T23:59:59.999999-23:59", b"2026-02-30", b"2026-01-01", b"00:00", b"1979-05-27T07:32:00Z"),
    *(b"999999999w", b"9" * 12 + b"h", b"a" * 300, b"[" * 3000, b'{"a":' * 3000, b"(" * 3000, b"a = " + b"[" * 3000, b"&a [*a]", b"<<: *a"),
    *(b"? {a: b}\n: c", b"- - - -", b"~: 1", b"\xe2\x98\x83", "é😀".encode(), "İ".encode(), "²".encode(), "٣".encode()),
]
"""What readers stumble over, whatever they read."""


@st.composite
def mutants(draw: st.DrawFn, samples: Sequence[bytes]) -> bytes:
    """A sample of which one to three stretches of words were replaced by something else: a piece, words of a sample, or any bytes."""
    words = _token.findall(draw(st.sampled_from(samples)))
    for _ in range(draw(st.integers(1, 3))):
        start = draw(st.integers(0, len(words)))
        end = start + draw(st.integers(0, 4))
        words[start:end] = [draw(st.sampled_from(PIECES) | _stretches(draw(st.sampled_from(samples))) | st.binary(max_size=4))]
    return b"".join(words)


@st.composite
def _stretches(draw: st.DrawFn, sample: bytes) -> bytes:
    words = _token.findall(sample)
    start = draw(st.integers(0, len(words)))
    return b"".join(words[start : start + draw(st.integers(0, 12))])


@st.composite
def long_ones(draw: st.DrawFn, samples: Sequence[bytes], size: int) -> bytes:
    """A sample in which a few words are there again and again, up to a size."""
    words = draw(st.sampled_from(samples).map(_token.findall).filter(bool))
    start = draw(st.integers(0, len(words) - 1))
    end = start + draw(st.integers(1, 6))
    stretch = b"".join(words[start:end]) + draw(st.sampled_from([b"", b" ", b"\n", b",", b"(", b"[", b'"', b"*"]))
    return b"".join(words[:start]) + stretch * (size // max(1, len(stretch))) + b"".join(words[end:])
