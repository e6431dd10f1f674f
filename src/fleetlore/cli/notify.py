"""`lore notify`: the rules by which people are notified, and a way to try one without waiting."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

from fleetlore import clock
from fleetlore.cli import arguments, open_log, terminal
from fleetlore.cli.main import FAILED, OK, UsageError
from fleetlore.errors import Invalid

if TYPE_CHECKING:
    from argparse import ArgumentParser, Namespace
    from collections.abc import Mapping

    from fleetlore.events.envelope import Event
    from fleetlore.server.notifications.bodies import Message
    from fleetlore.server.notifications.rules import Rule
    from fleetlore.settings import Settings

_EXAMPLES = (
    ("lore notify on", "on your desktop: needs you, finished, failed, looping, budget, and the brief at 8:00"),
    ("lore notify on --to https://ntfy.sh/your-topic", "also on your phone; Slack, Discord and other webhooks work as well"),
    ("lore notify off", "remove what `lore notify on` added"),
    ("lore notify list", "every rule, where it sends, and how far it has read"),
    ("lore notify test needs-me", "send one notification now, and show the result"),
    ("lore notify test morning --print", "print the message, such as a scheduled brief, instead of sending it"),
    ("lore notify test needs-me --event 0190…", "the same about an event of the log"),
)
_NOTES = """\
Rules are [[notify]] tables in your own fleetlore.toml. They run while `lore up` or `lore service`
does: docs/notifications.md. Each thing is sent once, and not at all if you have answered meanwhile.
"""


def configure(parser: ArgumentParser) -> None:
    """What to do, with which rule."""
    parser.add_argument("action", choices=("list", "test", "on", "off"), nargs="?", default="list", help="what to do (list)")
    parser.add_argument("rule", metavar="RULE", nargs="?", help="for test: the name of the rule")
    parser.add_argument("--event", metavar="ID", help="for test: the event of the log to send (default: a made-up one)")
    parser.add_argument("--print", action="store_true", help="for test: print the message instead of sending it")
    parser.add_argument("--to", metavar="URL", default="", help="for on: also send to ntfy, Slack, Discord or another webhook")
    arguments.add_json(parser)
    arguments.add_examples(parser, _EXAMPLES, _NOTES)


def run(args: Namespace) -> int:
    """List them, or try one."""
    if args.action in ("on", "off"):
        return _switch_defaults(args)
    if args.action == "list":
        if args.rule is not None or args.event is not None or args.print:
            raise UsageError("`lore notify list` takes no rule; write `lore notify test RULE`")
        return _list_rules(args)
    return _test_rule(args)


def _switch_defaults(args: Namespace) -> int:
    from fleetlore.cli import default_notifications

    if args.action == "on":
        terminal.print_line(describe_switched_on(default_notifications.turn_on(args.to, zone=find_zone())))
        return OK
    path, changed = default_notifications.turn_off()
    terminal.print_line(f"Removed them from {path}." if changed else f"Nothing to do: {path} has none of `lore notify on`.")
    return OK


def describe_switched_on(path: str) -> str:
    """What was changed, and how to undo it."""
    from fleetlore.cli import default_notifications, service

    runs = "" if service.is_running() else "\nThey are sent while `lore up` runs; `lore service install` runs it in the background."
    undo = f"Undo it with `{default_notifications.UNDO}`."
    return f"Notifications are on ({path}). Try one with `lore notify test desktop-needs-you`.{runs}\n{undo}"


def find_zone() -> str:
    """The name of the user's time zone, if the system says it."""
    from zoneinfo import ZoneInfo

    zone = os.environ.get("TZ", "").removeprefix(":") or os.path.realpath("/etc/localtime").partition("zoneinfo/")[2]
    try:
        return ZoneInfo(zone).key if zone else "UTC"
    except (ValueError, OSError, KeyError):
        return "UTC"


def _list_rules(args: Namespace) -> int:
    from fleetlore.server.notifications.rules import parse_rules

    settings = open_log.load_settings_for(args)
    rules = parse_rules(settings)
    cursors, holder = _read_rule_state(settings)
    if args.json:
        terminal.print_value({"rules": [_describe_rule(rule, cursors.get(rule.cursor)) for rule in rules], "at_work": holder})
        return OK
    for rule in rules:
        place = "not begun yet" if rule.cursor not in cursors else f"at {cursors[rule.cursor]}"
        terminal.print_line(terminal.sanitise_text(f"{rule.name}  {rule.trigger}  {rule.scope}  {rule.via} {rule.target.shown}  {place}"))
        if rule.note is not None:
            terminal.print_line(terminal.sanitise_text(f"  {rule.note}"))
    if not rules:
        terminal.print_line("No rules for this log. docs/notifications.md shows some for your own fleetlore.toml.")
    elif holder is None:
        terminal.print_line("Not running. Start `lore up` to send notifications.")
    return OK


