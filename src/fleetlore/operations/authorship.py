"""Line authorship in the formats of other tools: git-ai's notes (`refs/notes/ai`) and Agent Trace records, read and written. Pure."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from hashlib import sha256
from typing import Any, Literal, NamedTuple
from uuid import UUID

from fleetlore.dialects.fields import as_object

SCHEMA = "authorship/3.0.0"
_attested = re.compile(r"  (\S{1,200}) ([\d,-]{1,10000})")
_range = re.compile(r"(\d{1,9})(?:-(\d{1,9}))?")
MOST_RECORDS = 100_000


class AttestedRange(NamedTuple):
    """Lines of a file at a commit that another tool says an agent wrote."""

    path: str
    first: int
    last: int
    tool: str
    model: str = ""
    session: str = ""


class WrittenRange(NamedTuple):
    """Lines of a file at a commit with the session that wrote them; without one a person did."""

    path: str
    first: int
    last: int
    session: str
    tool: str
    model: str
    person: str


def read_git_ai_note(note: str) -> Iterator[AttestedRange]:
    """The lines that a git-ai note gives to agents. What cannot be read is left out."""
    attestations, _, metadata = note.partition("\n---\n")
    try:
        known = as_object(json.loads(metadata))
    except (ValueError, RecursionError):
        return
    path = ""
    for line in attestations.split("\n"):
        found = _attested.fullmatch(line)
        if found is None:
            path = line.strip().strip('"')
            continue
        key = found[1].partition("::")[0]
        about = as_object(as_object(known.get("sessions")).get(key)) or as_object(as_object(known.get("prompts")).get(key))
        agent = as_object(about.get("agent_id"))
        if not agent:  # a person (`h_…`), or nobody who is described
            continue
        tool, model, session = (str(agent.get(field) or "")[:200] for field in ("tool", "model", "id"))
        for first, last in _range.findall(found[2]):
            yield AttestedRange(path, int(first), int(last or first), tool, model, session)


def write_git_ai_note(commit: str, ranges: Sequence[WrittenRange], version: str) -> str:
    """The note of a commit: `git notes --ref=ai add -F - COMMIT` stores it."""
    lines: list[str] = []
    sessions: dict[str, Any] = {}
    humans: dict[str, Any] = {}
    for path in dict.fromkeys(each.path for each in ranges):
        lines.append(f'"{path}"' if " " in path else path)
        spans: dict[str, list[str]] = {}
        for each in (each for each in ranges if each.path == path):
            if each.session:
                key = f"s_{sha256(each.session.encode()).hexdigest()[:14]}"
                sessions[key] = {"agent_id": {"tool": each.tool, "id": each.session, "model": each.model}, "human_author": each.person}
            else:
                key = f"h_{sha256(each.person.encode()).hexdigest()[:14]}"
                humans[key] = {"author": each.person}
            spans.setdefault(key, []).append(f"{each.first}-{each.last}" if each.last > each.first else str(each.first))
        lines += [f"  {key} {','.join(parts)}" for key, parts in spans.items()]
    about = {
        "schema_version": SCHEMA,
        "git_ai_version": f"fleetlore/{version}",
        "base_commit_sha": commit,
        "prompts": {},
        "sessions": sessions,
        "humans": humans,
    }
    return "\n".join([*lines, "---", json.dumps(about, indent=2, ensure_ascii=False)]) + "\n"


def read_agent_traces(text: str, revision: str) -> Iterator[AttestedRange]:
    """The lines that Agent Trace records (JSON lines) give to agents at a revision."""
    for raw in text.splitlines()[:MOST_RECORDS]:
        try:
            record = as_object(json.loads(raw))
        except (ValueError, RecursionError):
            continue
        if as_object(record.get("vcs")).get("revision") != revision:
            continue
        tool = str(as_object(record.get("tool")).get("name") or "")[:200]
        for file in map(as_object, _as_list(record.get("files"))):
            for conversation in map(as_object, _as_list(file.get("conversations"))):
                for each in map(as_object, _as_list(conversation.get("ranges"))):
                    who = as_object(each.get("contributor")) or as_object(conversation.get("contributor"))
                    first, last = each.get("start_line"), each.get("end_line")
                    if who.get("type") == "ai" and isinstance(first, int) and isinstance(last, int):
                        url = str(conversation.get("url") or "")[:500]
                        yield AttestedRange(str(file.get("path") or ""), first, last, tool, str(who.get("model_id") or "")[:200], url)


def write_agent_trace(commit: str, at: datetime, ranges: Sequence[WrittenRange], version: str) -> dict[str, Any]:
    """The Agent Trace record of a commit. The same commit and ranges give the same record."""
    files: list[dict[str, Any]] = []
    for path in dict.fromkeys(each.path for each in ranges):
        conversations: dict[str, Any] = {}
        for each in (each for each in ranges if each.path == path):
            kind: Literal["ai", "human"] = "ai" if each.session else "human"
            who: Mapping[str, str] = {"type": kind} | ({"model_id": each.model[:250]} if each.model and each.session else {})
            url = {"url": f"fleetlore:session:{each.session}"} if each.session else {}
            conversation = conversations.setdefault(f"{each.session} {each.model}", url | {"contributor": who, "ranges": []})
            conversation["ranges"].append({"start_line": each.first, "end_line": each.last})
        files.append({"path": path, "conversations": list(conversations.values())})
    digest = bytearray(sha256(f"{commit} {json.dumps(files)}".encode()).digest()[:16])
    digest[6], digest[8] = digest[6] & 0x0F | 0x80, digest[8] & 0x3F | 0x80
    return {
        "version": "0.1",
        "id": str(UUID(bytes=bytes(digest))),
        "timestamp": at.strftime("%Y-%m-%dT%H:%M:%SZ"),
        "vcs": {"type": "git", "revision": commit},
        "tool": {"name": "fleetlore", "version": version},
        "files": files,
    }


def _as_list(value: object) -> list[Any]:
    return value if isinstance(value, list) else []
