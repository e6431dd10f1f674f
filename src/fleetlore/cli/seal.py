"""`lore seal`: sign commands to goals with a key that a passphrase protects. docs/sealing.md describes the threat model."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fleetlore.cli import arguments, open_log, passphrase, terminal
from fleetlore.errors import Invalid

if TYPE_CHECKING:
    from argparse import ArgumentParser, Namespace

    from fleetlore.log.coordination import Coordination
    from fleetlore.log.seal import Seal
    from fleetlore.settings import Settings

_EXAMPLES = (
    ("lore seal", "set a passphrase, or another one; it is asked for on the terminal"),
    ("lore seal --status", "whether this log is sealed, and since when"),
    ("lore seal --new-key", "if the passphrase may be known to others: also make a new key"),
)
_NOTES = """\
On a sealed log goals obey only requests signed with the passphrase: start, pause, cancel, raise a
budget, decide, and events of the driver. Others are stored and shown as unsigned. `lore trim`,
`forget`, `restore` and `token create --scope admin` ask for the passphrase. It is never read from
an argument, the environment or a pipe, and cannot be recovered: if it is lost, ship the log to a
new one. A new passphrase keeps the key, so running goals continue. With --new-key, requests signed
before are no longer obeyed.
"""


def configure(parser: ArgumentParser) -> None:
    """Add the arguments."""
    parser.add_argument("--status", action="store_true", help="only show whether the log is sealed")
    parser.add_argument("--new-key", action="store_true", help="a new key, too: what was signed before is obeyed no more")
    arguments.add_json(parser)
    arguments.add_examples(parser, _EXAMPLES, _NOTES)


def run(args: Namespace) -> int:
    """Set or change the passphrase, or print the status."""
    settings = open_log.load_settings_for(args)
    if args.status and args.new_key:
        raise Invalid("--new-key changes the seal, and --status only shows it; use one of them")
    with _open_coordination(settings, is_new=not args.status) as shared:
        if args.status:
            _print_status(shared.load_seal(), args)
        else:
            _set_passphrase(shared, args)
    return 0


def _open_coordination(settings: Settings, *, is_new: bool) -> Coordination:
    from fleetlore.log.connect import split_url
    from fleetlore.log.coordination import open_shared

    scheme, _, options = split_url(settings.log.value)
    if scheme == "memory":
        raise Invalid("memory: is not kept, and neither would its seal be; name another log with --log")
    if options.get("keep", "everything") != "everything":
        raise Invalid("?keep= cuts off what goals rest on, and a seal is for goals; leave it out of the log's address")
    path = open_log.find_file(settings)
    if path is not None and not is_new:
        open_log.require_log_file(path)
    return open_shared(settings.log.value, town=settings.town.value)


def _set_passphrase(shared: Coordination, args: Namespace) -> None:
    from fleetlore.log.seal import make_seal

    before = shared.load_seal()
    if before is None and args.new_key:
        raise Invalid("this log is not sealed, so there is no key to replace; `lore seal` makes the first")
    key = passphrase.ask_key(shared, "to change it")
    seal, _ = make_seal(passphrase.ask_new_passphrase(), key=None if args.new_key else key)
    shared.set_seal(seal, before)
    has_new_key = before is None or args.new_key
    revoked = _revoke_admin_tokens(shared) if has_new_key else 0
    if args.json:
        terminal.print_value(_seal_fields(seal) | {"new_key": has_new_key, "revoked": revoked})
        return
    terminal.print_line(
        "The log is sealed: goals now obey only commands signed with the passphrase." if before is None else "The passphrase was changed."
    )
    if has_new_key:
        terminal.print_line("Goals started before can no longer be controlled: start them again. Restart `lore up` with the passphrase.")
    if revoked:
        terminal.print_line(
            f"{revoked} {'token' if revoked == 1 else 'tokens'} with the right to control revoked; `lore token create` makes new ones."
        )


def _revoke_admin_tokens(shared: Coordination) -> int:
    """Revoke admin tokens made before the seal; they would only count as `write` now."""
    found = [token for token in shared.list_tokens() if token.scope == "admin"]
    for token in found:
        shared.delete_token(token.id)
    return len(found)


def _print_status(seal: Seal | None, args: Namespace) -> None:
    if args.json:
        terminal.print_value(_seal_fields(seal))
    elif seal is None:
        terminal.print_line("not sealed: anyone who can write to this log is trusted; `lore seal` changes that")
    else:
        terminal.print_line(f"sealed with the key {seal.key}; the passphrase was set at {_format_time(seal)}")


def _seal_fields(seal: Seal | None) -> dict[str, object]:
    if seal is None:
        return {"sealed": False, "key": None, "made_at": None}
    return {"sealed": True, "key": seal.key, "made_at": seal.made_at}


def _format_time(seal: Seal) -> str:
    return seal.made_at.isoformat(timespec="seconds").replace("+00:00", "Z")
