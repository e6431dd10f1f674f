"""`lore config`: which settings hold here, and where each comes from."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

from fleetlore import settings as config
from fleetlore.cli import arguments, open_log, terminal

if TYPE_CHECKING:
    from argparse import ArgumentParser, Namespace

SUMMARY = "show every setting and where it comes from"

_EXAMPLES = (
    ("lore config show", "what holds in this folder"),
    ("FLEETLORE_TOWN=harbour lore config show --json", "the same for programs"),
)
_NOTES = """\
Strongest first: --log and --town, then FLEETLORE_LOG and FLEETLORE_TOWN, then the nearest fleetlore.toml
in this folder or above it, then the user's, then the defaults.
"""


def configure(parser: ArgumentParser) -> None:
    """`show`, the only thing that can be done so far."""
    parser.add_argument("action", choices=("show",), nargs="?", default="show", help="show the settings")
    arguments.add_json(parser)
    arguments.teach(parser, _EXAMPLES, _NOTES)


def run(args: Namespace) -> int:
    """Print them; secrets in addresses are masked."""
    settings = open_log.settings_of(args)
    if args.json:
        terminal.out_value(described(settings))
        return 0
    rows = [
        ("log", config.masked(settings.log.value), settings.log.source),
        ("town", settings.town.value, settings.town.source),
        ("redact.patterns", f"{len(settings.redact_patterns.value)} of your own", settings.redact_patterns.source),
        ("redact.level", ", ".join(("secrets", *settings.redact_levels.value)), settings.redact_levels.source),
        ("retention.keep", _age(settings.keep_days.value), settings.keep_days.source),
        ("ship.to", config.masked(settings.ship_to.value or "nowhere"), settings.ship_to.source),
        ("ship.full", str(settings.ship_full.value).lower(), settings.ship_full.source),
        ("prices", f"{len(settings.prices.value)} of your own", settings.prices.source),
        ("notify", f"{len(settings.notify.value)} of your own; `lore notify list` shows them", settings.notify.source),
        ("hooks", ", ".join(settings.hooks.value) or "no secrets", settings.hooks.source),
        ("context", ", ".join(f"{key} {said}" for key, said in settings.context.value.items()) or "as it comes", settings.context.source),
        ("graph", ", ".join(_graph(settings)) or "as it comes", settings.graph.source),
    ]
    path = open_log.find_file(settings)
    if path is not None:
        rows.insert(1, ("", f"= {os.path.abspath(path)}", ""))
    space = max(len(value) for _, value, _ in rows)
    for name, value, source in rows:
        terminal.out(terminal.sanitise(f"{name:<16} {value:<{space}}  {source and f'from {source}'}").rstrip())
    for warning in settings.warnings:
        terminal.out(terminal.sanitise(f"{'ignored':<16} {warning}"))
    for path in settings.redact_patterns.value:
        terminal.out(f"{'':<16}   {terminal.sanitise(path)}")
    for model, said in settings.prices.value.items():
        figures = ", ".join(f"{key} {value:g}" for key, value in said.items())
        terminal.out(terminal.sanitise(f"{'':<16}   {model}: {figures} (USD for a million tokens)"))
    for what, path in file_places():
        terminal.out(terminal.sanitise(f"{what + ' file':<16} {path}"))
    return 0


def described(settings: config.Settings) -> dict[str, Any]:
    """The settings as plain values."""
    return {
        "log": {"value": config.masked(settings.log.value), "from": settings.log.source, "file": open_log.find_file(settings)},
        "town": {"value": settings.town.value, "from": settings.town.source},
        "redact.patterns": {"value": settings.redact_patterns.value, "from": settings.redact_patterns.source},
        "redact.level": {"value": ("secrets", *settings.redact_levels.value), "from": settings.redact_levels.source},
        "retention.keep": {"value": settings.keep_days.value and f"{settings.keep_days.value}d", "from": settings.keep_days.source},
        "ship.to": {"value": settings.ship_to.value and config.masked(settings.ship_to.value), "from": settings.ship_to.source},
        "ship.full": {"value": settings.ship_full.value, "from": settings.ship_full.source},
        "prices": {"value": settings.prices.value, "from": settings.prices.source},
        "notify": {"value": [notice.said.get("name") for notice in settings.notify.value], "from": settings.notify.source},
        "hooks": {"value": dict.fromkeys(settings.hooks.value, "[redacted]"), "from": settings.hooks.source},
        "context": {"value": settings.context.value, "from": settings.context.source},
        "graph": {"value": _graph(settings), "from": settings.graph.source},
        "files": settings.files,
        "ignored": settings.warnings,
    }


def _graph(settings: config.Settings) -> dict[str, Any]:
    """What is said of conversational agents; addresses of databases may hold a password."""
    shown = dict(settings.graph.value)
    for key in ("minds", "databases"):
        if key in shown:
            shown[key] = {name: config.masked(address) for name, address in shown[key].items()}
    return shown


def _age(days: int | None) -> str:
    return "all, for ever" if days is None else f"{days:,} {'day' if days == 1 else 'days'}"


def file_places() -> list[tuple[str, str]]:
    """Where settings files are, or would be."""
    project, user = config.project_file(), config.user_file()
    return [
        ("project", project or f"none ({config.FILE_NAME} in this folder or above it)"),
        ("user", user if os.path.isfile(user) else f"none ({user})"),
    ]
