"""Counts tokens with the tokenizer that the settings name."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache
from importlib import import_module
from typing import TypeAlias

from fleetlore.errors import ConfigError

Tokenizer: TypeAlias = Callable[[str], int]

BYTES_PER_TOKEN = 4


def estimate_tokens(text: str) -> int:
    """One token per four bytes of UTF-8, rounded up. English prose has slightly fewer, code and other scripts may have more."""
    return -(-len(text.encode("utf-8", "replace")) // BYTES_PER_TOKEN)


def count_characters(text: str) -> int:
    """One token per character: an upper bound for all common tokenizers."""
    return len(text)


KNOWN_TOKENIZERS: Mapping[str, Tokenizer] = {"estimate": estimate_tokens, "characters": count_characters}
TIKTOKEN_PREFIX = "tiktoken:"
"""Prefix of an encoding's name, as in `tiktoken:o200k_base`."""


@cache
def find_tokenizer(name: str) -> Tokenizer:
    """The tokenizer with that name. Raises `ConfigError` with the known names."""
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
    except (ValueError, OSError) as error:  # it downloads an encoding on first use
        raise ConfigError(
            f"{TIKTOKEN_PREFIX}{encoding}: tiktoken cannot load this encoding ({error}); o200k_base is a common one"
        ) from error
    return lambda text: len(encode(text))
