"""What a program of a model tries from inside `run_python`: none of it reaches a file, a process or a socket of the operator."""

from __future__ import annotations

import os
import socket
from pathlib import Path

import pytest

from fleetlore.errors import NotStarted
from fleetlore.graph.tools.run_python import REQUIRED_WALLS
from tests.graph.tools.test_run_python import ran

LIBC = "import ctypes, os; libc = ctypes.CDLL(None, use_errno=True); "
ATTACKS = {
    "read a file": "print(open('{outside}/secret').read())",
    "read by a link": "import os; os.symlink('{outside}/secret', 'x'); print(open('x').read())",
    "read by a second name": "import os; os.link('{outside}/secret', 'x'); print(open('x').read())",
    "read by the folder of a process": "print(open('/proc/self/root{outside}/secret').read())",
    "read by a shell": "import os; os.execv('/bin/sh', ['sh', '-c', 'cat {outside}/secret'])",
    "read an inherited descriptor": "import os\nfor n in range(3, 64):\n    try: print(os.pread(n, 99, 0))\n    except OSError: pass",
    "read our environment": "import os; print(os.environ, open(f'/proc/{{os.getppid()}}/environ').read())",
    "read our environment, by number": "print(open('/proc/{pid}/environ').read())",
    "read our memory": "open('/proc/{pid}/mem', 'rb'); print('through')",
    "read our memory by a call of the system": LIBC
    + "b = ctypes.create_string_buffer(8); v = (ctypes.c_void_p * 2)(ctypes.addressof(b), 8);"
    " r = (ctypes.c_void_p * 2)(id(b), 8); print('through') if libc.process_vm_readv({pid}, v, 1, r, 1, 0) > 0 else 0",
    "trace us": LIBC + "print('through') if libc.ptrace(16, {pid}, 0, 0) == 0 else 0",
    "end us": "import os; os.kill({pid}, 15); print('through')",
    "stop everybody": "import os; os.kill(-1, 19)",
    "write a file": "open('{outside}/new', 'w'); print('through')",
    "empty a file": "import os; os.truncate('{outside}/secret', 0); print('through')",
    "change permissions": "import os; os.chmod('{outside}/secret', 0o777); os.listdir('{outside}'); print('through')",
    "move its folder away": "import os; os.rename(os.getcwd(), '{outside}/moved'); print('through')",
    "make a device": "import os; os.mknod('x', 0o600 | 0o060000, os.makedev(8, 0)); open('x', 'rb').read(1); print('through')",
    "mount in a namespace of its own": LIBC
    + "libc.unshare(0x10020000); print('through') if libc.mount(b'none', b'{outside}', b'tmpfs', 0, None) == 0 else 0",
    "raise its limits": "import resource as r; r.setrlimit(r.RLIMIT_CPU, (9999, 9999)); print('through')",
    "connect to a port": "import socket; socket.create_connection(('127.0.0.1', {port}), 2); print('through')",
    "send a datagram": "import socket; socket.socket(2, 2).sendto(b'x', ('127.0.0.1', {port})); print('through')",
    "connect to a socket in a folder": "import socket; s = socket.socket(1); s.connect('{outside}/socket'); print('through')",
    "connect to a socket without a folder": "import socket; s = socket.socket(1); s.connect('\\0fleetlore-{pid}'); print('through')",
    "become root": "import os; os.setuid(0); open('/etc/shadow'); print('through')",
}


@pytest.mark.parametrize("attack", ATTACKS.values(), ids=ATTACKS.keys())
async def test_a_program_reaches_nothing_outside(attack: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    outside, inside = tmp_path / "outside", tmp_path / "inside"
    outside.mkdir()
    inside.mkdir()
    (outside / "secret").write_text("hush")
    (outside / "secret").chmod(0o600)
    monkeypatch.setenv("SOME_API_KEY", "hush")
    with (
        socket.create_server(("127.0.0.1", 0)) as server,
        socket.socket(socket.AF_UNIX) as in_folder,
        socket.socket(socket.AF_UNIX) as without_folder,
    ):
        in_folder.bind(str(outside / "socket"))
        in_folder.listen()
        without_folder.bind(f"\0fleetlore-{os.getpid()}")
        without_folder.listen()
        code = attack.format(outside=outside, pid=os.getpid(), port=server.getsockname()[1])
        try:
            done = await ran(code, inside, needs=REQUIRED_WALLS)
        except NotStarted as refused:
            pytest.skip(str(refused))
    assert "through" not in done.stdout
    assert "hush" not in done.stdout
    assert (outside / "secret").read_text() == "hush"
    assert sorted(os.listdir(outside)) == ["secret", "socket"]


async def test_programs_that_need_no_socket_outside_work(tmp_path: Path) -> None:
    code = """
import asyncio, concurrent.futures, socket
async def work():
    return await asyncio.to_thread(sum, [1, 2])
one, other = socket.socketpair()
one.send(b"x")
print(asyncio.run(work()), other.recv(1))
"""
    assert (await ran(code, tmp_path)).stdout == "3 b'x'\n"
