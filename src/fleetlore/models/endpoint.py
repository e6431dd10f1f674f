"""What all models behind HTTP have in common: patience, attempts, parameters that an endpoint does not know, and an end to long answers."""

from __future__ import annotations

import asyncio
import random
import re
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from functools import partial
from time import monotonic
from types import ModuleType, TracebackType
from typing import Any, ClassVar, Protocol

from msgspec import Struct

from fleetlore import clock
from fleetlore.errors import MindBusy, MindError, MindNonsense, MindRefused, MindTimeout
from fleetlore.models.base import DEFAULT_TIMEOUT_SECONDS, ModelReply, ModelRequest
from fleetlore.models.http_client import create_http_client, http_error_types
from fleetlore.models.parse_reply import build_reply
from fleetlore.models.retry import WAITING_FOR_CONNECTION, Retrier, RetryPolicy, parse_retry_after
from fleetlore.models.stream_accumulator import StreamAccumulator
from fleetlore.models.text_stream import TextStream
from fleetlore.redact import MASK, Redactor

# --- What clients of models raise and endpoints complain of, in our own words, without the key.

_MAX_MESSAGE_CHARS = 300
_MIN_MASKED_KEY_CHARS = 4
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


class ErrorTranslator:
    """The words of one mind. `sdk` is its client library; both libraries name their errors alike."""

    def __init__(self, name: str, sdk: ModuleType, key: str) -> None:
        self.name, self._sdk, self._key = name, sdk, key

    def to_model_error(self, error: Exception) -> MindError:
        """The same failure as a `MindError`."""
        if isinstance(error, MindError):
            return error
        if isinstance(error, self._sdk.APIStatusError):
            return self._from_status_error(error)
        if _has_class_name(error, "APITimeoutError", "ConnectTimeout", "PoolTimeout"):
            return MindTimeout(f"{self.name}: no connection in time; see to base_url and the network", waiting_for=WAITING_FOR_CONNECTION)
        if isinstance(error, self._sdk.APIConnectionError) or _has_class_name(error, "TransportError", "StreamError"):
            return MindBusy(f"{self.name}: the connection failed ({self._clean_message(error.__cause__ or error)})")
        if isinstance(error, self._sdk.APIError):
            return self.from_body(error.body or {"message": error.message})
        return MindNonsense(f"the endpoint sent what its protocol does not know ({type(error).__name__}: {self._clean_message(error)})")

    def from_body(self, body: object) -> MindError:
        """What a body says that came with status 200."""
        status, words = parse_error_body(body)
        return self.from_status(status or 400, words or "it reports an error and does not say which")

    def from_status(self, status: int, words: str, headers: Mapping[str, str] | None = None) -> MindError:
        """By an HTTP status: 429 and 5xx pass, everything else does not."""
        told = f"{self.name}: {status}: {self._clean_message(words)}"
        if status == 429 or status >= 500:
            return MindBusy(told, status=status, retry_after=parse_retry_after(headers or {}, clock.now()))
        advice = _ADVICE.get(status)
        return MindRefused(f"{told}; {advice}" if advice else told, status=status)

    def _from_status_error(self, error: Any) -> MindError:
        status, words = parse_error_body(error.body)
        # A stream that has begun with 200 may still end in an error.
        if error.status_code == 200 or (status == 402 and error.status_code == 429):
            return self.from_status(status or 500, words or error.message)
        if 300 <= error.status_code < 400:
            words = f"it points to {error.response.headers.get('location', 'another place')}; name that in base_url"
        return self.from_status(error.status_code, words or error.message, error.response.headers)

    def _clean_message(self, words: object) -> str:
        """One line of what was said, without secrets."""
        line = " ".join(str(words).split())
        if len(self._key) >= _MIN_MASKED_KEY_CHARS:
            line = line.replace(self._key, MASK)
        line = Redactor().redact_value(line)[0]
        return line if len(line) <= _MAX_MESSAGE_CHARS else f"{line[:_MAX_MESSAGE_CHARS]}…"


def parse_error_body(body: object) -> tuple[int | None, str]:
    """The status and the words of an endpoint's error, wherever in its body they stand."""
    if isinstance(body, Mapping) and isinstance(body.get("error"), Mapping | str):
        body = body["error"]
    if not isinstance(body, Mapping):
        return None, body if isinstance(body, str) else ""
    words = next((body[key] for key in ("message", "detail", "error") if isinstance(body.get(key), str)), "")
    for key in ("code", "status", "type"):
        if (status := _parse_status(body.get(key))) is not None:
            return status, words
    return None, words


