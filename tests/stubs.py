"""Stubs of servers that cannot be had: they say one thing to everybody."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from threading import Thread


@contextmanager
def announcing(greeting: bytes, *, first: bool) -> Iterator[int]:
    """A server that gives one answer: before it is asked (`first`), or to every request. Answers its port."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        Thread(target=_serve, args=(listener, greeting, first), daemon=True).start()
        yield listener.getsockname()[1]


def _serve(listener: socket.socket, greeting: bytes, first: bool) -> None:
    with suppress(OSError):
        while True:
            connection, _ = listener.accept()
            Thread(target=_answer, args=(connection, greeting, first), daemon=True).start()


def _answer(connection: socket.socket, greeting: bytes, first: bool) -> None:
    with suppress(OSError), connection:
        if first:
            connection.sendall(greeting)
        while asked := connection.recv(65536):
            if asked.startswith(b"CONNECT") or b"PING\r\n" in asked:
                connection.sendall(b"PONG\r\n")
            elif not first:
                connection.sendall(b"+OK\r\n" if b"INFO" not in asked.upper().replace(b"LIB", b"") else greeting)
