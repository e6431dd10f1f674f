"""`lore config`: shows the settings in effect, and where each comes from."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

from fleetlore import settings as config
from fleetlore.cli import arguments, open_log, terminal

if TYPE_CHECKING:
    from argparse import ArgumentParser, Namespace
    from collections.abc import Iterator

_EXAMPLES = (
    ("lore config show", "the settings in effect in this folder"),
    ("FLEETLORE_TOWN=harbour lore config show --json", "the same for programs"),
)
_NOTES = """\
Order of precedence: --log and --town, FLEETLORE_LOG and FLEETLORE_TOWN, the nearest fleetlore.toml
in this folder or above it, the user's file, the defaults.
"""


def configure(parser: ArgumentParser) -> None:
    """Add the arguments. `show` is the only action so far."""
    parser.add_argument("action", choices=("show",), nargs="?", default="show", help="show the settings")
    arguments.add_json(parser)
    arguments.add_examples(parser, _EXAMPLES, _NOTES)


def run(args: Namespace) -> int:
    """Print the settings; secrets in addresses are masked."""
    settings = open_log.load_settings_for(args)
    if args.json:
        terminal.print_value(describe_settings(settings))
        return 0
    rows = [(spec.key, spec.show(setting.value), setting.source) for spec, setting in _each_setting(settings)]
    path = open_log.find_file(settings)
    if path is not None:
        rows.insert(1, ("", f"= {os.path.abspath(path)}", ""))
    width = max(len(value) for _, value, _ in rows)
    for name, value, source in rows:
        terminal.print_line(terminal.sanitise_text(f"{name:<16} {value:<{width}}  {source and f'from {source}'}").rstrip())
    for warning in settings.warnings:
        terminal.print_line(terminal.sanitise_text(f"{'ignored':<16} {warning}"))
    for path in settings.redact_patterns.value:
        terminal.print_line(f"{'':<16}   {terminal.sanitise_text(path)}")
    for model, prices in settings.prices.value.items():
        figures = ", ".join(f"{key} {value:g}" for key, value in prices.items())
        terminal.print_line(terminal.sanitise_text(f"{'':<16}   {model}: {figures} (USD per million tokens)"))
    for label, path in file_places():
        terminal.print_line(terminal.sanitise_text(f"{label + ' file':<16} {path}"))
    return 0


def describe_settings(settings: config.Settings) -> dict[str, Any]:
    """The settings as plain values."""
    shown: dict[str, Any] = {
        spec.key: {"value": spec.to_json(setting.value), "from": setting.source} for spec, setting in _each_setting(settings)
    }
    shown["log"]["file"] = open_log.find_file(settings)
    return {**shown, "files": settings.files, "ignored": settings.warnings}


def _each_setting(settings: config.Settings) -> Iterator[tuple[config.SettingSpec, config.Setting[Any]]]:
    return ((spec, getattr(settings, name)) for name, spec in config.SPECS.items())


def file_places() -> list[tuple[str, str]]:
    """Label and path of each settings file, or where it would be."""
    project, user = config.project_file(), config.user_file()
    return [
        ("project", project or f"none ({config.FILE_NAME} in this folder or above it)"),
        ("user", user if os.path.isfile(user) else f"none ({user})"),
    ]
