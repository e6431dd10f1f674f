"""`lore trust`: approve the `fleetlore.toml` of a project, by its exact content."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from fleetlore import settings as config
from fleetlore.cli import arguments, confirm, terminal
from fleetlore.cli.main import OK
from fleetlore.errors import Invalid

if TYPE_CHECKING:
    from argparse import ArgumentParser, Namespace

_EXAMPLES = (
    ("lore trust", "show the nearest fleetlore.toml, and approve it"),
    ("lore trust ~/shop --yes", "approve the file of a folder without asking"),
    ("lore trust --list", "list what is approved"),
    ("lore trust --revoke", "take the approval back"),
)
_NOTES = """\
A project's fleetlore.toml comes with a repository that others may have written. Until you approve it,
it may only name a log inside the project. An approval holds for this file with this content: if it
changes, approve it again. Approvals are files in the folder of your own settings.
"""


def configure(parser: ArgumentParser) -> None:
    """A file or folder, and what to do."""
    parser.add_argument("path", metavar="PATH", nargs="?", help="a fleetlore.toml, or a folder (default: the current one)")
    parser.add_argument("--list", action="store_true", help="list approved files, and whether they changed since")
    parser.add_argument("--revoke", action="store_true", help="take back the approval of this file")
    parser.add_argument("--yes", action="store_true", help="do not ask")
    arguments.add_json(parser)
    arguments.add_examples(parser, _EXAMPLES, _NOTES)


def run(args: Namespace) -> int:
    """Approve, revoke or list."""
    if args.list:
        return _list_approvals(args)
    path = _find_file(args.path)
    if args.revoke:
        count = _revoke_approvals(path)
        terminal.print_line(terminal.sanitise_text(f"{path}: {'approval taken back' if count else 'was not approved'}"))
        return OK
    with open(path, "rb") as file:
        content = file.read(config.MAX_PROJECT_BYTES + 1)
    if len(content) > config.MAX_PROJECT_BYTES:
        raise Invalid(f"{path}: is larger than {config.MAX_PROJECT_BYTES:,} bytes; settings are shorter, move the file away")
    if config.is_trusted(path, content):
        terminal.print_line(terminal.sanitise_text(f"{path}: is approved already"))
        return OK
    for line in content.decode(errors="replace").splitlines():
        terminal.print_line(f"  {terminal.sanitise_text(line)}")
    if not args.yes and not confirm.ask_yes_no(f"Approve {terminal.sanitise_text(path)} with this content?"):
        return 1
    approve_file(path, content)
    terminal.print_line(terminal.sanitise_text(f"{path}: approved"))
    return OK


def _find_file(given: str | None) -> str:
    path = os.path.abspath(given or os.getcwd())
    found = config.project_file(path) if os.path.isdir(path) else path
    if found is None or not os.path.isfile(found):
        raise Invalid(f"{path}: no {config.FILE_NAME} of yours was found here or in a folder above; name the file")
    return found


def approve_file(path: str, content: bytes) -> None:
    """Store the approval of a project file: a file named by the digest, which holds the path."""
    folder = config.trust_folder()
    os.makedirs(folder, mode=0o700, exist_ok=True)
    _revoke_approvals(path)
    approval = os.path.join(folder, config.trust_digest(path, content))
    descriptor = os.open(approval, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW, 0o600)
    with os.fdopen(descriptor, "wb") as file:
        file.write(os.fsencode(config.trusted_path(path)))


def _revoke_approvals(path: str) -> int:
    approvals = [name for name, approved in _read_approvals() if approved == config.trusted_path(path)]
    for name in approvals:
        os.unlink(os.path.join(config.trust_folder(), name))
    return len(approvals)


def _read_approvals() -> list[tuple[str, str]]:
    """Name and path of each approval."""
    folder = config.trust_folder()
    approvals = []
    for name in sorted(os.listdir(folder)) if os.path.isdir(folder) else ():
        with open(os.path.join(folder, name), "rb") as file:
            approvals.append((name, os.fsdecode(file.read())))
    return approvals


def _list_approvals(args: Namespace) -> int:
    rows = [{"file": path, "state": _describe_state(name, path)} for name, path in _read_approvals()]
    if args.json:
        terminal.print_value({"approved": rows})
        return OK
    for row in rows:
        terminal.print_line(terminal.sanitise_text(f"{row['file']}  {row['state']}"))
    if not rows:
        terminal.print_line("no project file is approved")
    return OK


def _describe_state(name: str, path: str) -> str:
    if not os.path.isfile(path):  # a pipe in its place would be waited for
        return "gone"
    try:
        with open(path, "rb") as file:
            content = file.read(config.MAX_PROJECT_BYTES + 1)
    except OSError:
        return "gone"
    return "approved" if config.trust_digest(path, content) == name else "changed since; not used"
