"""`lore doctor`: checks the installation, the settings and the log."""

from __future__ import annotations

import os
import platform
import re
from datetime import timedelta
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

from fleetlore import __version__, clock, plugins
from fleetlore import settings as config
from fleetlore.cli import arguments, open_log, terminal
from fleetlore.errors import BrokenExtension, Invalid

if TYPE_CHECKING:
    from argparse import ArgumentParser, Namespace

    from fleetlore.log.recorder import BlockingRecorder
    from fleetlore.plugins import ExtensionPoint, ExtensionStatus
    from fleetlore.programs.hook_settings import HookFile


# --- Extensions of installed packages: each is loaded, and those that fail are listed.


def extension_points() -> list[ExtensionPoint[Any]]:
    """All entry point groups."""
    from fleetlore.dialects.registry import DIALECT_EXTENSIONS
    from fleetlore.events.installed_kinds import KINDS
    from fleetlore.goal.acceptance.verifiers import VERIFIERS
    from fleetlore.goal.harnesses import HARNESSES
    from fleetlore.graph.registry import NODES
    from fleetlore.programs.registry import PROGRAMS
    from fleetlore.story.vocabulary import VOCABULARIES

    return [PROGRAMS, DIALECT_EXTENSIONS, KINDS, VOCABULARIES, NODES, HARNESSES, VERIFIERS]


def find_extensions() -> list[ExtensionStatus]:
    """All installed extensions, and their errors."""
    installed = plugins.list_installed()
    if not installed:
        return []
    known = extension_points()
    groups = [point.group for point in known]
    astray = [
        plugins.ExtensionStatus(each, f"there is no extension point {each.group}; choose from {', '.join(groups)}")
        for each in installed
        if each.group not in groups
    ]
    return [*(_check_parts(finding) for point in known for finding in point.check_all()), *astray]


def _check_parts(finding: ExtensionStatus) -> ExtensionStatus:
    """Load all parts of a coding agent, which are otherwise loaded when needed."""
    from fleetlore.programs import registry

    if finding.problem is not None or finding.extension.group != registry.PROGRAMS.group:
        return finding
    program = registry.find_program(finding.extension.name)
    return finding if program is None else finding._replace(problem=registry.find_problem(program))


def describe_extensions(problems: list[str]) -> list[dict[str, Any]]:
    """The extensions for the report; errors are added to its problems."""
    found = find_extensions()
    for (_, name, _, package, version), problem in found:
        if problem is not None:
            problems.append(str(BrokenExtension(name, f"{package} {version}", problem)))
    return [
        {"group": each.group, "name": each.name, "package": each.package, "version": each.version, "usable": problem is None}
        for each, problem in found
    ]


# --- Coding agents on this machine.

_VERSION_SECONDS = 5.0
_VERSION = re.compile(r"\d{1,9}\.\d{1,9}(?:[.+-]?\w{1,30}){0,6}")


def describe_programs() -> list[dict[str, Any]]:
    """Every coding agent that is installed here or has left recordings: its version, what is read of it, and what it deletes."""
    from shutil import which

    from fleetlore.ingest import discovery
    from fleetlore.programs import registry

    found = []
    for program in registry.load_programs():
        executable, places = which(program.command), [place for place in program.recording_folders() if os.path.exists(place)]
        if executable is None and not places:
            continue
        file = registry.find_hook_file(program)
        found.append(
            {
                "name": program.name,
                "title": program.title,
                "executable": executable,
                "version": None if executable is None else _ask_version(executable),
                "recordings": places,
                "files": sum(1 for place in places for _ in discovery.iterate_recordings(place)),
                "hooks": None if file is None else _are_hooks_installed(file),
                "deletes": program.deletes or None,
            }
        )
    return found


def _ask_version(executable: str) -> str | None:
    """The version that a program prints; `None` if it prints none in time."""
    import subprocess

    try:
        done = subprocess.run(
            [executable, "--version"], stdin=subprocess.DEVNULL, capture_output=True, timeout=_VERSION_SECONDS, check=False
        )
    except (OSError, subprocess.SubprocessError):
        return None
    found = _VERSION.search(done.stdout.decode(errors="replace")) if done.returncode == 0 else None
    return found[0] if found else None


