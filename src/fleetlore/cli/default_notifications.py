"""The notifications that `lore setup` and `lore notify on` switch on: a marked part of your own fleetlore.toml."""

from __future__ import annotations

import os
import re
from urllib.parse import urlsplit

from fleetlore import settings as config
from fleetlore.documents.atomic_file import write_atomically
from fleetlore.errors import ConfigError, Invalid

BEGIN, END = "# --- begin: lore notify on", "# --- end: lore notify on"
UNDO = "lore notify off"
WHENS = ("needs you", "finished", "failed", "looping", "budget")
BRIEF = "daily 08:00"
_PART = re.compile(rf"\n?{re.escape(BEGIN)}.*?{re.escape(END)}\n", re.DOTALL)


def is_on() -> bool:
    """Whether the marked part is there."""
    return BEGIN in _read_file(config.user_file())


def turn_on(address: str = "", *, zone: str = "UTC") -> str:
    """Write the marked part: the desktop, and an address if given. Returns the file."""
    path, targets = config.user_file(), [("desktop", "desktop = true")]
    if address:
        targets.append(("phone", describe_target(address)))
    rules = []
    for name, target in targets:
        rules += [f'[[notify]]\nname = "{name}-{when.replace(" ", "-")}"\nwhen = "{when}"\n{target}\n' for when in WHENS]
        rules.append(f'[[notify]]\nname = "{name}-brief"\nbrief = "{BRIEF}"\nzone = "{zone}"\n{target}\n')
    part = f"{BEGIN} (`{UNDO}` removes this part)\n" + "\n".join(rules) + f"{END}\n"
    before = _PART.sub("", _read_file(path))
    _write_file(path, f"{before.rstrip()}\n\n{part}" if before.strip() else part)
    return path


def turn_off() -> tuple[str, bool]:
    """Remove the marked part; returns the file, and whether it was there."""
    path = config.user_file()
    before = _read_file(path)
    after = _PART.sub("", before)
    if after == before:
        return path, False
    if after.strip():
        _write_file(path, after)
    else:
        os.unlink(path)
    return path, True


def describe_target(address: str) -> str:
    """The keys of a rule that sends to an address: ntfy, Slack and Discord are recognised by their host, others get JSON."""
    parts = urlsplit(address if "://" in address else f"https://{address}")
    host = parts.hostname or ""
    if not host or parts.scheme not in ("http", "https") or not address.isascii() or re.search(r'["\\\s]', address):
        raise Invalid("an address that begins with https:// is needed, as in https://ntfy.sh/your-topic")
    form = "slack" if host == "hooks.slack.com" else "discord" if host.startswith("discord") else "ntfy" if "ntfy" in host else "json"
    return f'webhook = "{parts.geturl()}"\nformat = "{form}"'


def _read_file(path: str) -> str:
    try:
        with open(path, encoding="utf-8") as file:
            return file.read()
    except FileNotFoundError:
        return ""
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"{path}: cannot be read ({error}); nothing was changed") from error


def _write_file(path: str, text: str) -> None:
    os.makedirs(os.path.dirname(path), mode=0o700, exist_ok=True)
    with write_atomically(path, mode=0o600) as file:
        file.write(text.encode())
