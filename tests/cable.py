"""A cable between a client and a server that can be cut: a TCP proxy on the loopback."""

from __future__ import annotations

import socket
from contextlib import suppress
from threading import Lock, Thread
from typing import Self


class Cable:
    """Carries bytes both ways until it is cut; new connections work again at once, unless it is unplugged."""

    def __init__(self, port: int) -> None:
        self._to = port
        self._lock = Lock()
        self._open: list[socket.socket] = []
        self._plugged = True
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]

    def __enter__(self) -> Self:
        Thread(target=self._accept, daemon=True).start()
        return self

    def __exit__(self, *error: object) -> None:
        self._listener.close()
        self.unplug()

    def cut(self) -> int:
        """Break every connection; answers how many there were."""
        with self._lock:
            ends, self._open = self._open, []
        for end in ends:
            with suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)
            end.close()
        return len(ends) // 2

    def unplug(self) -> None:
        """Break every connection, and let no new one through."""
        self._plugged = False
        self.cut()

    def plug_in(self) -> None:
        """Let connections through again."""
        self._plugged = True

    def _accept(self) -> None:
        while True:
            try:
                near, _ = self._listener.accept()
            except OSError:
                return
            try:
                far = socket.create_connection(("127.0.0.1", self._to))
            except OSError:
                near.close()
                continue
            with self._lock:
                if not self._plugged:
                    near.close()
                    far.close()
                    continue
                self._open += (near, far)
            for source, sink in ((near, far), (far, near)):
                Thread(target=self._carry, args=(source, sink), daemon=True).start()

    @staticmethod
    def _carry(source: socket.socket, sink: socket.socket) -> None:
        with suppress(OSError):
            while data := source.recv(65536):
                sink.sendall(data)
        for end in (source, sink):
            with suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)
