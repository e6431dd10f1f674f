"""How near texts are by what they mean: word embeddings that come with the extra `embeddings`, need no network and no server.

The library is WordLlama (MIT): one vector a token, averaged; its weights are in the package. It is loaded when it is asked for.
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
"""The index of words, or words in common: what comes without any extra."""
WORDLLAMA = "wordllama"
KNOWN_MEASURES = (SHARED_WORDS, WORDLLAMA)
MAX_TEXT_CHARS = 1000
"""Characters of one text that are looked at."""


def find_nearness(name: str) -> Nearness | None:
    """The measure of that name, as `Recall` takes it; `None` for words. `ConfigError` says which there are, and what to install."""
    if name == SHARED_WORDS:
        return None
    if name != WORDLLAMA:
        raise ConfigError(f"no such nearness: {name!r}; known are {', '.join(KNOWN_MEASURES)}")
    return _load_wordllama()


@cache
def _load_wordllama() -> Nearness:
    try:
        with _preserve_logging():
            library: Any = import_module("wordllama")
        folder = Path(library.__file__).parent
        # Its tokenizer is looked for in the cache alone: the package's own folder is laid out like one.
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
        """The cosine of each text to the query."""
        told = [text[:MAX_TEXT_CHARS].encode("utf-8", "replace").decode() for text in (query, *texts)]
        places = [place for place, text in enumerate(told) if text.strip()]
        if not told[0].strip():
            return [0.0] * len(texts)
        vectors = model.embed([told[place] for place in places], norm=True)
        near: Mapping[int, float] = dict(zip(places, (vectors @ vectors[0]).tolist(), strict=True))
        return [near.get(place, 0.0) for place in range(1, len(told))]

    by_meaning.__name__ = WORDLLAMA
    return by_meaning


@contextmanager
def _preserve_logging() -> Iterator[None]:
    """The library sets up everybody's logging when it is imported, unless somebody has."""
    root, guard = logging.getLogger(), logging.NullHandler()
    root.addHandler(guard)
    try:
        yield
    finally:
        root.removeHandler(guard)
