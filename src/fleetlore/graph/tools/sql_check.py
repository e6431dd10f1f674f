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
from fleetlore.graph.tools.sql_names import (
    ALLOWED_FUNCTIONS,
    ALLOWED_PARTS,
    FORBIDDEN_PARTS,
    SIZED_TYPES,
    SYNTAX_WORDS,
    SYSTEM_SCHEMAS,
    SqlDialect,
)

MAX_QUERY_LENGTH = 20_000
"""Characters."""
_MAX_TOKENS, _MAX_DEPTH = 4_000, 60
_CONTROL_CHARACTERS = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f]")
_QUERY_STARTS = ("select", "with", "values", "(")


def check_query(sql: str, dialect: SqlDialect) -> str:
    """The query as it is to be sent; `QueryRefused` if it is not one that only reads."""
    if len(sql) > MAX_QUERY_LENGTH:
        raise QueryRefused(f"it is longer than {MAX_QUERY_LENGTH:,} characters")
    if _CONTROL_CHARACTERS.search(sql) or not _is_valid_unicode(sql):
        raise QueryRefused("it holds characters that are no text")
    words = _tokenize_query(sql, dialect)
    tree = _parse_tokens(words, sql, dialect)
    _check_parts(tree, dialect)
    _check_functions(words, tree, dialect)
    return _rebuild_query(words, sql)


def _tokenize_query(sql: str, dialect: SqlDialect) -> list[Any]:
    """Its tokens, without a semicolon at the end."""
    sqlglot = _load_sqlglot()
    kinds = sqlglot.TokenType
    try:
        words: list[Any] = sqlglot.Dialect.get_or_raise(dialect).tokenize(sql)
    except sqlglot.errors.SqlglotError as error:
        raise QueryRefused("it cannot be read: a string, a name or a comment has no end") from error
    while words and words[-1].token_type is kinds.SEMICOLON:
        words.pop()
    if not words or words[0].text.lower() not in _QUERY_STARTS:
        raise QueryRefused("only queries are asked: begin with SELECT, WITH or VALUES")
    if any(word.token_type is kinds.SEMICOLON for word in words):
        raise QueryRefused("it is more than one statement; ask for one thing at a time")
    if len(words) > _MAX_TOKENS or _nesting_depth(words) > _MAX_DEPTH:
        raise QueryRefused(f"it is too large: at most {_MAX_TOKENS:,} words and {_MAX_DEPTH} brackets in each other")
    return words


def _nesting_depth(words: list[Any]) -> int:
    kinds = _load_sqlglot().TokenType
    opening, closing = (
        (kinds.L_PAREN, kinds.L_BRACKET, kinds.L_BRACE, kinds.CASE),
        (kinds.R_PAREN, kinds.R_BRACKET, kinds.R_BRACE, kinds.END),
    )
    deepest = depth = 0
    for word in words:
        depth += (word.token_type in opening) - (word.token_type in closing)
        deepest = max(deepest, depth)
    return deepest


def _parse_tokens(words: list[Any], sql: str, dialect: SqlDialect) -> Any:
    sqlglot = _load_sqlglot()
    try:
        trees = sqlglot.Dialect.get_or_raise(dialect).parser().parse(words, sql)
    except sqlglot.errors.ParseError as error:
        raise QueryRefused(_describe_parse_error(error)) from error
    except (sqlglot.errors.SqlglotError, ValueError, RecursionError) as error:
        raise QueryRefused("it cannot be read; say it in simpler words") from error
    if len(trees) != 1 or not isinstance(trees[0], sqlglot.exp.Query | sqlglot.exp.Values):
        raise QueryRefused("only queries are asked: begin with SELECT, WITH or VALUES")
    return trees[0]


def _describe_parse_error(error: Any) -> str:
    """Where a parser stumbled, without the colours that its own message has."""
    first = error.errors[0] if error.errors else {}
    said, line, column = (first.get(name) for name in ("highlight", "line", "col"))
    return f"it cannot be read near {said!r}, line {line}, column {column}" if said else "it cannot be read: something is missing"


def _check_parts(tree: Any, dialect: SqlDialect) -> None:
    exp, functions = _load_sqlglot().exp, ALLOWED_FUNCTIONS[dialect] | {"row"}
    for part in tree.walk():
        name = type(part).__name__
        if (name not in ALLOWED_PARTS and not isinstance(part, exp.Func)) or name in FORBIDDEN_PARTS:
            raise QueryRefused(f"{_format_part(part)!r} ({name}) is no part of a query that only reads")
        if isinstance(part, exp.Anonymous) and part.name.lower() not in functions:
            raise QueryRefused(_describe_unknown_function(part.name))
        if isinstance(part, exp.DataType) and part.this is exp.DataType.Type.USERDEFINED:
            raise QueryRefused(f"{_format_part(part)!r} is a type of the database's own; cast to a common one")
        if isinstance(part, exp.Table) and _is_system_table(part):
            raise QueryRefused(f"{_format_part(part)!r} belongs to the server; what there is to know of tables is in information_schema")


def _is_system_table(table: Any) -> bool:
    if isinstance(table.this, _load_sqlglot().exp.Func):
        return False
    return bool({table.db.lower(), table.catalog.lower()} & SYSTEM_SCHEMAS) or table.name.lower().startswith("pg_")


def _check_functions(words: list[Any], tree: Any, dialect: SqlDialect) -> None:
    """Every name that stands before a bracket. Only those of columns that an alias lists are the query's own."""
    exp, kinds = _load_sqlglot().exp, _load_sqlglot().TokenType
    allowed = ALLOWED_FUNCTIONS[dialect] | SYNTAX_WORDS | SIZED_TYPES
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
            raise QueryRefused(_describe_unknown_function(name))


def _describe_unknown_function(name: str) -> str:
    return f"the function {name[:80].lower()} is not among those that only look and reckon"


def _is_name(word: Any, kinds: Any) -> bool:
    is_quoted = word.token_type in (kinds.IDENTIFIER, kinds.STRING)
    return bool(word.text.strip()) and (is_quoted or not word.text.isascii() or word.text[0].isalpha() or word.text[0] == "_")


def _rebuild_query(words: list[Any], sql: str) -> str:
    """The same words, each as it was written, and nothing that stood between them but blanks."""
    pieces = [sql[words[0].start : words[0].end + 1]]
    for before, word in pairwise(words):
        gap = sql[before.end + 1 : word.start]
        pieces.append(("\n" if "\n" in gap else " ") if gap else "")
        pieces.append(sql[word.start : word.end + 1])
    return "".join(pieces)


def _format_part(part: Any) -> str:
    try:
        return str(part.sql())[:80]
    except (ValueError, RecursionError):
        return "…"


def _is_valid_unicode(sql: str) -> bool:
    try:
        sql.encode()
    except UnicodeEncodeError:
        return False
    return True


@cache
def _load_sqlglot() -> ModuleType:
    """Loaded with the first query; it takes half a second."""
    import sqlglot
    import sqlglot.errors

    # It would tell the terminal of statements that it does not know, which are refused here.
    logging.getLogger("sqlglot").setLevel(logging.ERROR)
    return sqlglot
