"""Prints more than anybody wants. `flood.py line|lines|stderr BYTES`, or `flood.py forever`."""

import os
import sys


def flood(fd: int, piece: bytes, size: int) -> None:
    while size > 0:
        size -= os.write(fd, piece[:size])


match sys.argv[1]:
    case "line":
        flood(1, b"x" * 65_536, int(sys.argv[2]))
        os.write(1, b"\nafter\n")
    case "lines":
        flood(1, b"\n" * 65_536, int(sys.argv[2]))
    case "stderr":
        flood(2, b"e" * 65_536, int(sys.argv[2]))
        os.write(2, "\n\x1b[31mthe last wörds\x1b[0m\x07 api_key=hush-hush-4711-abcdef\n".encode())
    case "forever":
        while True:
            os.write(1, b"and on\n" * 1000)
