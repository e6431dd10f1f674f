"""Removes secrets from events before they are stored; called by `log/admission.py`.

Standard library only. A clean event costs one pass of one expression; the precise patterns are compiled and run only
when that finds something.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator, Sequence
from functools import cache, lru_cache
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

if TYPE_CHECKING:
    import re

    from fleetlore._quick import Words

MASK = "[redacted]"
WITHHELD = "[withheld: the redact patterns took too long]"
"""Replaces a text for which the user's own patterns took too long."""

_SECRET_WORDS = r"password|passwd|passphrase|secret|token|api[_-]?key|access[_-]?key|private[_-]?key|secret[_-]?key|client[_-]?secret"
# Between a name and its value, in text that may have been quoted once more.
_BEFORE_VALUE = r"\\*[\"']?\s*"
# A number alone is a count: token=4096.
_NOT_A_COUNT = r"(?!\d+(?:[\s\"',;&)\]}]|$))(?!\[redacted\])"
# Code that fetches a secret does not contain it.
_NOT_CODE = r"(?!(?:None|null|true|false|await|self|this)\b)(?![A-Za-z_][\w.]*[(\[])"

# A secret word counts only if a value follows: `token=…`, `"token": "…"`, `--token …`.
_FOLLOWED_BY_VALUE = r"(?=[\\\"'\s]*[=:])"


def _secret_word_pattern(rest: str, *words: str) -> str:
    """Match a secret word from one of its rarer letters on: the rest of it, then lookbehinds for its start."""
    lookbehind = "|".join(f"(?<={word})" for word in words)
    flag = "|".join(f"(?<=-{word})" for word in words)
    return f'(?i:{rest}(?:{lookbehind})(?:{_FOLLOWED_BY_VALUE}|(?:{flag})[ "]))'


_KEY_WORDS = ("api[_-]key", "apikey", "access[_-]key", "accesskey", "private[_-]key", "privatekey", "secret[_-]key", "secretkey")
_K_PATTERNS = (_secret_word_pattern("en", "token"), _secret_word_pattern("ey", *_KEY_WORDS))
_W_PATTERNS = (_secret_word_pattern("ord", "password"), _secret_word_pattern("d", "passwd"))
_C_PATTERNS = (_secret_word_pattern("ret", "secret"), _secret_word_pattern("redentials?", "credential", "credentials"))
_P_PATTERN = _secret_word_pattern("hrase", "passphrase")
# At the start of a word, also directly after a JSON escape.
_SK_PATTERN = r"-(?:(?<=[^A-Za-z0-9]sk-)|(?<=\\[bfnrt]sk-)|(?<=\\u[0-9A-Fa-f]{4}sk-))"
_AUTHORIZATION_PATTERN = "(?i:ation(?<=authorization))"
_BEARER_PATTERN = r"(?i:earer(?:\s|\\t))"

# Keyed by a letter that is rare in text, with what follows it and a lookbehind for what precedes it: the engine then
# skips most of the text without trying anything. Written plainly, the same search takes four times as long.
_HINTS_BY_LETTER = {
    "_": ("(?<=gh[pousr]_)", "(?<=hf_)", "(?<=lore_)[A-Za-z0-9_-]{43}"),
    "k": (*_K_PATTERNS, _SK_PATTERN, "_(?<=[rs]k_)(?:live|test)_", "r_pat_(?<=dckr_pat_)"),
    "K": _K_PATTERNS,
    "w": (*_W_PATTERNS, "hsec_"),
    "W": _W_PATTERNS,
    "p": (_P_PATTERN, "at-(?<=glpat-)", "at_(?<=github_pat_)", "m_(?<=npm_)", "ypi-"),
    "P": (_P_PATTERN, "RIVATE KEY"),
    "c": _C_PATTERNS,
    "C": _C_PATTERNS,
    "z": (_AUTHORIZATION_PATTERN,),
    "Z": (_AUTHORIZATION_PATTERN,),
    "b": (_BEARER_PATTERN,),
    "B": (_BEARER_PATTERN,),
    "x": ("ox[a-z]-",),
    "A": ("KIA", "SIA", "Iza", "GE-SECRET-KEY-"),
    "G": ("OCSPX-",),
    "S": (r"G\.",),
    "J": ("(?<=eyJ)",),
}
_HINT_PATTERN = "|".join(f"{letter}(?:{'|'.join(rests)})" for letter, rests in _HINTS_BY_LETTER.items())
"""Matches part of every secret that the patterns below can find."""

