"""What all models behind HTTP share: timeouts, retries, adapting to parameters that an endpoint does not support, and error messages.

`openai.py` and `anthropic.py` subclass `HttpModel`.
"""

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
from fleetlore.errors import ModelBusy, ModelError, ModelRefused, ModelTimeout, UnusableAnswer
from fleetlore.models.base import DEFAULT_TIMEOUT_SECONDS, ModelReply, ModelRequest
from fleetlore.models.http_client import create_http_client, http_error_types
from fleetlore.models.parse_reply import build_reply
from fleetlore.models.retry import WAITING_FOR_CONNECTION, Retrier, RetryPolicy, parse_retry_after
from fleetlore.models.stream_accumulator import StreamAccumulator
from fleetlore.models.text_stream import TextStream
from fleetlore.redact import MASK, Redactor

# --- Errors of client libraries and endpoints as `ModelError`, with the key masked

_MAX_MESSAGE_CHARS = 300
_MIN_MASKED_KEY_CHARS = 4
"""A shorter key would match parts of ordinary words."""

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
    """Translates errors for one model. `sdk` is its client library; both libraries use the same error names."""

    def __init__(self, name: str, sdk: ModuleType, key: str) -> None:
        self.name, self._sdk, self._key = name, sdk, key

    def to_model_error(self, error: Exception) -> ModelError:
        """The error as a `ModelError`."""
        if isinstance(error, ModelError):
            return error
        if isinstance(error, self._sdk.APIStatusError):
            return self._from_status_error(error)
        if _has_class_name(error, "APITimeoutError", "ConnectTimeout", "PoolTimeout"):
            return ModelTimeout(f"{self.name}: no connection in time; see to base_url and the network", waiting_for=WAITING_FOR_CONNECTION)
        if isinstance(error, self._sdk.APIConnectionError) or _has_class_name(error, "TransportError", "StreamError"):
            return ModelBusy(f"{self.name}: the connection failed ({self._clean_message(error.__cause__ or error)})")
        if isinstance(error, self._sdk.APIError):
            return self.from_body(error.body or {"message": error.message})
        return UnusableAnswer(f"the endpoint sent what its protocol does not know ({type(error).__name__}: {self._clean_message(error)})")

    def from_body(self, body: object) -> ModelError:
        """The error in a response body that came with status 200."""
        status, words = parse_error_body(body)
        return self.from_status(status or 400, words or "it reports an error and does not say which")

    def from_status(self, status: int, words: str, headers: Mapping[str, str] | None = None) -> ModelError:
        """The error for an HTTP status: 429 and 5xx are temporary, all others permanent."""
        message = f"{self.name}: {status}: {self._clean_message(words)}"
        if status == 429 or status >= 500:
            return ModelBusy(message, status=status, retry_after=parse_retry_after(headers or {}, clock.now()))
        advice = _ADVICE.get(status)
        return ModelRefused(f"{message}; {advice}" if advice else message, status=status)

    def _from_status_error(self, error: Any) -> ModelError:
        status, words = parse_error_body(error.body)
        # A stream that started with 200 may still end with an error.
        if error.status_code == 200 or (status == 402 and error.status_code == 429):
            return self.from_status(status or 500, words or error.message)
        if 300 <= error.status_code < 400:
            words = f"it points to {error.response.headers.get('location', 'another place')}; name that in base_url"
        return self.from_status(error.status_code, words or error.message, error.response.headers)

    def _clean_message(self, words: object) -> str:
        """One line of the message, with secrets redacted."""
        line = " ".join(str(words).split())
        if len(self._key) >= _MIN_MASKED_KEY_CHARS:
            line = line.replace(self._key, MASK)
        line = Redactor().redact_value(line)[0]
        return line if len(line) <= _MAX_MESSAGE_CHARS else f"{line[:_MAX_MESSAGE_CHARS]}…"


def parse_error_body(body: object) -> tuple[int | None, str]:
    """Status and message of an endpoint's error, wherever they are in its body."""
    if isinstance(body, Mapping) and isinstance(body.get("error"), Mapping | str):
        body = body["error"]
    if not isinstance(body, Mapping):
        return None, body if isinstance(body, str) else ""
    words = next((body[key] for key in ("message", "detail", "error") if isinstance(body.get(key), str)), "")
    for key in ("code", "status", "type"):
        if (status := _parse_status(body.get(key))) is not None:
            return status, words
    return None, words