def _parse_status(said: object) -> int | None:
    if isinstance(said, int):
        return said if 400 <= said < 600 else None
    word = said.lower() if isinstance(said, str) else ""
    if word.isdecimal():
        return _parse_status(int(word)) if len(word) == 3 else None
    return next((status for part, status in _STATUS_BY_WORD if part in word), None)


def _has_class_name(error: Exception, *names: str) -> bool:
    """By the names of its classes: those of httpx2 are known where its clients are, and not here."""
    return any(each.__name__ in names for each in type(error).__mro__)


# ---

FORMAT_PARAMETER = "format"
"""The parameter that holds a model to a schema, whatever its endpoint calls it."""

_TOOL_REFUSAL_PATTERN = re.compile(r"\btools?\b|tool[_ ]|function.?call", re.IGNORECASE)


class ModelTimeouts(Struct, frozen=True, kw_only=True):
    """Seconds for each step of an answer. What an endpoint sends to show that it lives is no token."""

    connect: float = 10.0
    first: float = 60.0
    between: float = 30.0
    total: float = DEFAULT_TIMEOUT_SECONDS


class ModelEndpoint(Struct, frozen=True, kw_only=True):
    """Where a model is asked, and with what."""

    model: str
    base_url: str | None = None
    """`None` for the provider's own."""
    key: str = ""


class _ResponseStream(Protocol):
    """A response of which the client library makes pieces."""

    response: Any

    async def __aenter__(self) -> _ResponseStream: ...
    async def __aexit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None: ...
    def __aiter__(self) -> AsyncIterator[Any]: ...


