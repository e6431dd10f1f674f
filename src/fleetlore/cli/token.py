"""`lore token`: create, list and revoke API tokens. docs/server.md describes how they are stored and checked."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fleetlore import clock
from fleetlore.cli import arguments, open_log, passphrase, terminal, times
from fleetlore.errors import Invalid

if TYPE_CHECKING:
    from argparse import ArgumentParser, Namespace
    from collections.abc import Sequence
    from datetime import datetime

    from fleetlore.log.coordination import Coordination
    from fleetlore.log.tokens import Token
    from fleetlore.settings import Settings

VERBS = ("create", "list", "revoke")
_SCOPES = ("read", "approve", "write", "admin")
_EXAMPLES = (
    ("lore token create --scope read --label 'wall screen'", "give read access; the token is shown once"),
    ("TOKEN=$(lore token create --scope write --expires 30d)", "for a script: only the token goes to standard output"),
    ("lore token list", "list tokens with their ids; never the tokens themselves"),
    ("lore token revoke 5f2c9a01", "revoke it; effective within two seconds"),
)
_NOTES = """\
read: see everything. approve: also answer permission requests. write: also record events. admin:
also control agents. On a sealed log, approve and admin need the passphrase (docs/sealing.md).
A browser on this machine needs none of these: `lore open` signs it in.
A token is sent as `Authorization: Bearer lore_…`. It is for one log and one town. If it is lost,
create another.
"""


def configure(parser: ArgumentParser) -> None:
    """Add the arguments."""
    parser.add_argument("verb", metavar="VERB", choices=VERBS, help=f"what to do: {', '.join(VERBS)}")
    parser.add_argument("id", metavar="ID", nargs="?", help="token to revoke, as in `lore token list`")
    parser.add_argument("--scope", metavar="S", choices=_SCOPES, help=f"rights of a new token: {', '.join(_SCOPES)}")
    parser.add_argument("--label", metavar="L", help="a label for the list")
    parser.add_argument("--expires", metavar="WHEN", help="how long it is valid: 12h, 30d, 1w, or until a day or a time (no limit)")
    arguments.add_json(parser)
    arguments.add_examples(parser, _EXAMPLES, _NOTES)


def run(args: Namespace) -> int:
    """Run the verb."""
    _check_arguments(args)
    settings = open_log.load_settings_for(args)
    with _open_coordination(settings, is_new=args.verb == "create") as shared:
        {"create": _create_token, "list": _list_tokens, "revoke": _revoke_token}[args.verb](shared, args)
    return 0


def _check_arguments(args: Namespace) -> None:
    """Check the arguments that each verb needs."""
    if args.verb == "create" and args.scope is None:
        raise Invalid(f"--scope is missing; choose from {', '.join(_SCOPES)}")
    if args.verb == "revoke" and args.id is None:
        raise Invalid("the id is missing, as in `lore token revoke 5f2c9a01`; `lore token list` shows the ids")
    if args.verb != "revoke" and args.id is not None:
        raise Invalid(f"`lore token {args.verb}` takes no id, not {args.id!r}")
    for name in ("scope", "label", "expires"):
        if args.verb != "create" and getattr(args, name) is not None:
            raise Invalid(f"--{name} is for `lore token create`")


def _open_coordination(settings: Settings, *, is_new: bool) -> Coordination:
    from fleetlore.log.connect import split_url
    from fleetlore.log.coordination import open_shared

    if split_url(settings.log.value)[0] == "memory":
        raise Invalid("a memory: log stores no tokens; choose another log with --log")
    path = open_log.find_file(settings)
    if path is not None and not is_new:
        open_log.require_log_file(path)
    return open_shared(settings.log.value, town=settings.town.value)


def _create_token(shared: Coordination, args: Namespace) -> None:
    from fleetlore.log.tokens import create_token

    now = clock.now()
    expires_at = None if args.expires is None else times.parse_until(args.expires, now=now)
    secret, token = create_token(args.scope, label=args.label or "", expires_at=expires_at, now=now)
    if token.scope in ("approve", "admin") and (key := passphrase.ask_key(shared, f"to create a token for {token.scope}")) is not None:
        token = key.sign_token(token)
    shared.save_token(token)
    if args.json:
        terminal.print_value(_token_fields(token) | {"token": secret})
        return
    terminal.print_line(secret)
    terminal.print_error(
        f"token {token.id} for {token.scope}{_expiry_text(token)}; it is shown only once, so store it where only its user can read it"
    )
    terminal.print_error('use: curl -H "Authorization: Bearer $TOKEN" http://127.0.0.1:7077/api/meta')
    terminal.print_error(f"revoke it with: lore token revoke {token.id}")


def _list_tokens(shared: Coordination, args: Namespace) -> None:
    tokens = shared.list_tokens()
    if args.json:
        for token in tokens:
            terminal.print_value(_token_fields(token))
        return
    now = clock.now()
    for token in tokens:
        over = "  (expired)" if token.is_expired(now) else _expiry_text(token)
        terminal.print_line(
            f"{token.id}  {token.scope:<7}  {_format_time(token.created_at)}  {terminal.sanitise_text(token.label) or '-'}{over}"
        )
    if not tokens:
        terminal.print_error("no tokens yet; create one with `lore token create --scope read`")


def _revoke_token(shared: Coordination, args: Namespace) -> None:
    token = _find_token(shared.list_tokens(), args.id)
    shared.delete_token(token.id)
    if args.json:
        terminal.print_value(_token_fields(token))
    else:
        label = f" ({token.label})" if token.label else ""
        terminal.print_line(terminal.sanitise_text(f"revoked {token.id}{label}: it is no longer accepted"))


def _find_token(tokens: Sequence[Token], id: str) -> Token:
    found = next((token for token in tokens if token.id == id.lower()), None)
    if found is None:
        what = "this is a token, not its id" if id.startswith("lore_") else f"no token has the id {id[:80]!r}"
        raise Invalid(f"{what}; `lore token list` shows the ids")
    return found


def _token_fields(token: Token) -> dict[str, object]:
    """The public fields of a token."""
    return {
        "id": token.id,
        "scope": token.scope,
        "label": token.label,
        "created_at": token.created_at,
        "expires_at": token.expires_at,
    }


def _expiry_text(token: Token) -> str:
    return "" if token.expires_at is None else f", until {_format_time(token.expires_at)}"


def _format_time(at: datetime) -> str:
    return at.isoformat(timespec="seconds").replace("+00:00", "Z")
