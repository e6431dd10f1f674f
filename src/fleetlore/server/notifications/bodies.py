"""Formats notifications: bodies for webhooks, arguments for commands. Agents' texts in them are untrusted.

Pure: the same notification gives the same bytes.
"""

from __future__ import annotations

import hmac
import re
from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Any, NamedTuple
from urllib.parse import quote

import msgspec

from fleetlore.events.codec import encode_with_position
from fleetlore.events.envelope import Event
from fleetlore.log.admission import is_traceparent
from fleetlore.server.notifications.rules import PLACEHOLDERS, CommandTarget, Webhook
from fleetlore.story.brief import Brief
from fleetlore.views.patterns.model import Finding

JSON, TEXT = "application/json", "text/plain; charset=utf-8"
SIGNATURE, NOTICE_ID = "X-Fleetlore-Signature", "X-Fleetlore-Notice"
DISCORD_MAX_CHARS = 2000
"""Discord's limit in characters."""
NTFY_MAX_BYTES = 4096
"""Bytes; ntfy turns longer messages into attachments."""
_MARKDOWN = re.compile(r"([\\*_~`|>#\[\]()<@:-])")


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


class WebhookRequest(NamedTuple):
    """A webhook request."""

    body: bytes
    headers: Mapping[str, str]


def build_webhook_request(webhook: Webhook, message: Message) -> WebhookRequest:
    """Build the request, signed if the rule has a secret."""
    content_type, body, extra_headers = ENCODERS_BY_FORMAT[webhook.format](message)
    headers = {"Content-Type": content_type, NOTICE_ID: message.id, **extra_headers}
    if webhook.format == "ntfy" and webhook.approve_url is not None and is_answerable(message.event):
        headers["Actions"] = "; ".join(_make_ntfy_button(webhook, message.event.id or "", choice) for choice in ("allow", "deny"))
    trace = message.event.trace
    if trace is not None and is_traceparent(trace):
        headers["traceparent"] = trace
    if webhook.token is not None:
        headers["Authorization"] = f"Bearer {webhook.token}"
    if webhook.secret is not None:
        headers[SIGNATURE] = f"sha256={hmac.digest(webhook.secret.encode(), body, 'sha256').hex()}"
    return WebhookRequest(body, headers)


def is_answerable(event: Event) -> bool:
    """Whether an event is an approval request that can be answered remotely."""
    return event.kind == "approval.requested" and event.data.get("answerable") is not False


def _make_ntfy_button(webhook: Webhook, id: str, choice: str) -> str:
    """Build an ntfy action button that answers the request."""
    url = f"{(webhook.approve_url or '').rstrip('/')}/api/approvals/{quote(id, safe='')}"
    body = f'{{"choice":"{choice}"}}'
    header_options = f"headers.Authorization=Bearer {webhook.approve_token}, headers.Content-Type=application/json"
    return f"http, {choice.capitalize()}, {url}, method=POST, {header_options}, body='{body}', clear=true"


def build_command(command: CommandTarget, message: Message) -> list[str]:
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
    placed = {f"{{{name}}}": neutralise_argument(values[name], keep_lines=message.brief is not None) for name in PLACEHOLDERS}
    return [placed.get(word, word) for word in command.argv]


def neutralise_argument(argument: str, *, keep_lines: bool = False) -> str:
    """Replace control characters, and put a space before an argument that could be read as an option (`-x`) or a file (`@file`)."""
    line = "".join(letter if letter.isprintable() or (keep_lines and letter == "\n") else " " for letter in argument)
    return line if not line or line[0].isalnum() else f" {line}"


def encode_notification(message: Message) -> bytes:
    """The full notification as JSON, for programs."""
    fields: dict[str, Any] = {"id": message.id, "rule": message.rule, "when": message.when, "text": message.text, "at": message.at}
    if message.url is not None:
        fields["url"] = message.url
    if message.arc is not None:
        fields["arc"] = message.arc
    if message.brief is not None:
        return msgspec.json.encode({**fields, "brief": message.brief})
    return msgspec.json.encode({**fields, "event": msgspec.Raw(encode_with_position(message.event))})


EncodedBody = tuple[str, bytes, Mapping[str, str]]
"""Content type, body, and extra headers."""


def _encode_json(message: Message) -> EncodedBody:
    return JSON, encode_notification(message), {}


def _encode_slack(message: Message) -> EncodedBody:
    # Escaping these three characters disables `<!channel>` and masked links in Slack.
    text = message.text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    link = f" <{message.url}|Open>" if message.url else ""
    return JSON, msgspec.json.encode({"text": f"{text}{link}", "unfurl_links": False}), {}


def _encode_discord(message: Message) -> EncodedBody:
    link = f"\n<{message.url}>" if message.url else ""
    text = _MARKDOWN.sub(r"\\\1", message.text)[: DISCORD_MAX_CHARS - len(link) - 1].rstrip("\\")
    return JSON, msgspec.json.encode({"content": f"{text}{link}", "allowed_mentions": {"parse": []}}), {}


def _encode_ntfy(message: Message) -> EncodedBody:
    headers = {"Title": f"Fleetlore: {message.rule}" if message.rule.isascii() else "Fleetlore"}
    if message.url:
        headers["Click"] = message.url
    return TEXT, _truncate(message.text, NTFY_MAX_BYTES).encode(errors="replace"), headers


def _truncate(text: str, max_bytes: int) -> str:
    """Keep whole lines if the first one fits, and end what was cut with `…`."""
    encoded = text.encode(errors="replace")
    if len(encoded) <= max_bytes:
        return text
    kept = encoded[: max_bytes - len("\n…".encode())].decode(errors="ignore")
    lines, _, _ = kept.rpartition("\n")
    return f"{lines}\n…" if lines else f"{kept}…"


def _encode_plain(message: Message) -> EncodedBody:
    return TEXT, f"{message.text}\n".encode(errors="replace"), {}


ENCODERS_BY_FORMAT: Mapping[str, Callable[[Message], EncodedBody]] = {
    "json": _encode_json,
    "slack": _encode_slack,
    "discord": _encode_discord,
    "ntfy": _encode_ntfy,
    "plain": _encode_plain,
}