def _are_hooks_installed(file: HookFile) -> bool:
    from fleetlore.errors import ConfigError

    try:
        return not file.find_missing_events()
    except (ConfigError, OSError):  # `lore install` says what is wrong with the file
        return False


def _format_program(about: dict[str, Any]) -> str:
    name = about["title"] if about["executable"] else f"{about['title']} (not on the PATH)"
    files = f"{about['files']:,} {'file' if about['files'] == 1 else 'files'} in {', '.join(about['recordings'])}"
    parts = [
        f"{name} {about['version']}" if about["version"] else name,
        files if about["recordings"] else "has recorded nothing yet",
        {True: "hooks installed", False: f"no hooks; `lore install {about['name']}` adds them", None: ""}[about["hooks"]],
        f"deletes {about['deletes']}" if about["deletes"] else "",
    ]
    return terminal.sanitise_text(" · ".join(part for part in parts if part))


# --- Which of the extras of `pip install 'fleetlore[NAME]'` are here, as the package itself describes them.

_GATHERING = ("models", "all")
_WANTED = re.compile(r"([\w.-]++)[^;]*+;.*\bextra == ['\"]([\w-]+)['\"]")


def find_installed_extras() -> dict[str, bool]:
    """Each extra and whether its packages are installed, without extras that only combine others."""
    from importlib.metadata import PackageNotFoundError, requires

    try:
        described = requires("fleetlore") or []
    except PackageNotFoundError:  # run from a folder of source code
        return {}
    found: dict[str, bool] = {}
    for line in described:
        if (matched := _WANTED.match(line)) and (extra := matched[2]) not in _GATHERING:
            found[extra] = found.get(extra, True) and _is_here(matched[1])
    return found


def _is_here(package: str) -> bool:
    from importlib.metadata import PackageNotFoundError, version

    try:
        version(package)
    except PackageNotFoundError:
        return False
    return True


# ---

TRUST = "not sealed: anyone who can write {} is trusted"
SEALED = "sealed: goals obey only what was signed with its passphrase"
_CLIENTS = {"redis": ("redis", "hiredis"), "nats": ("nats-py",)}
_SERVER_FACTS = (
    "server",
    "keeps",
    "cut_by_others",
    "replicas",
    "stream",
    "sync_interval",
    "leader",
    "lagging_replicas",
    "appendfsync",
    "eviction",
    "maxmemory",
)
LARGE_BYTES = 2 << 30
"""From here on the report says how to make the log smaller."""
_YEAR = 365
_NETWORK_FILE_SYSTEMS = ("nfs", "cifs", "smb", "9p", "fuse.sshfs", "afs", "ceph", "glusterfs")
_WEEK = timedelta(days=7)
_SCRIPT_BYTES = 1 << 16
_EXAMPLES = (
    ("lore doctor", "paths, versions, the log's size and growth"),
    ("lore doctor --json", "the same for programs, or for a bug report"),
)


def configure(parser: ArgumentParser) -> None:
    """Add the arguments."""
    arguments.add_json(parser)
    arguments.add_examples(
        parser,
        _EXAMPLES,
        "Exit code: 0 all well, 1 the log cannot be read or written, an extension cannot be used,\nor a notification rule is invalid.",
    )


def run(args: Namespace) -> int:
    """Run all checks; a check that fails to run is a finding."""
    settings = open_log.load_settings_for(args)
    versions, files = _find_versions(settings.log.value), list(settings.files)
    report: dict[str, Any] = {"versions": versions, "settings": {"files": files, "ignored": settings.warnings}, "log": {}, "problems": []}
    log = report["log"]
    log |= {"url": config.mask_url(settings.log.value), "town": settings.town.value}
    path = open_log.find_file(settings)
    if path is not None:
        log |= _about_file(path, report["problems"], is_own=settings.log.value == config.DEFAULT_LOG)
    if path is None or log["exists"]:
        _inspect_log(args, settings, report)
    report |= {
        "compiled": _find_compiled_modules(),
        "commands": _about_commands(),
        "pages": _pages_are_built(),
        "extras": find_installed_extras(),
        "programs": describe_programs(),
        "extensions": describe_extensions(report["problems"]),
        "notify": _about_rules(settings, report["problems"]),
    }
    if args.json:
        terminal.print_value(report)
    else:
        _print_report(report)
    return 1 if report["problems"] else 0


