"""`lore service`: runs `lore up` in the background, started with your login: a systemd user unit or a launchd agent."""

from __future__ import annotations

import os
import subprocess
import sys
from typing import TYPE_CHECKING
from xml.sax.saxutils import escape

from fleetlore.cli import arguments, terminal
from fleetlore.cli.main import FAILED, OK
from fleetlore.errors import Invalid

if TYPE_CHECKING:
    from argparse import ArgumentParser, Namespace

UNIT, AGENT = "fleetlore.service", "org.fleetlore.up"
UNDO = "lore service uninstall"
_EXAMPLES = (
    ("lore service", "whether it is installed, and whether it runs"),
    ("lore service install", "start `lore up` now and with every login"),
    ("lore service uninstall", "stop it and remove the file"),
)
_NOTES = """\
It serves the control room on this machine only, imports what hooks recorded, and sends notifications.
It is one file of yours: ~/.config/systemd/user/fleetlore.service, or on macOS
~/Library/LaunchAgents/org.fleetlore.up.plist. Nothing is installed for other users.
"""


def configure(parser: ArgumentParser) -> None:
    """Add the arguments."""
    parser.add_argument("action", choices=("status", "install", "uninstall"), nargs="?", default="status", help="what to do (status)")
    arguments.add_json(parser)
    arguments.add_examples(parser, _EXAMPLES, _NOTES)


def run(args: Namespace) -> int:
    """Install the service, remove it, or print its state."""
    if args.action != "status":
        terminal.print_line(install_service() if args.action == "install" else uninstall_service())
        return OK
    path = find_file()
    is_installed, runs = os.path.exists(path), is_running()
    if args.json:
        terminal.print_value({"file": path, "installed": is_installed, "running": runs})
    else:
        state = "running" if runs else "installed, but not running"
        terminal.print_line(f"{state if is_installed or runs else 'not installed'} ({path})")
    return OK if runs or not is_installed else FAILED


def find_file() -> str:
    """The unit or agent file of this user."""
    if sys.platform == "darwin":
        return os.path.expanduser(f"~/Library/LaunchAgents/{AGENT}.plist")
    home = os.environ.get("XDG_CONFIG_HOME") or os.path.expanduser("~/.config")
    return os.path.join(home, "systemd", "user", UNIT)


def can_install() -> bool:
    """Whether this machine has a service manager for users that answers."""
    return sys.platform == "darwin" or _run_quietly("systemctl", "--user", "show-environment") == 0


def install_service() -> str:
    """Write the file and start the service; returns what was done. `Invalid` if there is no service manager."""
    from fleetlore.cli.install import own_path

    if not can_install():
        raise Invalid("the systemd user manager does not answer on this machine; run `lore up` instead, or under your own supervisor")
    path, command = find_file(), own_path()
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "w", encoding="utf-8") as file:
        file.write(make_agent(command) if sys.platform == "darwin" else make_unit(command))
    if sys.platform == "darwin":
        code = _run_quietly("launchctl", "bootstrap", f"gui/{os.getuid()}", path)
    else:
        _run_quietly("systemctl", "--user", "daemon-reload")
        code = _run_quietly("systemctl", "--user", "enable", "--now", UNIT)
    started = "It runs now and starts with your login." if code == 0 else "It could not be started; `lore up` in a terminal shows why."
    return f"{path} runs `lore up` in the background. {started}\nUndo it with `{UNDO}`."


def uninstall_service() -> str:
    """Stop the service and remove its file; returns what was done."""
    path = find_file()
    if not os.path.exists(path):
        return f"Nothing to do: there is no {path}."
    if sys.platform == "darwin":
        _run_quietly("launchctl", "bootout", f"gui/{os.getuid()}/{AGENT}")
    else:
        _run_quietly("systemctl", "--user", "disable", "--now", UNIT)
    os.unlink(path)
    if sys.platform != "darwin":
        _run_quietly("systemctl", "--user", "daemon-reload")
    return f"Stopped, and removed {path}."


def is_running() -> bool:
    """Whether the service manager says so."""
    if sys.platform == "darwin":
        return _run_quietly("launchctl", "print", f"gui/{os.getuid()}/{AGENT}") == 0
    return _run_quietly("systemctl", "--user", "is-active", "--quiet", UNIT) == 0


def make_unit(command: str) -> str:
    """The systemd user unit."""
    for letter, escaped in (("\\", "\\\\"), ('"', '\\"'), ("%", "%%"), ("$", "$$")):
        command = command.replace(letter, escaped)
    return f"""\
[Unit]
Description=Fleetlore: control room and notifications

[Service]
ExecStart="{command}" up
Restart=on-failure
RestartSec=5
UMask=0077
NoNewPrivileges=yes

[Install]
WantedBy=default.target
"""


def make_agent(command: str) -> str:
    """The launchd agent."""
    log = os.path.expanduser("~/Library/Logs/fleetlore.log")
    return f"""\
<?xml version="1.0" encoding="UTF-8"?>
<!DOCTYPE plist PUBLIC "-//Apple//DTD PLIST 1.0//EN" "http://www.apple.com/DTDs/PropertyList-1.0.dtd">
<plist version="1.0">
<dict>
  <key>Label</key><string>{AGENT}</string>
  <key>ProgramArguments</key><array><string>{escape(command)}</string><string>up</string></array>
  <key>RunAtLoad</key><true/>
  <key>KeepAlive</key><dict><key>SuccessfulExit</key><false/></dict>
  <key>Umask</key><integer>63</integer>
  <key>StandardErrorPath</key><string>{escape(log)}</string>
</dict>
</plist>
"""


def _run_quietly(*command: str) -> int:
    try:
        return subprocess.run(command, check=False, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, timeout=20).returncode
    except (OSError, subprocess.TimeoutExpired):
        return 127
