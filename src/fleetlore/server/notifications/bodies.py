"""Formats notifications: bodies for webhooks, arguments for commands. Agents' texts in them are untrusted.

Pure: the same notification gives the same bytes.
"""

from __future__ import annotations

import hmac
import re
from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Any, NamedTuple

import msgspec

from fleetlore.events.codec import encode_with_position
from fleetlore.events.envelope import Event
from fleetlore.server.notifications.rules import PLACEHOLDERS, CommandTarget, Webhook
from fleetlore.story.brief import Brief
from fleetlore.views.patterns.model import Finding

JSON, TEXT = "application/json", "text/plain; charset=utf-8"
SIGNATURE, NOTICE_ID = "X-Fleetlore-Signature", "X-Fleetlore-Notice"
LONGEST_CONTENT = 2000
"""Discord's limit in characters."""
LONGEST_NTFY = 4096
"""Bytes; ntfy turns longer messages into attachments."""
_MARKDOWN = re.compile(r"([\\*_~`|>#\[\]()<@:-])")
_is_trace = re.compile(r"[0-9a-f]{2}-[0-9a-f]{32}-[0-9a-f]{16}-[0-9a-f]{2}").fullmatch


class Message(NamedTuple):
    """A notification."""

    id: str
    """The same for the same rule and occasion, so that a receiver can recognise duplicates."""
    rule: str
    when: str
    text: str
    """One sentence on one line; of a brief, all its lines."""
    at: datetime
    event: Event
    arc: Finding | None = None
    url: str | None = None
    """The page to open, if known."""
    brief: Brief | None = None
    """What a scheduled notification sends; `event` then only says when it was due."""


class Call(NamedTuple):
    """A webhook request."""

    body: bytes
    headers: Mapping[str, str]


def call_of(webhook: Webhook, message: Message) -> Call:
    """Build the request, signed if the rule has a secret."""
    kind, body, more = FORMS[webhook.format](message)
    headers = {"Content-Type": kind, NOTICE_ID: message.id, **more}
    trace = message.event.trace
    if trace is not None and _is_trace(trace):
        headers["traceparent"] = trace
    if webhook.token is not None:
        headers["Authorization"] = f"Bearer {webhook.token}"
    if webhook.secret is not None:
        headers[SIGNATURE] = f"sha256={hmac.digest(webhook.secret.encode(), body, 'sha256').hex()}"
    return Call(body, headers)


def arguments_of(command: CommandTarget, message: Message) -> list[str]:
    """Build the command line. Only arguments that are exactly a placeholder are replaced."""
    values = {
        "text": message.text,
        "rule": message.rule,
        "when": message.when,
        "kind": message.event.kind,
        "agent": message.event.agent or message.event.actor or "",
        "id": message.event.id or "",
        "url": message.url or "",
    }
    placed = {f"{{{name}}}": make_harmless(values[name], keep_lines=message.brief is not None) for name in PLACEHOLDERS}
    return [placed.get(word, word) for word in command.argv]


def make_harmless(argument: str, *, keep_lines: bool = False) -> str:
    """Make an argument safe: after a space, `-x` is not an option and `@file` not a file."""
    line = "".join(letter if letter.isprintable() or (keep_lines and letter == "\n") else " " for letter in argument)
    return line if not line or line[0].isalnum() else f" {line}"


def json_of(message: Message) -> bytes:
    """The full notification as JSON, for programs."""
    fields: dict[str, Any] = {"id": message.id, "rule": message.rule, "when": message.when, "text": message.text, "at": message.at}
    if message.url is not None:
        fields["url"] = message.url
    if message.arc is not None:
        fields["arc"] = message.arc
    if message.brief is not None:
        return msgspec.json.encode({**fields, "brief": message.brief})
    return msgspec.json.encode({**fields, "event": msgspec.Raw(encode_with_position(message.event))})


Form = tuple[str, bytes, Mapping[str, str]]
"""Content type, body, and additional headers."""


def _json_body(message: Message) -> Form:
    return JSON, json_of(message), {}


def _slack_body(message: Message) -> Form:
    # Escaping these three characters disables `<!channel>` and masked links in Slack.
    text = message.text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    link = f" <{message.url}|Open>" if message.url else ""
    return JSON, msgspec.json.encode({"text": f"{text}{link}", "unfurl_links": False}), {}


def _discord_body(message: Message) -> Form:
    link = f"\n<{message.url}>" if message.url else ""
    text = _MARKDOWN.sub(r"\\\1", message.text)[: LONGEST_CONTENT - len(link) - 1].rstrip("\\")
    return JSON, msgspec.json.encode({"content": f"{text}{link}", "allowed_mentions": {"parse": []}}), {}


def _ntfy_body(message: Message) -> Form:
    more = {"Title": f"Fleetlore: {message.rule}" if message.rule.isascii() else "Fleetlore"}
    if message.url:
        more["Click"] = message.url
    return TEXT, _cut_lines(message.text, LONGEST_NTFY).encode(errors="replace"), more


def _cut_lines(text: str, most_bytes: int) -> str:
    """As many lines as there is room for; a single line is left as it is."""
    lines = text.split("\n")
    while len(lines) > 1 and len("\n".join(lines).encode(errors="replace")) > most_bytes:
        lines = [*lines[:-2], "…"] if lines[-1] == "…" else [*lines[:-1], "…"]
    return "\n".join(lines)


def _plain_body(message: Message) -> Form:
    return TEXT, f"{message.text}\n".encode(errors="replace"), {}


FORMS: Mapping[str, Callable[[Message], Form]] = {
    "json": _json_body,
    "slack": _slack_body,
    "discord": _discord_body,
    "ntfy": _ntfy_body,
    "plain": _plain_body,
}
"""Format → its encoder."""