def _find_versions(url: str) -> dict[str, str]:
    from importlib.metadata import PackageNotFoundError, version

    import apsw
    import msgspec

    clients = {}
    for name in _CLIENTS["nats" if url.startswith(("nats:", "tls:")) else "redis"] if open_log.is_server(url) else ():
        try:
            clients[name] = version(name)
        except PackageNotFoundError:
            clients[name] = "not installed"
    return clients | {
        "fleetlore": __version__,
        "python": platform.python_version(),
        "sqlite": apsw.sqlite_lib_version(),
        "apsw": apsw.apsw_version(),
        "msgspec": msgspec.__version__,
        "system": f"{platform.system()} {platform.release()} {platform.machine()}",
    }


def _find_compiled_modules() -> list[str]:
    """Whether the C extension is in use."""
    return ["what is done for every event"] if find_spec("fleetlore._quick") is not None else []


def _about_commands() -> dict[str, Any]:
    """Which programs the PATH has for our two names, and whether its `lore` is another package's."""
    from shutil import which

    found = which("lore")
    return {"lore": found, "fleetlore": which("fleetlore"), "foreign_lore": found is not None and _is_foreign(found)}


def _is_foreign(path: str) -> bool:
    """Whether a program is another package's. Our entry script imports `fleetlore`; a `#!` line may name it by chance, as a folder."""
    if os.path.basename(os.path.realpath(path)) == "fleetlore":
        return False
    try:
        with open(path, "rb") as file:
            first = file.readline(_SCRIPT_BYTES)
            return b"fleetlore" not in (b"" if first.startswith(b"#!") else first) + file.read(_SCRIPT_BYTES)
    except OSError:
        return False


def _about_rules(settings: config.Settings, problems: list[str]) -> dict[str, str]:
    """Notification rules that cannot fire, by name, and why."""
    from fleetlore.errors import ConfigError
    from fleetlore.server.notifications.rules import parse_rules

    try:
        return {rule.name: rule.note for rule in parse_rules(settings) if rule.note is not None}
    except ConfigError as error:
        problems.append(str(error))
        return {}


def _pages_are_built() -> bool:
    from fleetlore.server import pages

    return pages.are_built()


def _about_file(path: str, problems: list[str], *, is_own: bool) -> dict[str, Any]:
    exists = os.path.exists(path)
    folder = os.path.dirname(os.path.abspath(path))
    while is_own and not os.path.exists(folder):
        folder = os.path.dirname(folder)  # missing folders will be created
    writable = os.access(folder, os.W_OK | os.X_OK) and (not exists or os.access(path, os.W_OK))
    if not writable:
        is_read_only = os.path.exists(folder) and os.statvfs(folder).f_flag & os.ST_RDONLY
        reason = "is on a read-only file system" if is_read_only else "check the permissions of the file and its folder"
        problems.append(f"{path}: cannot be written; {reason}")
    return {"path": os.path.abspath(path), "exists": exists, "writable": writable, "trust": TRUST.format("this file")}


def _inspect_log(args: Namespace, settings: config.Settings, report: dict[str, Any]) -> None:
    from fleetlore.errors import FleetloreError

    try:
        with open_log.open_log(args, settings=settings) as log:
            report["log"] |= _about_log(log)
        report["log"] |= _about_seal(settings)
    except FleetloreError as error:
        report["problems"].append(str(error))


def _about_seal(settings: config.Settings) -> dict[str, Any]:
    """Whether the log is sealed; a log in memory never is."""
    from fleetlore.log.connect import split_url
    from fleetlore.log.coordination import open_shared

    if split_url(settings.log.value)[0] == "memory":
        return {"sealed": False}
    with open_shared(settings.log.value, town=settings.town.value) as shared:
        return {"sealed": False} if shared.load_seal() is None else {"sealed": True, "trust": SEALED}


