"""The sandbox walls one by one: a wall that the system refuses is not reported. `test_run_python` tests that they hold."""

from __future__ import annotations

import os
import resource
from collections.abc import Callable
from typing import Any

import pytest

from fleetlore.process import confined


class Libc:
    """A system that grants or refuses."""

    def __init__(self, *, unshare: int = 0, landlock: int = 6, restrict: int = 0, prctl: int = 0) -> None:
        self._unshare, self._landlock, self._restrict, self._prctl = unshare, landlock, restrict, prctl
        self.rules: list[bytes] = []

    def unshare(self, flags: int) -> int:
        return self._unshare

    def prctl(self, *_: int) -> int:
        return self._prctl

    def syscall(self, number: int, *arguments: Any) -> int:
        if number == confined._CREATE_RULES:
            if arguments[0] is None:
                return self._landlock
            self.rules.append(arguments[0])
            return 3
        return self._restrict if number == confined._RESTRICT else 0


def test_a_system_that_keeps_nobody_apart_says_so() -> None:
    assert confined._unshare_namespaces(Libc(unshare=-1)) is False  # type: ignore[arg-type]


def test_apart_it_runs_as_the_same_user_and_never_as_root(monkeypatch: pytest.MonkeyPatch) -> None:
    opened: list[str] = []

    def refuse(path: str, *_: Any) -> Any:
        opened.append(path)
        raise PermissionError(path)

    monkeypatch.setattr(confined, "open", refuse, raising=False)
    assert confined._unshare_namespaces(Libc()) is True  # type: ignore[arg-type]
    assert opened == ["/proc/self/setgroups", "/proc/self/uid_map", "/proc/self/gid_map"]


@pytest.mark.parametrize(("version", "size"), [(1, 8), (3, 8), (4, 16), (6, 24)])
def test_files_are_walled_off_by_the_rules_that_the_kernel_knows(version: int, size: int) -> None:
    libc = Libc(landlock=version)
    assert confined._restrict_files(libc, {}, has_network=False) is True  # type: ignore[arg-type]
    assert [len(rules) for rules in libc.rules] == [size]


@pytest.mark.parametrize("libc", [Libc(landlock=-1), Libc(landlock=0), Libc(prctl=-1), Libc(restrict=-1)])
def test_where_the_kernel_walls_nothing_off_that_is_not_claimed(libc: Libc) -> None:
    assert confined._restrict_files(libc, {}, has_network=False) is False  # type: ignore[arg-type]


def test_a_limit_is_never_above_what_the_user_may_have(monkeypatch: pytest.MonkeyPatch) -> None:
    hard = {resource.RLIMIT_CPU: resource.RLIM_INFINITY, resource.RLIMIT_NOFILE: 64, resource.RLIMIT_AS: 1}
    rationed: dict[int, tuple[int, int]] = {}

    def ration(kind: int, most: tuple[int, int]) -> None:
        if kind == resource.RLIMIT_AS:
            raise ValueError("not on this system")
        rationed[kind] = most

    monkeypatch.setattr(resource, "getrlimit", lambda kind: (0, hard[kind]))
    monkeypatch.setattr(resource, "setrlimit", ration)
    confined._apply_rlimits({"RLIMIT_CPU": 10, "RLIMIT_NOFILE": 1000, "RLIMIT_AS": 5})
    assert rationed == {resource.RLIMIT_CPU: (10, 10), resource.RLIMIT_NOFILE: (64, 64)}


def test_whether_processes_can_be_made_is_tried(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse() -> int:
        raise BlockingIOError("too many")

    monkeypatch.setattr(os, "fork", refuse)
    assert confined._can_fork() is False
    monkeypatch.setattr(os, "fork", lambda: 4711)
    monkeypatch.setattr(os, "waitpid", lambda pid, options: (pid, 0))
    assert confined._can_fork() is True


class Exit(Exception):
    """The process would be gone now."""


@pytest.mark.parametrize(("status", "code"), [(7 << 8, 7), (9, 128 + 9)], ids=["by a code", "by a signal"])
def test_it_ends_as_its_child_did_anybody_else_who_ends_before(monkeypatch: pytest.MonkeyPatch, status: int, code: int) -> None:
    ends = [(1, 0), (42, status)]
    closed: list[int] = []

    def leave(left_with: int) -> None:
        raise Exit(left_with)

    patches: dict[str, Callable[..., Any]] = {"close": closed.append, "wait": lambda: ends.pop(0), "_exit": leave}
    for name, patch in patches.items():
        monkeypatch.setattr(os, name, patch)
    try:
        with pytest.raises(Exit) as left:
            confined._exit_like_child(42)
    finally:
        monkeypatch.undo()
    assert left.value.args == (code,)
    assert closed == [0, 1, 2]
    assert os.WIFEXITED(status) is (code == 7)
