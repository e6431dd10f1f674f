"""What clients of models raise and endpoints complain of, in our own words, without the key."""

from __future__ import annotations

from collections.abc import Mapping
from types import ModuleType
from typing import Any

from fleetlore import clock
from fleetlore.errors import MindBusy, MindError, MindNonsense, MindRefused, MindTimeout
from fleetlore.minds.retrying import CONNECTION, retry_after
from fleetlore.redact import MASK, Redactor

_SHOWN = 300
_LEAST_HIDDEN = 4
"""A shorter key would be found in every other word."""

_STATUS_BY_WORD = (
    ("quota", 402),
    ("billing", 402),
    ("rate", 429),
    ("overloaded", 529),
    ("unavailable", 503),
    ("timeout", 504),
    ("server", 500),
    ("api_error", 500),
    ("internal", 500),
    ("authentication", 401),
    ("permission", 403),
    ("not_found", 404),
)
_ADVICE = {
    401: "see to the key in its variable",
    402: "there is no credit left, or none for this",
    403: "see to the key in its variable, and what it may do",
    404: "see to the model's name and to base_url",
    413: "make the prompt shorter",
}


class Failures:
    """The words of one mind. `sdk` is its client library; both libraries name their errors alike."""

    def __init__(self, name: str, sdk: ModuleType, key: str) -> None:
        self.name, self._sdk, self._key = name, sdk, key

    def in_our_words(self, error: Exception) -> MindError:
        """The same failure as a `MindError`."""
        if isinstance(error, MindError):
            return error
        if isinstance(error, self._sdk.APIStatusError):
            return self._of_status_error(error)
        if _is_named(error, "APITimeoutError", "ConnectTimeout", "PoolTimeout"):
            return MindTimeout(f"{self.name}: no connection in time; see to base_url and the network", waiting_for=CONNECTION)
        if isinstance(error, self._sdk.APIConnectionError) or _is_named(error, "TransportError", "StreamError"):
            return MindBusy(f"{self.name}: the connection failed ({self._said(error.__cause__ or error)})")
        if isinstance(error, self._sdk.APIError):
            return self.of_complaint(error.body or {"message": error.message})
        return MindNonsense(f"the endpoint sent what its protocol does not know ({type(error).__name__}: {self._said(error)})")

    def of_complaint(self, body: object) -> MindError:
        """What a body says that came with status 200."""
        status, words = complaint(body)
        return self.of_status(status or 400, words or "it reports an error and does not say which")

    def of_status(self, status: int, words: str, headers: Mapping[str, str] | None = None) -> MindError:
        """By an HTTP status: 429 and 5xx pass, everything else does not."""
        told = f"{self.name}: {status}: {self._said(words)}"
        if status == 429 or status >= 500:
            return MindBusy(told, status=status, retry_after=retry_after(headers or {}, clock.now()))
        advice = _ADVICE.get(status)
        return MindRefused(f"{told}; {advice}" if advice else told, status=status)

    def _of_status_error(self, error: Any) -> MindError:
        status, words = complaint(error.body)
        # A stream that has begun with 200 may still end in an error.
        if error.status_code == 200 or (status == 402 and error.status_code == 429):
            return self.of_status(status or 500, words or error.message)
        if 300 <= error.status_code < 400:
            words = f"it points to {error.response.headers.get('location', 'another place')}; name that in base_url"
        return self.of_status(error.status_code, words or error.message, error.response.headers)

    def _said(self, words: object) -> str:
        """One line of what was said, without secrets."""
        line = " ".join(str(words).split())
        if len(self._key) >= _LEAST_HIDDEN:
            line = line.replace(self._key, MASK)
        line = Redactor().clean(line)[0]
        return line if len(line) <= _SHOWN else f"{line[:_SHOWN]}…"


def complaint(body: object) -> tuple[int | None, str]:
    """The status and the words of an endpoint's error, wherever in its body they stand."""
    if isinstance(body, Mapping) and isinstance(body.get("error"), Mapping | str):
        body = body["error"]
    if not isinstance(body, Mapping):
        return None, body if isinstance(body, str) else ""
    words = next((body[key] for key in ("message", "detail", "error") if isinstance(body.get(key), str)), "")
    for key in ("code", "status", "type"):
        if (status := _status(body.get(key))) is not None:
            return status, words
    return None, words


def _status(said: object) -> int | None:
    if isinstance(said, int):
        return said if 400 <= said < 600 else None
    word = said.lower() if isinstance(said, str) else ""
    if word.isdecimal():
        return _status(int(word)) if len(word) == 3 else None
    return next((status for part, status in _STATUS_BY_WORD if part in word), None)


def _is_named(error: Exception, *names: str) -> bool:
    """By the names of its classes: those of httpx2 are known where its clients are, and not here."""
    return any(each.__name__ in names for each in type(error).__mro__)
