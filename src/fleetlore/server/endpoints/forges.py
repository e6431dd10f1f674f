"""`POST /hooks/github`, `/hooks/gitea`, `/hooks/forgejo`: deliveries of webhooks.

Whose delivery it is its headers say, whichever path it came by. Gitea and Forgejo send GitHub's headers beside their own, so theirs
are looked for first. Where a secret is set, every delivery must be signed with it; where none is, a token is needed.
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
from fleetlore.server.endpoints.request_body import Body, foreign_record, media_type, read_body, text_of
from fleetlore.server.endpoints.response import Answer, door, last_word, positions
from fleetlore.server.endpoints.store import keep_all, told
from fleetlore.server.problems import Problem

if TYPE_CHECKING:
    from fleetlore.log.recorder import BlockingRecorder
    from fleetlore.server.context import House
    from fleetlore.settings import Settings

FORGES = ("forgejo", "gitea", "github")
"""In the order in which their headers are looked for."""
FORM = "application/x-www-form-urlencoded"
PING = "ping"

_KIN = {"forgejo": ("forgejo", "gitea"), "gitea": ("gitea", "forgejo"), "github": ("github",)}
"""Forgejo was Gitea once: a secret that is set for the one will do for the other."""
_SIGNATURES = (("x-forgejo-signature", ""), ("x-gitea-signature", ""), ("x-hub-signature-256", "sha256="))
"""Where a signature stands, and what is written before its hex."""


class Delivery(NamedTuple):
    """What the headers say of a delivery."""

    forge: str | None
    event: str | None
    id: str | None


def delivery_of(headers: Headers) -> Delivery:
    """Whose it is, what it tells and its id; nothing of what no header says."""
    for name in FORGES:
        if event := headers.get(f"x-{name}-event"):
            return Delivery(name, event, headers.get(f"x-{name}-delivery"))
    return Delivery(None, None, None)


@door("forge")
async def post_delivery(request: Request, house: House) -> Answer:
    """Store what a forge tells. The same delivery again stores nothing."""
    delivery = delivery_of(request.headers)
    secrets = secrets_for(house.settings, (last_word(request), delivery.forge))
    if not secrets:
        await house.keys.need(request, "write")
    is_form = _is_form(request)
    body = await read_body(request, house.limits)
    if secrets:
        check_signature(request.headers, body.raw, secrets)
    return positions(await house.store(body, _take, house.log, body, delivery, is_form, house.limits.body))


def secrets_for(settings: Settings, forges: Iterable[str | None]) -> list[bytes]:
    """The secrets that count for a delivery: of the forge that the path names, and of the one that the headers do."""
    named = [f"{kin}_secret" for name in forges if name is not None for kin in _KIN[name]]
    secrets = settings.hooks.value
    return [secrets[name].reveal().encode() for name in dict.fromkeys(named) if name in secrets]


def check_signature(headers: Headers, raw: bytes, secrets: Sequence[bytes]) -> None:
    """Let a delivery go on only if one of the secrets signed these very bytes; how long it takes tells nothing."""
    given = [value[len(start) :] for name, start in _SIGNATURES if (value := headers.get(name, "")).startswith(start) and value]
    signed = [hmac.new(secret, raw, sha256).hexdigest().encode() for secret in secrets]
    fits = [hmac.compare_digest(each.strip().lower().encode("latin-1", "replace"), own) for each in given for own in signed]
    if any(fits):
        return
    why = "is signed with another secret than the one set here" if given else "is not signed"
    detail = f"the delivery {why}; give the forge the same secret as [hooks] in your fleetlore.toml"
    raise Problem(401, detail, headers={"www-authenticate": 'Signature realm="fleetlore", headers="x-hub-signature-256"'})


def _is_form(request: Request) -> bool:
    kind = media_type(request)
    if kind not in ("application/json", FORM):
        raise Problem(415, f"{kind[:60] or 'no Content-Type'} is not read here; choose application/json in the webhook's settings")
    return kind == FORM


def _take(log: BlockingRecorder, body: Body, delivery: Delivery, is_form: bool, limit: int) -> list[str]:
    raw = text_of(body.unpack(limit))
    payload = foreign_record(_payload_in(raw) if is_form else raw)
    try:
        events = told(lambda: webhooks.read_delivery(payload, event=delivery.event, delivery=delivery.id, forge=_name(delivery.forge)))
    except DialectError:
        if delivery.event == PING:  # of an app or a whole account, it names no repository; what it asks is whether we are here
            return []
        raise
    return keep_all(log, events)


def _name(name: str | None) -> str | None:
    """As the dialect calls it: deliveries that were captured and are imported say the same."""
    return next((known for start, known in webhooks.FORGE_BY_HEADER if start == f"x-{name}-"), None)


def _payload_in(raw: bytes) -> bytes:
    try:
        found = parse_qs(raw.decode(), max_num_fields=16, errors="strict").get("payload", [])
    except ValueError as error:
        raise Problem(400, f"not a form that can be read: {error}; choose application/json in the webhook's settings") from error
    if len(found) != 1:
        raise Problem(400, "a form with one `payload` is needed; choose application/json in the webhook's settings")
    return found[0].encode()


ROUTES = [Route(f"/hooks/{name}", post_delivery, methods=["POST"]) for name in FORGES]
