"""Writes bytes that are no text, half a character, and a last line without an end."""

import os

os.write(1, bytes(range(256)) + b"\n\xc3\n\x00\n" + b"half a li")
