"""Opens the model at an address. The only module that knows all providers.

scripted:                                            built-in lines, for tests and demos without a network
openai:gpt-5-mini                                    the key is in OPENAI_API_KEY
openai:qwen3:8b?base_url=http://localhost:11434/v1   no key is sent
openai:m?base_url=https://host/v1&key_env=HOST_KEY   the key is in HOST_KEY
anthropic:claude-sonnet-5?total=300&attempts=2       timeouts in seconds: connect, first, between, total
"""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager, contextmanager
from math import isfinite
from typing import TYPE_CHECKING, NamedTuple
from urllib.parse import unquote, urlsplit

from fleetlore.errors import InvalidModelAddress, ModelError
from fleetlore.models.base import Model
from fleetlore.redact import Redactor

if TYPE_CHECKING:
    from fleetlore.models.endpoint import ModelEndpoint, ModelTimeouts
    from fleetlore.models.retry import RetryPolicy

DEFAULT_MODEL = "scripted:"
_PROVIDERS = ("scripted", "openai", "anthropic")
_TIMEOUT_OPTIONS = ("connect", "first", "between", "total")
_OPTIONS = ("base_url", "key_env", "attempts", *_TIMEOUT_OPTIONS)
_SECRET_OPTIONS = ("key", "api_key", "apikey", "token", "password")


class ModelAddress(NamedTuple):
    """The validated parts of an address."""

    provider: str
    model: str
    options: Mapping[str, str]


def open_model(address: str = DEFAULT_MODEL, *, environ: Mapping[str, str] = os.environ) -> AbstractAsyncContextManager[Model]:
    """The model at an address, for `async with`. Raises `InvalidModelAddress`, or `ModelError` for a missing key or library."""
    parts = parse_address(address)
    if parts.provider == "scripted":
        return _open_scripted(address, parts.model)
    endpoint, timeouts, attempts = _build_endpoint(parts, environ), _parse_timeouts(parts.options), _parse_attempts(parts.options)
    with _require_extra(parts.provider):
        if parts.provider == "openai":
            from fleetlore.models.openai import OpenAIModel

            return OpenAIModel(endpoint, timeouts=timeouts, attempts=attempts)
        from fleetlore.models.anthropic import AnthropicModel

        return AnthropicModel(endpoint, timeouts=timeouts, attempts=attempts)


def parse_address(address: str) -> ModelAddress:
    """The parts of an address. Raises `InvalidModelAddress` if anything is wrong with them."""
    provider, colon, rest = address.partition(":")
    if not colon or provider not in _PROVIDERS:
        raise InvalidModelAddress(f"unknown model address {_mask_address(address)!r}; use scripted:, openai:MODEL or anthropic:MODEL")
    model, _, query = rest.partition("?")
    options = {name: unquote(value) for name, _, value in (part.partition("=") for part in query.split("&") if part)}
    _check_option_names(provider, options)
    if provider != "scripted" and not model:
        raise InvalidModelAddress(f"{provider}: which model? Say {provider}:MODEL")
    if "base_url" in options:
        _check_url(options["base_url"])
    return ModelAddress(provider, unquote(model), options)


def _check_option_names(provider: str, options: Mapping[str, str]) -> None:
    for name in options:
        if name in _SECRET_OPTIONS:
            raise InvalidModelAddress(f"no ?{name}= in an address, which may be shown; put it into a variable and name that with ?key_env=")
        if provider == "scripted":
            raise InvalidModelAddress(f"scripted: takes no options, not ?{name}=")
        if name not in _OPTIONS:
            raise InvalidModelAddress(f"{provider}: takes no ?{name}=; it takes {', '.join(_OPTIONS)}")


def _check_url(url: str) -> None:
    try:
        parts = urlsplit(url)
        host, _ = parts.hostname, parts.port
    except ValueError:
        host, parts = None, urlsplit("")
    if parts.scheme not in ("http", "https") or not host:
        raise InvalidModelAddress("base_url is no address of an endpoint; write it like https://HOST/v1")
    query_names = {part.partition("=")[0].casefold() for part in parts.query.split("&")}
    if parts.username is not None or parts.password is not None or not query_names.isdisjoint(_SECRET_OPTIONS):
        raise InvalidModelAddress("no password in base_url, which may be shown; put it into a variable and name that with ?key_env=")


def _build_endpoint(parts: ModelAddress, environ: Mapping[str, str]) -> ModelEndpoint:
    from fleetlore.models.endpoint import ModelEndpoint

    base_url = parts.options.get("base_url")
    variable = parts.options.get("key_env")
    if variable is None and base_url is None:
        variable = f"{parts.provider.upper()}_API_KEY"
    # Another provider's endpoint never gets the default key, only one that `key_env` names.
    key = environ.get(variable, "").strip() if variable else ""
    if variable and not key:
        raise ModelError(
            f"{parts.provider}:{parts.model}: there is no key in ${variable}; export {variable}=…, or name another one with ?key_env="
        )
    if not (key.isascii() and key.isprintable()):
        raise ModelError(f"{parts.provider}:{parts.model}: what is in ${variable} cannot be a key; it holds characters that no header can")
    return ModelEndpoint(model=parts.model, base_url=base_url, key=key)


def _parse_timeouts(options: Mapping[str, str]) -> ModelTimeouts:
    from fleetlore.models.endpoint import ModelTimeouts

    return ModelTimeouts(**{name: _parse_positive(name, options[name], float) for name in _TIMEOUT_OPTIONS if name in options})


def _parse_attempts(options: Mapping[str, str]) -> RetryPolicy:
    from fleetlore.models.retry import RetryPolicy

    return RetryPolicy(max_attempts=int(_parse_positive("attempts", options["attempts"], int))) if "attempts" in options else RetryPolicy()


def _parse_positive(name: str, text: str, convert: Callable[[str], float]) -> float:
    try:
        number = convert(text)
    except ValueError:
        number = 0
    if not isfinite(number) or number <= 0:
        raise InvalidModelAddress(f"?{name}={text[:40]}: a number above 0 is needed")
    return number


@asynccontextmanager
async def _open_scripted(address: str, name: str) -> AsyncIterator[Model]:
    from fleetlore.models.scripted import ScriptedModel, find_script

    yield ScriptedModel(find_script(name), name=address)


@contextmanager
def _require_extra(name: str) -> Iterator[None]:
    """Say what to install if a client library is missing."""
    try:
        yield
    except ModuleNotFoundError as error:
        raise ModelError(f"{name}: its client is not installed ({error.name}); pip install 'fleetlore[{name}]'") from error


def _mask_address(address: str) -> str:
    """The part of an address that is safe to show: some users put the key into it."""
    return Redactor().redact_value(address.partition("?")[0])[0][:60]
