"""How many tokens a text has, by a tokenizer that the configuration names. Counting is all that is asked of one."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache
from importlib import import_module
from typing import TypeAlias

from fleetlore.errors import ConfigError

Tokenizer: TypeAlias = Callable[[str], int]

BYTES_PER_TOKEN = 4


def estimate(text: str) -> int:
    """One token for every four bytes of UTF-8, begun ones whole. English prose has a little fewer, code and other scripts may have more."""
    return -(-len(text.encode("utf-8", "replace")) // BYTES_PER_TOKEN)


def characters(text: str) -> int:
    """One for each character: more than any tokenizer that people use would say."""
    return len(text)


KNOWN_TOKENIZERS: Mapping[str, Tokenizer] = {"estimate": estimate, "characters": characters}
TIKTOKEN_PREFIX = "tiktoken:"
"""Before the name of an encoding, as in `tiktoken:o200k_base`."""


@cache
def tokenizer(name: str) -> Tokenizer:
    """The tokenizer of that name; `ConfigError` says which there are."""
    if name in KNOWN_TOKENIZERS:
        return KNOWN_TOKENIZERS[name]
    if name.startswith(TIKTOKEN_PREFIX):
        return _load_tiktoken(name.removeprefix(TIKTOKEN_PREFIX))
    raise ConfigError(
        f"no such tokenizer: {name!r}; known are {', '.join(KNOWN_TOKENIZERS)}, and {TIKTOKEN_PREFIX}ENCODING where tiktoken is installed"
    )


def _load_tiktoken(encoding: str) -> Tokenizer:
    try:
        tiktoken = import_module("tiktoken")
    except ModuleNotFoundError as error:
        raise ConfigError(
            f"{TIKTOKEN_PREFIX}{encoding}: tiktoken is not installed; pip install tiktoken, or take the tokenizer `estimate`"
        ) from error
    try:
        encode = tiktoken.get_encoding(encoding).encode_ordinary
    except (ValueError, OSError) as error:  # it fetches an encoding when that is first asked for
        raise ConfigError(
            f"{TIKTOKEN_PREFIX}{encoding}: tiktoken cannot load this encoding ({error}); o200k_base is a common one"
        ) from error
    return lambda text: len(encode(text))