class HttpModel:
    """A model behind HTTP. Open it with `async with`; its connections end with it."""

    provider: ClassVar[str]
    parameters: ClassVar[dict[str, tuple[str, ...]]]
    """What an endpoint may not know, and the words by which it then complains."""

    def __init__(
        self,
        place: ModelEndpoint,
        *,
        timeouts: ModelTimeouts | None = None,
        attempts: RetryPolicy | None = None,
        sleep: Callable[[float], Awaitable[object]] = asyncio.sleep,
        chance: Callable[[], float] = random.random,
    ) -> None:
        self.endpoint, self.timeouts = place, timeouts or ModelTimeouts()
        self.name = f"{self.provider}:{place.model}"
        self._new_retrier = partial(Retrier, attempts or RetryPolicy(), sleep=sleep, chance=chance)
        self._unknown_parameters: frozenset[str] = frozenset()
        self._client: Any = None
        sdk = self._import_sdk()
        self._error_translator = ErrorTranslator(self.name, sdk, place.key)
        self._sdk_errors = (sdk.APIError, *http_error_types(), ValueError, TypeError, LookupError, AttributeError, RecursionError)

    def _import_sdk(self) -> ModuleType:
        """The client library, imported now."""
        raise NotImplementedError

    def _new_client(self, http: Any) -> Any:
        """The library's client, which asks once and no more."""
        raise NotImplementedError

    async def _stream_answer(self, ask: ModelRequest, unknown: frozenset[str], heard: StreamAccumulator) -> None:
        """One attempt, without the parameters that the endpoint does not know."""
        raise NotImplementedError

    async def __aenter__(self) -> HttpModel:
        # In a thread: it loads more of the library, and certificates.
        self._client = await asyncio.to_thread(lambda: self._new_client(create_http_client(self.timeouts.connect)))
        return self

    async def __aexit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        client, self._client = self._client, None
        await client.close()

    async def reply(self, ask: ModelRequest) -> ModelReply:
        """The answer, asked for again as long as that may help and there is time."""
        if self._client is None:
            raise MindRefused(f"{self.name} is not open; ask it within `async with`")
        start, seconds, tries = monotonic(), self.timeouts.total if ask.timeout is None else ask.timeout, self._new_retrier()
        speech = TextStream(ask.hear) if ask.hear and ask.schema is None else None

        def time_left() -> float:
            # Whoever has heard a beginning would hear it twice.
            return 0.0 if speech and speech.has_emitted else start + seconds - monotonic()

        try:
            async with asyncio.timeout(seconds):
                heard = await tries.run_attempts(partial(self._attempt_adapting, ask, speech), time_left)
        except TimeoutError as error:
            raise MindTimeout(
                f"{self.name}: no answer within {seconds:g} s", waiting_for="the whole answer", attempts=tries.attempt_number
            ) from error
        return build_reply(
            ask, heard, model=self.endpoint.model, latency_ms=round((monotonic() - start) * 1000), attempts=tries.attempt_number
        )

    async def _attempt_adapting(self, ask: ModelRequest, speech: TextStream | None) -> StreamAccumulator:
        """One attempt; what the endpoint refuses to know is left out, now and from now on."""
        unknown = self._unknown_parameters
        while True:
            try:
                heard = await self._attempt_once(ask, unknown, speech)
            except MindRefused as refusal:
                if ask.tools and (plainly := self._explain_tool_refusal(refusal)):
                    raise plainly from refusal
                name = self._find_refused_parameter(refusal, ask)
                if name is None or name in unknown:
                    raise
                unknown |= {name}
            else:
                self._unknown_parameters |= unknown
                return heard

    def _find_refused_parameter(self, refusal: MindRefused, ask: ModelRequest) -> str | None:
        """The parameter that a refusal is about. One that says nothing may be about the schema, which fewest endpoints know."""
        if refusal.status not in (400, 404, 415, 422):
            return None
        words = str(refusal).lower()
        named = next((name for name, signs in self.parameters.items() if any(sign in words for sign in signs)), None)
        return named or (FORMAT_PARAMETER if ask.schema is not None and refusal.status in (400, 422) else None)

    def _explain_tool_refusal(self, refusal: MindRefused) -> MindRefused | None:
        """The same refusal, said plainly, if it is about tools; what it would do without them is not what was asked for."""
        words = str(refusal).removeprefix(f"{self.name}: ")
        if refusal.status not in (400, 404, 415, 422) or not _TOOL_REFUSAL_PATTERN.search(words):
            return None
        told = f"{self.name}: the endpoint will not take the tools ({words}); choose a model that calls tools, or ask without them"
        return MindRefused(told, status=refusal.status)

    async def _attempt_once(self, ask: ModelRequest, unknown: frozenset[str], speech: TextStream | None) -> StreamAccumulator:
        heard = StreamAccumulator(wants_calls=bool(ask.tools), speech=speech)
        if speech:
            speech.restart()
        try:
            await self._stream_answer(ask, unknown, heard)
        except self._sdk_errors as error:
            if speech and speech.listener_error is error:
                raise
            raise self._error_translator.to_model_error(error) from error
        if heard.finish is None:
            raise self._error_translator.from_status(502, "the answer broke off before its end")
        if speech:
            speech.flush()
        return heard

    async def _read_stream(
        self, create: Callable[[], Awaitable[_ResponseStream]], take: Callable[[Any], bool], take_whole: Callable[[Any], None]
    ) -> Any:
        """Read a stream to its end; `take` says whether a piece was a token. Answers the response's headers."""
        waiting_for, loop = "the first token", asyncio.get_running_loop()
        try:
            async with asyncio.timeout(self.timeouts.first) as limit, await create() as stream:
                if not _is_event_stream(stream.response):
                    take_whole(await self._read_whole_body(stream.response))
                async for piece in stream:
                    if take(piece):
                        waiting_for = "the next token"
                        limit.reschedule(loop.time() + self.timeouts.between)
        except TimeoutError as error:
            raise MindTimeout(f"{self.name}: {waiting_for} did not come in time", waiting_for=waiting_for) from error
        return stream.response.headers

    async def _read_whole_body(self, response: Any) -> Any:
        """The body of a response that is no stream, as an endpoint sends it that cannot stream, or has an error to report."""
        await response.aread()
        kind = response.headers.get("content-type", "nothing")
        if "json" not in kind:
            raise MindNonsense(f"the endpoint answered with {kind[:80]} where a stream was wanted; see to base_url")
        body = response.json()
        if isinstance(body, dict) and body.get("error"):
            raise self._error_translator.from_body(body)
        return body


def _is_event_stream(response: Any) -> bool:
    return "event-stream" in response.headers.get("content-type", "")
