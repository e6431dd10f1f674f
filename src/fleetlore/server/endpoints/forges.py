"""`POST /hooks/github`, `/hooks/gitea`, `/hooks/forgejo`: webhook deliveries.

The headers name the forge, whatever the path. Gitea and Forgejo also send GitHub's headers, so their own are checked first.
With a configured secret every delivery must be signed with it; without one, a token is needed.
"""

from __future__ import annotations

import hmac
from collections.abc import Iterable, Sequence
from hashlib import sha256
from typing import TYPE_CHECKING, NamedTuple
from urllib.parse import parse_qs

from starlette.datastructures import Headers
from starlette.requests import Request
from starlette.routing import Route

from fleetlore.dialects.forge import webhooks
from fleetlore.errors import DialectError
from fleetlore.server.endpoints.request_body import RequestBody, check_utf8, parse_foreign_record, read_body, read_media_type
from fleetlore.server.endpoints.response import EndpointResult, counted_endpoint, last_path_segment, positions_result
from fleetlore.server.endpoints.store import decode_foreign, store_events
from fleetlore.server.problems import Problem

if TYPE_CHECKING:
    from fleetlore.log.recorder import BlockingRecorder
    from fleetlore.server.context import AppContext
    from fleetlore.settings import Settings

FORGES = ("forgejo", "gitea", "github")
"""In the order in which their headers are checked."""
FORM = "application/x-www-form-urlencoded"
PING = "ping"

_SECRET_OWNERS = {"forgejo": ("forgejo", "gitea"), "gitea": ("gitea", "forgejo"), "github": ("github",)}
"""Forgejo is a fork of Gitea: a secret set for one also serves the other."""
_SIGNATURES = (("x-forgejo-signature", ""), ("x-gitea-signature", ""), ("x-hub-signature-256", "sha256="))
"""Signature headers, and the prefix before the hex digest."""


class DeliveryHeaders(NamedTuple):
    """What the headers say about a delivery."""

    forge: str | None
    event: str | None
    id: str | None


def parse_delivery_headers(headers: Headers) -> DeliveryHeaders:
    """Forge, event and id; each `None` if no header has it."""
    for name in FORGES:
        if event := headers.get(f"x-{name}-event"):
            return DeliveryHeaders(name, event, headers.get(f"x-{name}-delivery"))
    return DeliveryHeaders(None, None, None)


@counted_endpoint("forge")
async def post_delivery(request: Request, context: AppContext) -> EndpointResult:
    """Store the events of a delivery. A repeated delivery stores nothing."""
    delivery = parse_delivery_headers(request.headers)
    secrets = find_secrets(context.settings, (last_path_segment(request), delivery.forge))
    if not secrets:
        await context.keys.require_scope(request, "write")
    is_form = _is_form(request)
    body = await read_body(request, context.limits)
    if secrets:
        check_signature(request.headers, body.raw, secrets)
    return positions_result(await context.run_storing(body, _store_delivery, context.log, body, delivery, is_form, context.limits.body))


def find_secrets(settings: Settings, forges: Iterable[str | None]) -> list[bytes]:
    """The secrets that may have signed a delivery: those of the forges named by path and headers."""
    named = [f"{kin}_secret" for name in forges if name is not None for kin in _SECRET_OWNERS[name]]
    secrets = settings.hooks.value
    return [secrets[name].reveal().encode() for name in dict.fromkeys(named) if name in secrets]


def check_signature(headers: Headers, raw: bytes, secrets: Sequence[bytes]) -> None:
    """A `Problem` 401 unless one of the secrets signed these bytes. Compares in constant time."""
    given = [value[len(start) :] for name, start in _SIGNATURES if (value := headers.get(name, "")).startswith(start) and value]
    signed = [hmac.new(secret, raw, sha256).hexdigest().encode() for secret in secrets]
    matches = [hmac.compare_digest(each.strip().lower().encode("latin-1", "replace"), own) for each in given for own in signed]
    if any(matches):
        return
    why = "is signed with another secret than the one set here" if given else "is not signed"
    detail = f"the delivery {why}; give the forge the same secret as [hooks] in your fleetlore.toml"
    raise Problem(401, detail, headers={"www-authenticate": 'Signature realm="fleetlore", headers="x-hub-signature-256"'})


def _is_form(request: Request) -> bool:
    kind = read_media_type(request)
    if kind not in ("application/json", FORM):
        raise Problem(415, f"{kind[:60] or 'no Content-Type'} is not read here; choose application/json in the webhook's settings")
    return kind == FORM


def _store_delivery(log: BlockingRecorder, body: RequestBody, delivery: DeliveryHeaders, is_form: bool, limit: int) -> list[str]:
    raw = check_utf8(body.decompress(limit))
    payload = parse_foreign_record(_form_payload(raw) if is_form else raw)
    try:
        events = decode_foreign(
            lambda: webhooks.read_delivery(payload, event=delivery.event, delivery=delivery.id, forge=_forge_name(delivery.forge))
        )
    except DialectError:
        if delivery.event == PING:  # pings of apps and organisations name no repository; they only test the connection
            return []
        raise
    return store_events(log, events)


def _forge_name(name: str | None) -> str | None:
    """The forge's name in the dialect, so that captured and imported deliveries give equal events."""
    return next((known for start, known in webhooks.FORGE_BY_HEADER if start == f"x-{name}-"), None)


def _form_payload(raw: bytes) -> bytes:
    try:
        found = parse_qs(raw.decode(), max_num_fields=16, errors="strict").get("payload", [])
    except ValueError as error:
        raise Problem(400, f"not a form that can be read: {error}; choose application/json in the webhook's settings") from error
    if len(found) != 1:
        raise Problem(400, "a form with one `payload` is needed; choose application/json in the webhook's settings")
    return found[0].encode()


ROUTES = [Route(f"/hooks/{name}", post_delivery, methods=["POST"]) for name in FORGES]