def _parse_status(value: object) -> int | None:
    if isinstance(value, int):
        return value if 400 <= value < 600 else None
    word = value.lower() if isinstance(value, str) else ""
    if word.isdecimal():
        return _parse_status(int(word)) if len(word) == 3 else None
    return next((status for fragment, status in _STATUS_BY_WORD if fragment in word), None)


def _has_class_name(error: Exception, *names: str) -> bool:
    """By class name, so that httpx2 need not be imported here."""
    return any(cls.__name__ in names for cls in type(error).__mro__)


# --- HTTP model

FORMAT_PARAMETER = "format"
"""Our name for the parameter that makes a model follow a schema; endpoints name it differently."""

_TOOL_REFUSAL_PATTERN = re.compile(r"\btools?\b|tool[_ ]|function.?call", re.IGNORECASE)


class ModelTimeouts(Struct, frozen=True, kw_only=True):
    """Seconds to wait: to connect, for the first token, between tokens, and in total. Keep-alive messages do not count as tokens."""

    connect: float = 10.0
    first: float = 60.0
    between: float = 30.0
    total: float = DEFAULT_TIMEOUT_SECONDS


class ModelEndpoint(Struct, frozen=True, kw_only=True):
    """The address of a model, and the key."""

    model: str
    base_url: str | None = None
    """`None` for the provider's default."""
    key: str = ""


class _ResponseStream(Protocol):
    """A streamed response of a client library."""

    response: Any

    async def __aenter__(self) -> _ResponseStream: ...
    async def __aexit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None: ...
    def __aiter__(self) -> AsyncIterator[Any]: ...


