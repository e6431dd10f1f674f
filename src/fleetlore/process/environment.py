"""The environment of an agent's program: basic variables, its own settings, and the mark of its turn; no variables of Fleetlore."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from fnmatch import fnmatchcase

TURN_VARIABLE = "LORE_TURN"
"""The variable by which every process of a turn is found."""

SYSTEM_VARIABLES = ("HOME", "PATH", "USER", "LOGNAME", "SHELL", "TERM", "TMPDIR", "LANG", "LANGUAGE", "LC_*", "TZ", "XDG_*")
PROXY_VARIABLES = ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY", "http_proxy", "https_proxy", "all_proxy", "no_proxy")
CERTIFICATE_VARIABLES = ("SSL_CERT_FILE", "SSL_CERT_DIR", "NODE_EXTRA_CA_CERTS", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE")

_KEPT_VARIABLES = (*SYSTEM_VARIABLES, *PROXY_VARIABLES, *CERTIFICATE_VARIABLES)
_OWN_PREFIX = "FLEETLORE_"


def scrub_environment(environ: Mapping[str, str], *, keep: Sequence[str] = (), mark: str) -> dict[str, str]:
    """The basic variables and those that `keep` names (`ANTHROPIC_*`, `EDITOR`); never our own."""
    stays = (*_KEPT_VARIABLES, *keep)
    kept = {
        name: value for name, value in environ.items() if not name.startswith(_OWN_PREFIX) and any(fnmatchcase(name, one) for one in stays)
    }
    return add_turn_mark(kept, mark, outer=environ.get(TURN_VARIABLE, ""))


def add_turn_mark(env: Mapping[str, str], mark: str, *, outer: str = "") -> dict[str, str]:
    """Add the mark after the marks of the enclosing turns, so that ending an outer turn also finds the processes of inner ones."""
    marks = [*_split_marks(outer), *_split_marks(env.get(TURN_VARIABLE, "")), mark]
    return {**env, TURN_VARIABLE: ",".join(dict.fromkeys(marks))}


def has_turn_mark(value: str, mark: str) -> bool:
    """Whether the variable's value names this turn."""
    return bool(mark) and (value == mark or mark in _split_marks(value))


def _split_marks(value: str) -> list[str]:
    return [one for one in value.split(",") if one]