def _about_log(log: BlockingRecorder) -> dict[str, Any]:
    info = log.info()
    newest = next(log.read(newest_first=True, limit=1), None)
    about = {
        "backend": info.backend,
        "log_id": info.log_id,
        "events": info.events,
        "bytes": info.bytes,
        "dedup": info.dedup,
        "durability": info.durability,
        "towns": info.details.get("towns", [info.town]),
        "newest": newest.at.isoformat() if newest is not None and newest.at is not None else None,
    }
    if info.events and len(about["towns"]) == 1:
        about["bytes_per_event"] = round(info.bytes / info.events)
    about["events_per_day"] = _events_per_day(log, info.events)
    about["archive_bytes"] = info.details.get("archive_bytes", 0)
    if info.backend in _CLIENTS:
        about |= {"trust": TRUST.format("to this server"), **{key: info.details[key] for key in _SERVER_FACTS if key in info.details}}
    about["advice"] = _advise_on_size(about, info.details.get("path"))
    return about


def _advise_on_size(about: dict[str, Any], path: str | None) -> list[str]:
    """What to do about the size of the log and where it lies, in the order of urgency."""
    advice = []
    grows = about["events_per_day"] * about.get("bytes_per_event", 0)
    if path is not None:
        if (kind := _find_network_file_system(path)) is not None:
            advice.append(f"the log is on a network drive ({kind}), where SQLite's locks are not reliable; keep it on a local disk")
        free = _free_bytes(path)
        if grows and free < grows * _YEAR / 12:
            advice.append(
                f"the disk has {format_bytes(free)} left, enough for {free // grows:,} days; archiving does not free it: make room"
            )
    if about["bytes"] >= LARGE_BYTES:
        if about["backend"] == "sqlite":
            advice.append(
                "`lore archive --before 90d` keeps everything and makes room in the log; `lore trim --before 1y` deletes for good"
            )
        else:
            advice.append("`lore trim --before 1y` deletes the oldest events; `lore ship --to sqlite:PATH` keeps a copy of them first")
        advice.append('to trim by itself, set keep = "1y" under [retention] in fleetlore.toml')
    if about["backend"] == "nats" and about.get("sync_interval") not in (None, "always"):
        advice.append("a power cut may take acknowledged events: set `sync_interval: always` on the servers (docs/backends.md)")
    if about.get("lagging_replicas"):
        advice.append(f"replicas that lag or are offline: {', '.join(about['lagging_replicas'])}; see that their servers run")
    return advice


def _free_bytes(path: str) -> int:
    status = os.statvfs(os.path.dirname(path))
    return status.f_bavail * status.f_frsize


def _find_network_file_system(path: str) -> str | None:
    """The type of the network drive that a file is on; `None` for a local disk, or where /proc/mounts does not exist."""
    try:
        with open("/proc/mounts") as mounts:
            points = [line.split()[1:3] for line in mounts]
    except OSError:
        return None
    real = os.path.realpath(path)
    found = max((each for each in points if os.path.commonpath([real, each[0]]) == each[0]), key=lambda each: len(each[0]), default=None)
    return found[1] if found is not None and found[1].startswith(_NETWORK_FILE_SYSTEMS) else None


def _events_per_day(log: BlockingRecorder, events: int) -> int:
    """Events per day over the last week, or since the first event if that is later; estimated from positions."""
    now = clock.now()
    first = next(log.read(since=now - _WEEK, limit=1), None)
    head = log.head()
    if first is None or first.at is None or first.position is None or head is None:
        return 0
    days = max(1.0, (now - first.at) / timedelta(days=1))
    return round(min(events, _count_positions(first.position, head, events)) / days)


def _count_positions(first: str, last: str, otherwise: int) -> int:
    """How many positions lie between two, both counted; not every log's positions are numbers in a row."""
    from fleetlore.log.base import to_sequence

    try:
        return to_sequence(last) - to_sequence(first) + 1
    except Invalid:
        return otherwise


