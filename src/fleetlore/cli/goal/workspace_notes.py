"""Notes about a goal's workspace: what it lacks at the start, and how to merge the work at the end."""

from __future__ import annotations

import os
import shlex
from typing import TYPE_CHECKING

from fleetlore.cli.goal.lines import COMMAND, DIM, WARN, Line
from fleetlore.cli.terminal import sanitise_text

if TYPE_CHECKING:
    from collections.abc import Iterator

    from fleetlore.goal.workspace.handover import Handover, SourceChanges


def note_unseen_changes(beside: SourceChanges | None) -> Iterator[Line]:
    """Lines about files that the agent's worktree lacks."""
    if beside is not None and beside.uncommitted:
        many = _count_noun(beside.uncommitted, "uncommitted change")
        yield _format_note(
            f"{many} in {beside.top} {_is_or_are(beside.uncommitted)} not in its worktree, which is at the commit {beside.base[:7]}"
        )
    if beside is not None and beside.has_submodules:
        yield _format_note("submodules are empty in its worktree; fill them with `git submodule update --init`")


def _format_note(text: str) -> Line:
    return [("  note  ", WARN), (sanitise_text(text), DIM)]


def format_handover(work: Handover, *, is_over: bool = True) -> Iterator[Line]:
    """Where the work is; for a worktree, once the goal has ended, also commands to review and merge it."""
    yield [("the work: ", DIM), (sanitise_text(_describe_place(work)), "")]
    if not is_over or not work.branch or not (work.commits or work.uncommitted):
        return
    branch = shlex.quote(sanitise_text(work.branch))
    if work.uncommitted and work.path:
        folder = shlex.quote(sanitise_text(work.path))
        yield _format_command("commit it", f"(cd {folder} && git add --all && git commit -m 'Work of the goal')")
    if work.top is not None:
        here = _git_command(work.top)
        yield _format_command("review it", f"{here} diff HEAD...{branch}")
        yield _format_command("merge it", f"{here} merge {branch}")


def _describe_place(work: Handover) -> str:
    if not work.branch:
        return work.path or "not on this machine"
    branch = f"{_count_noun(work.commits, 'commit')} on the branch {work.branch}" if work.commits else f"the branch is {work.branch}"
    if work.uncommitted:
        return f"{_count_noun(work.uncommitted, 'file')} not committed, in {work.path}; {branch}"
    if not work.commits:
        return f"no new commits on the branch {work.branch}"
    return f"{branch}, in {work.path}" if work.path else branch


def _git_command(folder: str) -> str:
    here, there = os.path.realpath(os.getcwd()), os.path.realpath(folder)
    return "git" if here == there or here.startswith(f"{there}/") else f"git -C {shlex.quote(sanitise_text(folder))}"


def _format_command(what: str, command: str) -> Line:
    return [(f"  {what:<9}  ", DIM), (command, COMMAND)]


def _count_noun(number: int, noun: str) -> str:
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def _is_or_are(number: int) -> str:
    return "is" if number == 1 else "are"
