"""Runs in the child process: applies the sandbox that this system supports, reports its walls, and executes a program.

A wall is a restriction that holds: `files`, `network`, `processes`, `leftovers`. A system may support only some of them.
Standalone: it is run as a file, by a Python without our packages. `sandbox.py` builds the requests.
"""

import contextlib
import ctypes
import errno
import json
import os
import resource
import signal
import struct
import sys

_NEW_USER, _NEW_PID, _NEW_NET, _NEW_IPC = 0x10000000, 0x20000000, 0x40000000, 0x08000000
_NO_NEW_PRIVILEGES, _DIE_WITH_PARENT = 38, 1
_CREATE_RULES, _ADD_RULE, _RESTRICT = 444, 445, 446
_BENEATH_PATH = 1
_SET_SECCOMP, _AF_UNIX, _IO_URING_SETUP, _OTHER_NUMBERS = 22, 1, 425, 0x40000000
_SYSTEM_CALLS = {"x86_64": (0xC000003E, 41), "aarch64": (0xC00000B7, 198)}
"""How seccomp names an architecture, and the number of `socket` there."""
_EXECUTE, _WRITE, _READ, _LIST, _TRUNCATE, _DEVICE_CONTROL = 1 << 0, 1 << 1, 1 << 2, 1 << 3, 1 << 14, 1 << 15
_DEVICES = 1 << 6 | 1 << 9 | 1 << 11
"""Creating devices and sockets."""
_FILE_RIGHTS = _EXECUTE | _WRITE | _READ | _TRUNCATE | _DEVICE_CONTROL
"""The rights that a rule for a single file may name."""
_ALL_RIGHTS = (1 << 16) - 1
_RIGHTS = {
    "read": _READ,
    "read_write": _READ | _WRITE,
    "run": _EXECUTE | _READ | _LIST,
    "write": _ALL_RIGHTS & ~_EXECUTE & ~_DEVICES,
    "all": _ALL_RIGHTS,
}


def main() -> None:
    """Read the request from stdin, print the walls as JSON, then replace this process with the program."""
    request = json.load(sys.stdin)
    signal.alarm(request["longest"])  # in case our parent is gone by then; an alarm survives exec
    for name, text in request["files"].items():
        with open(name, "w", encoding="utf-8") as file:
            file.write(text)
    libc = ctypes.CDLL(None, use_errno=True) if sys.platform == "linux" else None
    walls = set()
    if libc and request["namespaces"] and _unshare_namespaces(libc):
        walls |= {"network", "leftovers"}
        _become_init_process(libc)
    if libc and _restrict_files(libc, request["paths"], has_network=request["has_network"]):
        walls |= {"files"}
    if not request["has_network"] and not (libc and _forbid_unix_sockets(libc)):
        walls.discard("network")  # a socket in a folder may lead to a program outside, such as Docker
    _apply_rlimits(request["limits"])
    if "RLIMIT_NPROC" in request["limits"] and not _can_fork():
        walls |= {"processes"}
    sys.stdout.write(json.dumps(sorted(walls)) + "\n")
    sys.stdout.flush()
    missing = set(request["needs"]) - walls
    if missing:
        sys.exit(125)
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.close(nothing)
    os.execve(request["argv"][0], request["argv"], dict(os.environ))


def _unshare_namespaces(libc: ctypes.CDLL) -> bool:
    """Own network namespace without a route, and own PID namespace, whose processes all end with its first one."""
    user, group = os.getuid(), os.getgid()
    if libc.unshare(_NEW_USER | _NEW_PID | _NEW_NET | _NEW_IPC) != 0:
        return False
    # Mapped to an unprivileged user, so that exec drops all privileges in the namespace.
    for path, line in (("setgroups", "deny"), ("uid_map", f"1000 {user} 1"), ("gid_map", f"1000 {group} 1")):
        with contextlib.suppress(OSError), open(f"/proc/self/{path}", "w") as file:
            file.write(line)
    return True


