"""Whether a query only reads. The only module that knows sqlglot.

What is sent to the database is put together from the very words that were checked: comments, in which servers see more than parsers do
(`/*! … */`), never reach it. It must be one statement, of parts that only read, and every name before a bracket must be known.
"""

from __future__ import annotations

import logging
import re
from collections import Counter
from functools import cache
from itertools import pairwise
from types import ModuleType
from typing import Any

from fleetlore.errors import QueryRefused
from fleetlore.graph.tools.sql_names import EFFECTS, FUNCTIONS, PARTS, SYNTAX, SYSTEM_SCHEMAS, TYPES, Dialect

LONGEST = 20_000
"""Characters."""
_MOST_WORDS, _DEEPEST = 4_000, 60
_CONTROLS = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f]")
_BEGINNINGS = ("select", "with", "values", "(")


def checked(sql: str, dialect: Dialect) -> str:
    """The query as it is to be sent; `QueryRefused` if it is not one that only reads."""
    if len(sql) > LONGEST:
        raise QueryRefused(f"it is longer than {LONGEST:,} characters")
    if _CONTROLS.search(sql) or not _is_text(sql):
        raise QueryRefused("it holds characters that are no text")
    words = _words(sql, dialect)
    tree = _tree(words, sql, dialect)
    _check_parts(tree, dialect)
    _check_calls(words, tree, dialect)
    return _rebuilt(words, sql)


def _words(sql: str, dialect: Dialect) -> list[Any]:
    """Its tokens, without a semicolon at the end."""
    sqlglot = _sqlglot()
    kinds = sqlglot.TokenType
    try:
        words: list[Any] = sqlglot.Dialect.get_or_raise(dialect).tokenize(sql)
    except sqlglot.errors.SqlglotError as error:
        raise QueryRefused("it cannot be read: a string, a name or a comment has no end") from error
    while words and words[-1].token_type is kinds.SEMICOLON:
        words.pop()
    if not words or words[0].text.lower() not in _BEGINNINGS:
        raise QueryRefused("only queries are asked: begin with SELECT, WITH or VALUES")
    if any(word.token_type is kinds.SEMICOLON for word in words):
        raise QueryRefused("it is more than one statement; ask for one thing at a time")
    if len(words) > _MOST_WORDS or _depth(words) > _DEEPEST:
        raise QueryRefused(f"it is too large: at most {_MOST_WORDS:,} words and {_DEEPEST} brackets in each other")
    return words


def _depth(words: list[Any]) -> int:
    kinds = _sqlglot().TokenType
    opening, closing = (
        (kinds.L_PAREN, kinds.L_BRACKET, kinds.L_BRACE, kinds.CASE),
        (kinds.R_PAREN, kinds.R_BRACKET, kinds.R_BRACE, kinds.END),
    )
    deepest = depth = 0
    for word in words:
        depth += (word.token_type in opening) - (word.token_type in closing)
        deepest = max(deepest, depth)
    return deepest


def _tree(words: list[Any], sql: str, dialect: Dialect) -> Any:
    sqlglot = _sqlglot()
    try:
        trees = sqlglot.Dialect.get_or_raise(dialect).parser().parse(words, sql)
    except sqlglot.errors.ParseError as error:
        raise QueryRefused(_place_of(error)) from error
    except (sqlglot.errors.SqlglotError, ValueError, RecursionError) as error:
        raise QueryRefused("it cannot be read; say it in simpler words") from error
    if len(trees) != 1 or not isinstance(trees[0], sqlglot.exp.Query | sqlglot.exp.Values):
        raise QueryRefused("only queries are asked: begin with SELECT, WITH or VALUES")
    return trees[0]


def _place_of(error: Any) -> str:
    """Where a parser stumbled, without the colours that its own message has."""
    first = error.errors[0] if error.errors else {}
    said, line, column = (first.get(name) for name in ("highlight", "line", "col"))
    return f"it cannot be read near {said!r}, line {line}, column {column}" if said else "it cannot be read: something is missing"


def _check_parts(tree: Any, dialect: Dialect) -> None:
    exp, functions = _sqlglot().exp, FUNCTIONS[dialect] | {"row"}
    for part in tree.walk():
        name = type(part).__name__
        if (name not in PARTS and not isinstance(part, exp.Func)) or name in EFFECTS:
            raise QueryRefused(f"{_shown(part)!r} ({name}) is no part of a query that only reads")
        if isinstance(part, exp.Anonymous) and part.name.lower() not in functions:
            raise QueryRefused(_unknown(part.name))
        if isinstance(part, exp.DataType) and part.this is exp.DataType.Type.USERDEFINED:
            raise QueryRefused(f"{_shown(part)!r} is a type of the database's own; cast to a common one")
        if isinstance(part, exp.Table) and _is_of_the_system(part):
            raise QueryRefused(f"{_shown(part)!r} belongs to the server; what there is to know of tables is in information_schema")


def _is_of_the_system(table: Any) -> bool:
    if isinstance(table.this, _sqlglot().exp.Func):
        return False
    return bool({table.db.lower(), table.catalog.lower()} & SYSTEM_SCHEMAS) or table.name.lower().startswith("pg_")


def _check_calls(words: list[Any], tree: Any, dialect: Dialect) -> None:
    """Every name that stands before a bracket. Only those of columns that an alias lists are the query's own."""
    exp, kinds = _sqlglot().exp, _sqlglot().TokenType
    allowed = FUNCTIONS[dialect] | SYNTAX | TYPES
    listed = Counter(alias.name.lower() for alias in tree.find_all(exp.TableAlias) if alias.args.get("columns"))
    for number, (word, following) in enumerate(pairwise(words)):
        if following.token_type is not kinds.L_PAREN or not _is_name(word, kinds):
            continue
        # Some keywords are of two words, as in GROUP BY.
        name = word.text.lower() if word.token_type is kinds.IDENTIFIER else word.text.lower().split()[-1]
        if number and words[number - 1].token_type is kinds.DOT:
            raise QueryRefused(f"{name}: functions are called by their own name, without a schema's")
        if name.isascii() and name in allowed and word.token_type is not kinds.IDENTIFIER:
            continue
        listed[name] -= 1
        if listed[name] < 0:
            raise QueryRefused(_unknown(name))


def _unknown(name: str) -> str:
    return f"the function {name[:80].lower()} is not among those that only look and reckon"


def _is_name(word: Any, kinds: Any) -> bool:
    is_quoted = word.token_type in (kinds.IDENTIFIER, kinds.STRING)
    return bool(word.text.strip()) and (is_quoted or not word.text.isascii() or word.text[0].isalpha() or word.text[0] == "_")


def _rebuilt(words: list[Any], sql: str) -> str:
    """The same words, each as it was written, and nothing that stood between them but blanks."""
    pieces = [sql[words[0].start : words[0].end + 1]]
    for before, word in pairwise(words):
        gap = sql[before.end + 1 : word.start]
        pieces.append(("\n" if "\n" in gap else " ") if gap else "")
        pieces.append(sql[word.start : word.end + 1])
    return "".join(pieces)


def _shown(part: Any) -> str:
    try:
        return str(part.sql())[:80]
    except (ValueError, RecursionError):
        return "…"


def _is_text(sql: str) -> bool:
    try:
        sql.encode()
    except UnicodeEncodeError:
        return False
    return True


@cache
def _sqlglot() -> ModuleType:
    """Loaded with the first query; it takes half a second."""
    import sqlglot
    import sqlglot.errors

    # It would tell the terminal of statements that it does not know, which are refused here.
    logging.getLogger("sqlglot").setLevel(logging.ERROR)
    return sqlglot