_SECRET_PREFIXES = (
    *(b"token", b"key", b"passw", b"passphrase", b"secret", b"credential", b"authorization", b"bearer", b"://", b"eyj", b"sg."),
    *(b"ghp_", b"gho_", b"ghu_", b"ghs_", b"ghr_", b"hf_", b"k_live_", b"k_test_", b"kr_pat_", b"hub_pat_", b"glpat-"),
    *(b"whsec_", b"npm_", b"pypi-", b"xox", b"akia", b"asia", b"aiza", b"gocspx-", b"lore_"),
)
"""A much coarser version of the hints, in lower case."""

_WORD_START_PREFIXES = (b"sk-",)
"""Hints that count only at the start of a word: `task-7` is not one."""

# {"id":"<36 characters>","at":"2026-11-15T20:23:12.000000Z",
_HEADER_BYTES = 80


class _Pattern(NamedTuple):
    """A secret's pattern; its groups `before` and `after`, if any, are kept."""

    expression: str
    ignore_case: bool = False


_PATTERNS = (
    _Pattern(r"-----BEGIN [A-Z0-9 ]*PRIVATE KEY(?: BLOCK)?-----(?:.*?-----END [A-Z0-9 ]*PRIVATE KEY(?: BLOCK)?-----|.*\Z)"),
    _Pattern(r"\bsk-[A-Za-z0-9_-]{16,}"),
    _Pattern(r"\b[rs]k_(?:live|test)_[A-Za-z0-9]{10,}"),
    _Pattern(r"\b(?:gh[pousr]_[A-Za-z0-9]{20,}|github_pat_[A-Za-z0-9_]{20,}|glpat-[A-Za-z0-9_-]{16,})"),
    _Pattern(r"\bxox[a-z]-[A-Za-z0-9-]{10,}"),
    _Pattern(r"\b(?:AKIA|ASIA)[A-Z0-9]{16}\b"),
    _Pattern(r"\bAIza[A-Za-z0-9_-]{30,}"),
    _Pattern(r"\b(?:npm|hf)_[A-Za-z0-9]{20,}"),
    _Pattern(r"\blore_[A-Za-z0-9_-]{43}(?![A-Za-z0-9_-])"),  # our own tokens (log/tokens.py)
    _Pattern(
        r"\b(?:SG\.[\w-]{16,}\.[\w-]{16,}|GOCSPX-[\w-]{20,}|pypi-[\w-]{40,}|whsec_\w{16,}|dckr_pat_[\w-]{16,}|AGE-SECRET-KEY-1\w{20,})"
    ),
    _Pattern(r"(?<![A-Za-z0-9_-])eyJ[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]{8,}(?:\.[A-Za-z0-9_-]*)?"),
    _Pattern(r"(?P<before>\bauthorization[\"']?\s*[:=]\s*[\"']?\w+\s+)[A-Za-z0-9._~+/=-]{6,}", ignore_case=True),
    _Pattern(r"(?P<before>\bbearer\s+)(?=[A-Za-z._~+/=-]*[0-9])[A-Za-z0-9._~+/=-]{12,}", ignore_case=True),
    _Pattern(r"(?P<before>://[^\s/:@\"'\\]{0,256}:)[^\s/\"'\\]{1,256}(?P<after>@)"),
    # name="some words"
    _Pattern(
        rf"(?P<before>(?:{_SECRET_WORDS}){_BEFORE_VALUE}(?:=>|[=:])\s*\\*(?P<quote>[\"']))(?!\[redacted\])[^\"'\\\n]{{2,}}(?P<after>\\*(?P=quote))",
        ignore_case=True,
    ),
    # name=value and --name value
    _Pattern(
        rf"(?P<before>(?:{_SECRET_WORDS}){_BEFORE_VALUE}=\s*\\*[\"']?){_NOT_A_COUNT}{_NOT_CODE}[^\s\"',;&)\]}}\\]{{4,}}", ignore_case=True
    ),
    _Pattern(rf"(?P<before>(?<!\S)--[\w-]{{0,40}}(?:{_SECRET_WORDS})[ =][\"']?)(?!\[redacted\])[^\s\"']{{4,}}", ignore_case=True),
    # name: value, where the value does not look like a word of prose
    _Pattern(
        rf"(?P<before>(?:{_SECRET_WORDS}){_BEFORE_VALUE}:\s*\\*[\"']?){_NOT_A_COUNT}{_NOT_CODE}(?=[^\s\"',;]{{0,200}}[0-9!#$%^&*+=~])[^\s\"',;&)\]}}\\]{{6,}}",
        ignore_case=True,
    ),
    _Pattern(rf"(?P<before>(?:password|passwd|passphrase){_BEFORE_VALUE}[:=]\s*\\*[\"']?)\d{{4,}}", ignore_case=True),
)

