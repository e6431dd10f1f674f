"""What an agent's program sees of our environment: what it needs to live, what is its own, and the mark of its turn. Nothing of ours."""

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
    """What stays of the environment, and what `keep` names besides (`ANTHROPIC_*`, `EDITOR`); what is ours never does."""
    stays = (*_KEPT_VARIABLES, *keep)
    kept = {
        name: value for name, value in environ.items() if not name.startswith(_OWN_PREFIX) and any(fnmatchcase(name, one) for one in stays)
    }
    return add_turn_mark(kept, mark, outer=environ.get(TURN_VARIABLE, ""))


def add_turn_mark(env: Mapping[str, str], mark: str, *, outer: str = "") -> dict[str, str]:
    """With the mark, behind those of the turns that this one is part of: who ends an outer turn finds the inner one's processes, too."""
    marks = [*_split_marks(outer), *_split_marks(env.get(TURN_VARIABLE, "")), mark]
    return {**env, TURN_VARIABLE: ",".join(dict.fromkeys(marks))}


def has_turn_mark(value: str, mark: str) -> bool:
    """Whether the variable's value names this turn."""
    return bool(mark) and (value == mark or mark in _split_marks(value))


def _split_marks(value: str) -> list[str]:
    return [one for one in value.split(",") if one]
