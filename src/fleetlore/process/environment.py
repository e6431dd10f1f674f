"""What an agent's program sees of our environment: what it needs to live, what is its own, and the mark of its turn. Nothing of ours."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from fnmatch import fnmatchcase

MARK = "LORE_TURN"
"""The variable by which every process of a turn is found."""

HOUSE = ("HOME", "PATH", "USER", "LOGNAME", "SHELL", "TERM", "TMPDIR", "LANG", "LANGUAGE", "LC_*", "TZ", "XDG_*")
PROXIES = ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY", "http_proxy", "https_proxy", "all_proxy", "no_proxy")
CERTIFICATES = ("SSL_CERT_FILE", "SSL_CERT_DIR", "NODE_EXTRA_CA_CERTS", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE")

_STAYS = (*HOUSE, *PROXIES, *CERTIFICATES)
_OURS = "FLEETLORE_"


def scrubbed(environ: Mapping[str, str], *, keep: Sequence[str] = (), mark: str) -> dict[str, str]:
    """What stays of the environment, and what `keep` names besides (`ANTHROPIC_*`, `EDITOR`); what is ours never does."""
    stays = (*_STAYS, *keep)
    kept = {name: value for name, value in environ.items() if not name.startswith(_OURS) and any(fnmatchcase(name, one) for one in stays)}
    return marked(kept, mark, outer=environ.get(MARK, ""))


def marked(env: Mapping[str, str], mark: str, *, outer: str = "") -> dict[str, str]:
    """With the mark, behind those of the turns that this one is part of: who ends an outer turn finds the inner one's processes, too."""
    marks = [*_marks(outer), *_marks(env.get(MARK, "")), mark]
    return {**env, MARK: ",".join(dict.fromkeys(marks))}


def carries(value: str, mark: str) -> bool:
    """Whether the variable's value names this turn."""
    return bool(mark) and (value == mark or mark in _marks(value))


def _marks(value: str) -> list[str]:
    return [one for one in value.split(",") if one]