def _read_rule_state(settings: Settings) -> tuple[Mapping[str, str], str | None]:
    """How far the rules have come, and who runs them; nothing where there is no log yet."""
    from fleetlore.log.coordination import open_shared
    from fleetlore.server.notifications.service import LEASE

    path = open_log.find_file(settings)
    if path is not None and not os.path.exists(path):
        return {}, None
    with open_shared(settings.log.value, town=settings.town.value) as shared:
        lease = shared.find_lease(LEASE)
        return shared.list_cursors(), None if lease is None else lease.holder


def _describe_rule(rule: Rule, position: str | None) -> dict[str, Any]:
    return {
        "name": rule.name,
        rule.by: rule.what,
        "scope": rule.scope,
        "via": rule.via,
        "to": rule.target.shown,
        "position": position,
        "from": rule.source,
        "note": rule.note,
    }


def _test_rule(args: Namespace) -> int:
    from fleetlore.server.notifications.send import deliver_message

    settings = open_log.load_settings_for(args)
    rule = _find_rule(settings, args.rule)
    message = _read_brief(args, rule, settings) if rule.by == "brief" else _compose_message(args, rule)
    if args.print:
        for line in message.text.splitlines():
            terminal.print_line(terminal.sanitise_text(line))
        return OK
    outcome = deliver_message(rule.target, message)
    if args.json:
        terminal.print_value({"rule": rule.name, "to": rule.target.shown, "ok": outcome.error is None, "error": outcome.error})
    elif outcome.error is None:
        terminal.print_line(terminal.sanitise_text(f"sent to {rule.target.shown} by {rule.via}: {message.text}"))
    else:
        terminal.print_error(f"lore: {rule.target.shown}: {outcome.error}")
    return OK if outcome.error is None else FAILED


def _find_rule(settings: Settings, name: str | None) -> Rule:
    from fleetlore.server.notifications.rules import parse_rules

    rules = {rule.name: rule for rule in parse_rules(settings)}
    if name is None:
        raise UsageError("name a rule, as in `lore notify test RULE`; `lore notify list` shows them")
    if name not in rules:
        known = f"choose from {', '.join(rules)}" if rules else "this log has no rules; docs/notifications.md says how to write one"
        raise Invalid(f"no notification rule is called {name!r}; {known}")
    return rules[name]


def _compose_message(args: Namespace, rule: Rule) -> Message:
    """What is sent: nothing of it is recorded, and no cursor moves."""
    from fleetlore.events.envelope import Event
    from fleetlore.server.notifications.runner import compose_message
    from fleetlore.server.notifications.triggers import make_occasion
    from fleetlore.views.thread_names import AS_THEY_ARE

    if args.event is None:
        event = Event(id=clock.uuid7(), at=clock.now(), kind="notify.test", actor="fleetlore")
        occasion = make_occasion(event, lambda *_: f"This is a test of the rule {rule.name}")
    else:
        event = _read_event(args)
        occasion = make_occasion(event)._replace(key=f"test {clock.uuid7()}")
    return compose_message(rule, occasion, event, AS_THEY_ARE)


def _read_brief(args: Namespace, rule: Rule, settings: Settings) -> Message:
    """The brief that was due last, whether it was sent or not. Unlike a scheduled one it is also sent if nothing happened."""
    from fleetlore.server.notifications.runner import ACTOR
    from fleetlore.server.notifications.scheduled_brief import compose_brief, find_period, read_brief
    from fleetlore.views.outcomes.rules import read_outcome_rules

    if args.event is not None or rule.schedule is None:
        raise UsageError("--event does not go with a rule that sends a brief")
    now = clock.now()
    period = find_period(rule.schedule, now)
    with open_log.open_existing_log(args, settings=settings) as log:
        brief = read_brief(log, rule, period, read_outcome_rules(settings), now)
    return compose_brief(rule, clock.uuid7(), brief, period, actor=ACTOR, url=None)


def _read_event(args: Namespace) -> Event:
    with open_log.open_existing_log(args) as log:
        for event in log.get([args.event]):
            return event
    raise Invalid(f"--event: no event with the id {args.event!r} is in this log; `lore events --json` shows ids")
