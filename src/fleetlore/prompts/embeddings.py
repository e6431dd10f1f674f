"""Similarity of texts by meaning, with word embeddings from the extra `embeddings`. Needs no network and no server.

The library is WordLlama (MIT): one vector per token, averaged; its weights are in the package. It is imported on first
use.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any

from fleetlore.errors import ConfigError
from fleetlore.prompts.memory import Nearness

SHARED_WORDS = "words"
"""The default: the word index, or words in common."""
WORDLLAMA = "wordllama"
KNOWN_MEASURES = (SHARED_WORDS, WORDLLAMA)
MAX_TEXT_CHARS = 1000
"""How much of each text is used."""


def find_nearness(name: str) -> Nearness | None:
    """The measure with that name, for `Recall`; `None` for words. Raises `ConfigError` for unknown names and missing packages."""
    if name == SHARED_WORDS:
        return None
    if name != WORDLLAMA:
        raise ConfigError(f"unknown similarity measure: {name!r}; choose from {', '.join(KNOWN_MEASURES)}")
    return _load_wordllama()


@cache
def _load_wordllama() -> Nearness:
    try:
        with _preserve_logging():
            library: Any = import_module("wordllama")
        folder = Path(library.__file__).parent
        # It looks for its tokenizer only in the cache; the package's own folder has the same layout.
        model = library.WordLlama.load(cache_dir=folder, disable_download=True)
    except ImportError as error:
        raise ConfigError(
            f"{WORDLLAMA}: it is not installed ({error.name}); pip install 'fleetlore[embeddings]', or take the nearness `{SHARED_WORDS}`"
        ) from error
    except OSError as error:
        raise ConfigError(
            f"{WORDLLAMA}: its weights cannot be read ({error}); install it again, or take the nearness `{SHARED_WORDS}`"
        ) from error

    def by_meaning(query: str, texts: Sequence[str]) -> list[float]:
        """Cosine similarity of each text to the query."""
        all_texts = [text[:MAX_TEXT_CHARS].encode("utf-8", "replace").decode() for text in (query, *texts)]
        indices = [index for index, text in enumerate(all_texts) if text.strip()]
        if not all_texts[0].strip():
            return [0.0] * len(texts)
        vectors = model.embed([all_texts[index] for index in indices], norm=True)
        similarity: Mapping[int, float] = dict(zip(indices, (vectors @ vectors[0]).tolist(), strict=True))
        return [similarity.get(index, 0.0) for index in range(1, len(all_texts))]

    by_meaning.__name__ = WORDLLAMA
    return by_meaning


@contextmanager
def _preserve_logging() -> Iterator[None]:
    """The library configures the root logger on import, unless it has a handler."""
    root, handler = logging.getLogger(), logging.NullHandler()
    root.addHandler(handler)
    try:
        yield
    finally:
        root.removeHandler(handler)