def _print_report(report: dict[str, Any]) -> None:
    for name, version in report["versions"].items():
        _print_row(name, version)
    _print_row("compiled", " and ".join(report["compiled"]) or "nothing: it does the same, more slowly (docs/decisions/0011)")
    _print_row("pages", "inside" if report["pages"] else "not built; `make web` makes them, and all but the control room works without")
    _print_extras(report["extras"])
    _print_commands(report["commands"])
    log = report["log"]
    _print_row("log", log.get("path") or log["url"])
    if "exists" in log and not log["exists"]:
        _print_row("", "not there yet; the first event makes it: try `lore setup`, or `lore demo` to look around")
    if "server" in log:
        _print_row("server", log["server"])
    elif "events" in log or "writable" in log:
        _print_row("writable", {True: "yes", False: "no", None: "not kept"}[log.get("writable")])
    _print_row("town", log["town"])
    if "events" in log:
        _print_numbers(log)
    if "trust" in log:
        _print_row("trust", log["trust"])
    for file in report["settings"]["files"] or ["no files, all defaults"]:
        _print_row("settings", file)
    for each in report["programs"]:
        _print_row("program", _format_program(each))
    for each in report["extensions"]:
        is_out = "" if each["usable"] else ": left out"
        _print_row("extension", f"{each['name']} ({each['group']}) of {each['package']} {each['version']}{is_out}")
    for name, note in report["notify"].items():
        _print_row("notify", f"{name} {note}")
    _print_verdict(report["problems"])


def _print_verdict(problems: list[str]) -> None:
    for problem in problems:
        terminal.print_error(f"lore: {problem}")
    if not problems:
        terminal.print_line("\nAll is well.")


def _print_extras(here: dict[str, bool]) -> None:
    _print_row("extras", ", ".join(name for name, is_here in here.items() if is_here) or "none")
    if missing := [name for name, is_here in here.items() if not is_here]:
        _print_row("", f"not installed: {', '.join(missing)} (pip install 'fleetlore[NAME]')")


def _print_commands(commands: dict[str, Any]) -> None:
    _print_row("command", commands["fleetlore"] or "`fleetlore` is not on the PATH; hooks in shared project settings need it there")
    if commands["foreign_lore"]:
        _print_row("", f"`lore` on the PATH is another program: {commands['lore']}. Hooks are not affected.")
        _print_row("", "Type `fleetlore` in place of `lore`, or put the folder of `fleetlore` first in PATH.")


def _print_numbers(log: dict[str, Any]) -> None:
    per_event = log.get("bytes_per_event")
    _print_row("towns", ", ".join(log["towns"]) or "none yet")
    _print_row("events", f"{log['events']:,}")
    _print_row(
        "memory" if log["backend"] == "redis" else "size",
        format_bytes(log["bytes"]) + (f", {per_event:,} bytes an event" if per_event else ""),
    )
    growth = f"{log['events_per_day']:,} event{'' if log['events_per_day'] == 1 else 's'} a day" + (
        f", {format_bytes(log['events_per_day'] * per_event)}" if per_event else ""
    )
    yearly = format_bytes(log["events_per_day"] * per_event * _YEAR) if per_event and log["events_per_day"] else ""
    _print_row("growth", f"about {growth}, over the last week" + (f"; {yearly} a year" if yearly else ""))
    if log.get("archive_bytes"):
        _print_row("archive", f"{format_bytes(log['archive_bytes'])}, compressed")
    for line in log.get("advice", ()):
        _print_row("advice", line)
    _print_row("last stored", f"an event of {log['newest']}" if log["newest"] else "none yet")
    _print_row("durability", log["durability"])
    if "replicas" in log:
        _print_row("replicas", f"{log['replicas']}, leader {log.get('leader') or 'none'}, sync_interval {log.get('sync_interval')}")
    if "appendfsync" in log:
        limit = format_bytes(log["maxmemory"]) if log.get("maxmemory") else "no limit"
        _print_row("settings", f"appendfsync {log['appendfsync']}, eviction {log['eviction']}, memory {limit}")
    if "server" in log:
        _print_row("same id", f"known again for {log['dedup']}" if "hour" in log["dedup"] else f"known again {log['dedup']}")
    if log.get("keeps") == "tinytown":
        _print_row("keeps", "only the newest 1,000 events of the town, 100 of an agent, 500 of a mission, as tinytown does")
    if log.get("cut_by_others"):
        _print_row("", f"{log['cut_by_others']:,} entries were cut off by another writer's cap (tinytown's own programs do that)")


def _print_row(name: str, value: str) -> None:
    terminal.print_line(terminal.sanitise_text(f"{name:<12} {value}"))


def format_bytes(count: float) -> str:
    """A size for people."""
    for unit in ("bytes", "KiB", "MiB"):
        if count < 1024:
            return f"{count:,.0f} {unit}" if unit == "bytes" else f"{count:,.1f} {unit}"
        count /= 1024
    return f"{count:,.1f} GiB"