class HttpModel:
    """A model behind HTTP. Use it with `async with`, which closes its connections."""

    provider: ClassVar[str]
    parameters: ClassVar[dict[str, tuple[str, ...]]]
    """Optional parameters, and the words by which an endpoint's error shows that it does not support them."""

    def __init__(
        self,
        endpoint: ModelEndpoint,
        *,
        timeouts: ModelTimeouts | None = None,
        attempts: RetryPolicy | None = None,
        sleep: Callable[[float], Awaitable[object]] = asyncio.sleep,
        jitter: Callable[[], float] = random.random,
    ) -> None:
        self.endpoint, self.timeouts = endpoint, timeouts or ModelTimeouts()
        self.name = f"{self.provider}:{endpoint.model}"
        self._new_retrier = partial(Retrier, attempts or RetryPolicy(), sleep=sleep, jitter=jitter)
        self._unknown_parameters: frozenset[str] = frozenset()
        self._client: Any = None
        sdk = self._import_sdk()
        self._error_translator = ErrorTranslator(self.name, sdk, endpoint.key)
        self._sdk_errors = (sdk.APIError, *http_error_types(), ValueError, TypeError, LookupError, AttributeError, RecursionError)

    def _import_sdk(self) -> ModuleType:
        """Import the client library."""
        raise NotImplementedError

    def _new_client(self, http: Any) -> Any:
        """The library's client, with its own retries disabled."""
        raise NotImplementedError

    async def _stream_answer(self, request: ModelRequest, unknown: frozenset[str], accumulator: StreamAccumulator) -> None:
        """One attempt, without the parameters in `unknown`."""
        raise NotImplementedError

    async def __aenter__(self) -> HttpModel:
        # In a thread: it imports more of the library, and loads certificates.
        self._client = await asyncio.to_thread(lambda: self._new_client(create_http_client(self.timeouts.connect)))
        return self

    async def __aexit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        client, self._client = self._client, None
        await client.close()

    async def reply(self, request: ModelRequest) -> ModelReply:
        """The answer, with retries while they may help and there is time."""
        if self._client is None:
            raise ModelRefused(f"{self.name} is not open; ask it within `async with`")
        started_at, timeout, retrier = monotonic(), self.timeouts.total if request.timeout is None else request.timeout, self._new_retrier()
        text_stream = TextStream(request.on_text) if request.on_text and request.schema is None else None

        def time_left() -> float:
            # No retry after text was passed on: the listener would get it twice.
            return 0.0 if text_stream and text_stream.has_emitted else started_at + timeout - monotonic()

        try:
            async with asyncio.timeout(timeout):
                accumulator = await retrier.run_attempts(partial(self._attempt_adapting, request, text_stream), time_left)
        except TimeoutError as error:
            raise ModelTimeout(
                f"{self.name}: no answer within {timeout:g} s", waiting_for="the whole answer", attempts=retrier.attempt_number
            ) from error
        return build_reply(
            request,
            accumulator,
            model=self.endpoint.model,
            latency_ms=round((monotonic() - started_at) * 1000),
            attempts=retrier.attempt_number,
        )

    async def _attempt_adapting(self, request: ModelRequest, text_stream: TextStream | None) -> StreamAccumulator:
        """One attempt; a parameter that the endpoint rejects is left out, now and in later requests."""
        unknown = self._unknown_parameters
        while True:
            try:
                accumulator = await self._attempt_once(request, unknown, text_stream)
            except ModelRefused as refusal:
                name = self._find_refused_parameter(refusal, request)
                if name != "strict" and request.tools and (tool_refusal := self._explain_tool_refusal(refusal)):
                    raise tool_refusal from refusal
                if name is None or name in unknown:
                    raise
                unknown |= {name}
            else:
                self._unknown_parameters |= unknown
                return accumulator

    def _find_refused_parameter(self, refusal: ModelRefused, request: ModelRequest) -> str | None:
        """The parameter that a rejection is about. If none is named, assume the schema, which is supported least often."""
        if refusal.status not in (400, 404, 415, 422):
            return None
        words = str(refusal).lower()
        parameter = next((name for name, fragments in self.parameters.items() if any(fragment in words for fragment in fragments)), None)
        return parameter or (FORMAT_PARAMETER if request.schema is not None and refusal.status in (400, 422) else None)

    def _explain_tool_refusal(self, refusal: ModelRefused) -> ModelRefused | None:
        """A clearer error if the rejection is about tools. Tools are never dropped: the answer would not fit."""
        words = str(refusal).removeprefix(f"{self.name}: ")
        if refusal.status not in (400, 404, 415, 422) or not _TOOL_REFUSAL_PATTERN.search(words):
            return None
        message = f"{self.name}: the endpoint will not take the tools ({words}); choose a model that calls tools, or ask without them"
        return ModelRefused(message, status=refusal.status)

    async def _attempt_once(self, request: ModelRequest, unknown: frozenset[str], text_stream: TextStream | None) -> StreamAccumulator:
        accumulator = StreamAccumulator(wants_calls=bool(request.tools), text_stream=text_stream)
        if text_stream:
            text_stream.restart()
        try:
            await self._stream_answer(request, unknown, accumulator)
        except self._sdk_errors as error:
            if text_stream and text_stream.listener_error is error:
                raise
            raise self._error_translator.to_model_error(error) from error
        if accumulator.finish is None:
            raise self._error_translator.from_status(502, "the answer broke off before its end")
        if text_stream:
            text_stream.flush()
        return accumulator

    async def _read_stream(
        self, create: Callable[[], Awaitable[_ResponseStream]], accept_piece: Callable[[Any], bool], accept_body: Callable[[Any], None]
    ) -> Any:
        """Read a stream to its end. Returns the response's headers.

        `accept_piece` returns whether a piece had a token; `accept_body` gets the body of a response that is not a
        stream.
        """
        waiting_for, loop = "the first token", asyncio.get_running_loop()
        try:
            async with asyncio.timeout(self.timeouts.first) as timeout, await create() as stream:
                if "event-stream" not in stream.response.headers.get("content-type", ""):
                    accept_body(await self._read_whole_body(stream.response))
                async for piece in stream:
                    if accept_piece(piece):
                        waiting_for = "the next token"
                        timeout.reschedule(loop.time() + self.timeouts.between)
        except TimeoutError as error:
            raise ModelTimeout(f"{self.name}: {waiting_for} did not come in time", waiting_for=waiting_for) from error
        return stream.response.headers

    async def _read_whole_body(self, response: Any) -> Any:
        """The body of a response that is not a stream: the endpoint cannot stream, or reports an error."""
        await response.aread()
        content_type = response.headers.get("content-type", "nothing")
        if "json" not in content_type:
            raise UnusableAnswer(f"the endpoint answered with {content_type[:80]} where a stream was wanted; see to base_url")
        body = response.json()
        if isinstance(body, dict) and body.get("error"):
            raise self._error_translator.from_body(body)
        return body