_SECRET_KEY_PATTERN = rf"(?:{_SECRET_WORDS}|authorization|credentials?)$"
_NUMERIC_SECRET_PATTERN = r"(?:password|passwd|passphrase|secret)$"
_SECRET_FLAG_PATTERN = rf"--[\w-]{{0,40}}(?:{_SECRET_WORDS})"

_Value = TypeVar("_Value")


class Redactor:
    """Finds secrets in any JSON value; `extra` are the user's own regular expressions."""

    def __init__(self, extra: Sequence[str] = ()) -> None:
        self._extra = tuple(extra)

    @property
    def has_extra_patterns(self) -> bool:
        """Whether there are user-defined patterns."""
        return bool(self._extra)

    def may_contain_secret(self, raw: bytes) -> bool:
        """Return whether JSON bytes may contain a secret. Cheap; false positives are possible, false negatives are not."""
        if not self._extra and (fast_search := secret_word_search()) is not None and not fast_search.found_in(raw):
            return False
        start = 0
        if raw.startswith(b'{"id":"') and (text_start := raw.find(b'"text":')) > _HEADER_BYTES:
            if _has_hint(raw[_HEADER_BYTES:text_start]):
                return True
            start = text_start
        if _compile_hints().search(raw, start) or (b"@" in raw and b"://" in raw):
            return True
        return bool(self._extra)  # user patterns are for the decoded text and cannot be tried on JSON

    def redact_value(self, value: _Value, *, harmless: Container[str] = (), fixed_keys: Container[str] = ()) -> tuple[_Value, int]:
        """Return the value without its secrets, and how many there were.

        Values under `harmless` keys are not treated as secrets because of the key. User patterns do not change `fixed_keys`, the
        keys of a format. A text for which the user patterns take too long is withheld as a whole.
        """
        mask = _Mask(harmless)
        cleaned: _Value = _redact_nested(value, mask, _compile_patterns())
        if self._extra:
            cleaned = _mask_user_patterns(cleaned, self._extra, mask, fixed_keys)
        return cleaned, mask.found


def is_surely_clean(raw: bytes) -> bool:
    """Return whether `may_contain_secret` can be skipped: in a process for one event, compiling its expression dominates."""
    lowered = raw.lower()
    return not any(prefix in lowered for prefix in (*_SECRET_PREFIXES, *_WORD_START_PREFIXES))


@cache
def secret_word_search() -> Words | None:
    """Return a compiled search for the start of any secret, or `None` if the C extension is not built."""
    try:
        from fleetlore._quick import Words
    except ImportError:
        return None
    return Words(_SECRET_PREFIXES, _WORD_START_PREFIXES)


class _Mask:
    """Replaces secrets and counts them."""

    def __init__(self, harmless: Container[str]) -> None:
        self.found = 0
        self.harmless = harmless

    def __call__(self, match: re.Match[str]) -> str:
        groups = match.groupdict()
        return f"{groups.get('before') or ''}{self.mask_value()}{groups.get('after') or ''}"

    def mask_value(self) -> str:
        self.found += 1
        return MASK


class _SecretContext(NamedTuple):
    """Whether the keys above a value make its strings, or also its numbers, secret."""

    strings: bool = False
    numbers: bool = False


