"""A program that holds a log's write lock until a line comes in: `python -m tests.faults.holder FILE SQL…`."""

from __future__ import annotations

import sys

import apsw


def main(path: str, *statements: str) -> None:
    """Run the statements, say so, and wait."""
    connection = apsw.Connection(path)
    for statement in statements:
        connection.execute(statement).fetchall()
    sys.stdout.write("held\n")
    sys.stdout.flush()
    sys.stdin.readline()
    connection.close()


if __name__ == "__main__":
    main(*sys.argv[1:])
