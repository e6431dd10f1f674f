"""Prompts that a coding agent keeps longer than the transcripts of their sessions."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import NamedTuple

from fleetlore.dialects.fields import EPOCH
from fleetlore.dialects.wire import Record
from fleetlore.events.envelope import Event
from fleetlore.events.ids import derive_id
from fleetlore.programs.sessions import USER_ACTOR, EventContext, project_name

DELETED = "transcript_deleted"
"""In the data of every event whose session has no transcript any more."""


class RememberedPrompt(NamedTuple):
    """One line of a prompt history."""

    context: EventContext
    words: str
    cwd: str | None = None


class PromptHistory(NamedTuple):
    """The file of a program's prompts."""

    file: str
    """Its name in the program's folder."""
    read: Callable[[Record], RememberedPrompt | None]
    """The prompt of a line; `None` for any other line."""


def start_id(context: EventContext) -> str:
    """The id of the start of a session without a transcript. It differs from that of a transcript, which may come back."""
    return derive_id(context.ORIGIN.dialect or "", f"history\0{context.run}".encode(errors="replace"))


def make_session_events(prompts: Iterable[RememberedPrompt]) -> list[Event]:
    """A session whose transcript is gone: its start, its prompts and its end, each marked."""
    ordered = sorted(prompts, key=lambda prompt: prompt.context.at or EPOCH)
    first, last = ordered[0], ordered[-1]
    data = {"program": first.context.PROGRAM, "cwd": first.cwd, "project": project_name(first.cwd), DELETED: True}
    events = [first.context.make_event("session.started", start_id(first.context), text=project_name(first.cwd), data=data)]
    for context, words, _ in ordered:
        id = derive_id(context.ORIGIN.dialect or "", f"history\0{context.run}\0{context.at}\0{words}".encode(errors="replace"))
        data = {"prompt": words, DELETED: True}
        events.append(context.make_event("prompt.submitted", id, text=words, data=data, actor=USER_ACTOR))
    ended = derive_id(last.context.ORIGIN.dialect or "", f"history\0{last.context.run}\0end".encode(errors="replace"))
    return [*events, last.context.make_event("session.ended", ended, text="transcript deleted", data={"reason": DELETED, DELETED: True})]