def _become_init_process(libc: ctypes.CDLL) -> None:
    """Fork the init process of the new PID namespace, and a child of it: when init ends, the kernel ends all others."""
    for _ in range(2):
        child = os.fork()
        if child:
            _exit_like_child(child)
        libc.prctl(_DIE_WITH_PARENT, signal.SIGKILL, 0, 0, 0)


def _exit_like_child(child: int) -> None:
    for stream in (0, 1, 2):
        os.close(stream)
    while True:
        pid, status = os.wait()
        if pid == child:
            break
    # Init cannot kill itself by a signal; like a shell it reports the signal in its exit code.
    os._exit(os.WEXITSTATUS(status) if os.WIFEXITED(status) else 128 + os.WTERMSIG(status))


def _restrict_files(libc: ctypes.CDLL, paths: "dict[str, str]", *, has_network: bool) -> bool:
    """Landlock: the named paths with the named rights and nothing else, no signals to others; TCP only with `has_network`."""
    version = libc.syscall(_CREATE_RULES, None, 0, 1)
    if version < 1:
        return False
    handled = (1 << (13 + (version >= 2) + (version >= 3) + (version >= 5))) - 1
    rules = struct.pack("QQQ", handled, 0 if has_network else 3, 3)[: 24 if version >= 6 else 16 if version >= 4 else 8]
    ruleset = libc.syscall(_CREATE_RULES, rules, len(rules), 0)
    for path, rights in paths.items():
        with contextlib.suppress(OSError):
            descriptor = os.open(path, os.O_PATH | os.O_CLOEXEC)
            allowed = _RIGHTS[rights] & handled & (_ALL_RIGHTS if os.path.isdir(path) else _FILE_RIGHTS)
            libc.syscall(_ADD_RULE, ruleset, _BENEATH_PATH, struct.pack("=Qi", allowed, descriptor), 0)
            os.close(descriptor)
    return bool(libc.prctl(_NO_NEW_PRIVILEGES, 1, 0, 0, 0) == 0 and libc.syscall(_RESTRICT, ruleset, 0) == 0)


def _forbid_unix_sockets(libc: ctypes.CDLL) -> bool:
    """Seccomp: no Unix sockets, which neither namespaces nor Landlock wall off, except unnamed pairs; nor a way around this filter."""
    architecture, socket_call = _SYSTEM_CALLS.get(os.uname().machine, (0, 0))
    if not architecture or struct.calcsize("P") != 8:
        return False
    load, equal, at_least, end = 0x20, 0x15, 0x35, 0x06
    program = (
        (load, 0, 0, 4),  # the architecture of the call
        (equal, 0, 6, architecture),
        (load, 0, 0, 0),  # its number
        (at_least, 4, 0, _OTHER_NUMBERS),
        (equal, 3, 0, _IO_URING_SETUP),
        (equal, 0, 3, socket_call),
        (load, 0, 0, 16),  # the first argument: the family
        (equal, 0, 1, _AF_UNIX),
        (end, 0, 0, 0x00050000 | errno.EPERM),
        (end, 0, 0, 0x7FFF0000),  # allowed
    )
    code = ctypes.create_string_buffer(b"".join(struct.pack("=HBBI", *instruction) for instruction in program))
    loaded = struct.pack("@HP", len(program), ctypes.addressof(code))
    return bool(libc.prctl(_NO_NEW_PRIVILEGES, 1, 0, 0, 0) == 0 and libc.prctl(_SET_SECCOMP, 2, loaded, 0, 0) == 0)


def _apply_rlimits(limits: "dict[str, int]") -> None:
    for name, limit in limits.items():
        kind = getattr(resource, name)
        hard = resource.getrlimit(kind)[1]
        limit = limit if hard == resource.RLIM_INFINITY else min(limit, hard)
        with contextlib.suppress(ValueError, OSError):  # macOS lacks some of them
            resource.setrlimit(kind, (limit, limit))


def _can_fork() -> bool:
    """Root is exempt from the process limit, and some systems do not enforce it."""
    try:
        child = os.fork()
    except OSError:
        return False
    if child == 0:
        os._exit(0)
    os.waitpid(child, 0)
    return True


if __name__ == "__main__":
    main()