_NO_SECRET_CONTEXT = _SecretContext()


def _redact_nested(value: Any, mask: _Mask, patterns: Sequence[re.Pattern[str]], context: _SecretContext = _NO_SECRET_CONTEXT) -> Any:
    if isinstance(value, str):
        if context.strings:
            return value if value in ("", MASK) else mask.mask_value()
        for pattern in patterns:
            value = pattern.sub(mask, value)
        return value
    if isinstance(value, dict):
        return {
            _redact_nested(key, mask, patterns): _redact_nested(
                item, mask, patterns, context if key in mask.harmless else _context_from_key(key, context)
            )
            for key, item in value.items()
        }
    if isinstance(value, list):
        before = (None, *value)
        return [_redact_nested(item, mask, patterns, _context_from_flag(flag, context)) for flag, item in zip(before, value, strict=False)]
    if context.numbers and isinstance(value, int | float) and not isinstance(value, bool):
        return mask.mask_value()
    return value


def _mask_user_patterns(value: Any, extra: tuple[str, ...], mask: _Mask, fixed_keys: Container[str]) -> Any:
    """Mask everything that the user's own patterns match."""
    from fleetlore.user_patterns import patterns_of

    texts = list(dict.fromkeys(text for text in _texts_in(value, fixed_keys) if text not in ("", MASK, WITHHELD)))
    results = dict(zip(texts, patterns_of(extra).mask(texts, MASK), strict=True))

    def replace_in(value: Any) -> Any:
        if isinstance(value, str):
            result = results.get(value, (value, 0))
            mask.found += 1 if result is None else result[1]
            return WITHHELD if result is None else result[0]
        if isinstance(value, dict):
            keys = _number_lines(key if key in fixed_keys else replace_in(key) for key in value)
            return {key: replace_in(item) for key, item in zip(keys, value.values(), strict=True)}
        return [replace_in(item) for item in value] if isinstance(value, list) else value

    return replace_in(value)


def _number_lines(keys: Iterable[Any]) -> Iterator[Any]:
    """Yield keys, with a number added where masking made two of them equal."""
    seen: dict[Any, int] = {}
    for key in keys:
        seen[key] = number = seen.get(key, 0) + 1
        yield key if number == 1 else f"{key} ({number})"


def _texts_in(value: Any, fixed_keys: Container[str]) -> Iterator[str]:
    """Yield every string of a value, and every key that is not fixed."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for key, item in value.items():
            if key not in fixed_keys:
                yield from _texts_in(key, ())
            yield from _texts_in(item, fixed_keys)
    elif isinstance(value, list):
        for item in value:
            yield from _texts_in(item, fixed_keys)


def _context_from_key(key: Any, above: _SecretContext) -> _SecretContext:
    """A value under a secret key is a secret whatever it looks like."""
    if above.strings or not isinstance(key, str) or not _compile_expression(_SECRET_KEY_PATTERN).search(key):
        return above
    return _SecretContext(True, _compile_expression(_NUMERIC_SECRET_PATTERN).search(key) is not None)


def _context_from_flag(before: Any, above: _SecretContext) -> _SecretContext:
    """So is the argument after a secret flag in a list of arguments."""
    if above.strings or not isinstance(before, str) or not _compile_expression(_SECRET_FLAG_PATTERN).fullmatch(before):
        return above
    return _SecretContext(True, False)


@lru_cache(maxsize=4096)
def _has_hint(part: bytes) -> bool:
    """Check the part of an event between its stamps and its text: kind and names, which recur, so it is cached."""
    return _compile_hints().search(part) is not None


@cache
def _compile_hints() -> re.Pattern[bytes]:
    import re

    return re.compile(_HINT_PATTERN.encode())


@cache
def _compile_patterns() -> tuple[re.Pattern[str], ...]:
    import re

    return tuple(re.compile(item.expression, re.DOTALL | (re.IGNORECASE if item.ignore_case else 0)) for item in _PATTERNS)


@cache
def _compile_expression(source: str) -> re.Pattern[str]:
    import re

    return re.compile(source, re.IGNORECASE)
