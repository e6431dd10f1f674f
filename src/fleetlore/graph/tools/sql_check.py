"""Checks that a query only reads. The only module that imports sqlglot.

The query sent to the database is rebuilt from the tokens that were checked, so comments, which some servers execute (`/*! … */`), never
reach it. It must be one statement of read-only parts, and every name before a parenthesis must be a known function.
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
    """The query to send; raises `QueryRefused` if it may do more than read."""
    if len(sql) > MAX_QUERY_LENGTH:
        raise QueryRefused(f"it is longer than {MAX_QUERY_LENGTH:,} characters")
    if _CONTROL_CHARACTERS.search(sql) or not _is_valid_unicode(sql):
        raise QueryRefused("it holds characters that are no text")
    tokens = _tokenize_query(sql, dialect)
    tree = _parse_tokens(tokens, sql, dialect)
    _check_parts(tree, dialect)
    _check_functions(tokens, tree, dialect)
    return _rebuild_query(tokens, sql)


def _tokenize_query(sql: str, dialect: SqlDialect) -> list[Any]:
    """The tokens, without a final semicolon."""
    sqlglot = _load_sqlglot()
    kinds = sqlglot.TokenType
    try:
        tokens: list[Any] = sqlglot.Dialect.get_or_raise(dialect).tokenize(sql)
    except sqlglot.errors.SqlglotError as error:
        raise QueryRefused("it cannot be read: a string, a name or a comment has no end") from error
    while tokens and tokens[-1].token_type is kinds.SEMICOLON:
        tokens.pop()
    if not tokens or tokens[0].text.lower() not in _QUERY_STARTS:
        raise QueryRefused("only queries are allowed: start with SELECT, WITH or VALUES")
    if any(token.token_type is kinds.SEMICOLON for token in tokens):
        raise QueryRefused("it is more than one statement; ask for one thing at a time")
    if len(tokens) > _MAX_TOKENS or _nesting_depth(tokens) > _MAX_DEPTH:
        raise QueryRefused(f"it is too large: at most {_MAX_TOKENS:,} words and {_MAX_DEPTH} brackets in each other")
    return tokens


def _nesting_depth(tokens: list[Any]) -> int:
    kinds = _load_sqlglot().TokenType
    opening, closing = (
        (kinds.L_PAREN, kinds.L_BRACKET, kinds.L_BRACE, kinds.CASE),
        (kinds.R_PAREN, kinds.R_BRACKET, kinds.R_BRACE, kinds.END),
    )
    deepest = depth = 0
    for token in tokens:
        depth += (token.token_type in opening) - (token.token_type in closing)
        deepest = max(deepest, depth)
    return deepest


def _parse_tokens(tokens: list[Any], sql: str, dialect: SqlDialect) -> Any:
    sqlglot = _load_sqlglot()
    try:
        trees = sqlglot.Dialect.get_or_raise(dialect).parser().parse(tokens, sql)
    except sqlglot.errors.ParseError as error:
        raise QueryRefused(_describe_parse_error(error)) from error
    except (sqlglot.errors.SqlglotError, ValueError, RecursionError) as error:
        raise QueryRefused("the query cannot be parsed; write a simpler one") from error
    if len(trees) != 1 or not isinstance(trees[0], sqlglot.exp.Query | sqlglot.exp.Values):
        raise QueryRefused("only queries are allowed: start with SELECT, WITH or VALUES")
    return trees[0]


def _describe_parse_error(error: Any) -> str:
    """Where the parser failed, without the colour codes of sqlglot's message."""
    first = error.errors[0] if error.errors else {}
    near, line, column = (first.get(name) for name in ("highlight", "line", "col"))
    return f"it cannot be read near {near!r}, line {line}, column {column}" if near else "it cannot be read: something is missing"


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


def _check_functions(tokens: list[Any], tree: Any, dialect: SqlDialect) -> None:
    """Every name before a parenthesis must be allowed, except aliases with a column list."""
    exp, kinds = _load_sqlglot().exp, _load_sqlglot().TokenType
    allowed = ALLOWED_FUNCTIONS[dialect] | SYNTAX_WORDS | SIZED_TYPES
    aliases = Counter(alias.name.lower() for alias in tree.find_all(exp.TableAlias) if alias.args.get("columns"))
    for index, (token, next_token) in enumerate(pairwise(tokens)):
        if next_token.token_type is not kinds.L_PAREN or not _is_name(token, kinds):
            continue
        # Some keywords consist of two words, such as GROUP BY.
        name = token.text.lower() if token.token_type is kinds.IDENTIFIER else token.text.lower().split()[-1]
        if index and tokens[index - 1].token_type is kinds.DOT:
            raise QueryRefused(f"{name}: functions are called by their own name, without a schema's")
        if name.isascii() and name in allowed and token.token_type is not kinds.IDENTIFIER:
            continue
        aliases[name] -= 1
        if aliases[name] < 0:
            raise QueryRefused(_describe_unknown_function(name))


def _describe_unknown_function(name: str) -> str:
    return f"the function {name[:80].lower()} is not among those that only look and reckon"


def _is_name(token: Any, kinds: Any) -> bool:
    is_quoted = token.token_type in (kinds.IDENTIFIER, kinds.STRING)
    return bool(token.text.strip()) and (is_quoted or not token.text.isascii() or token.text[0].isalpha() or token.text[0] == "_")


def _rebuild_query(tokens: list[Any], sql: str) -> str:
    """The tokens as written, with nothing but whitespace between them."""
    pieces = [sql[tokens[0].start : tokens[0].end + 1]]
    for before, token in pairwise(tokens):
        gap = sql[before.end + 1 : token.start]
        pieces.append(("\n" if "\n" in gap else " ") if gap else "")
        pieces.append(sql[token.start : token.end + 1])
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
    """Imported on first use; it takes half a second."""
    import sqlglot
    import sqlglot.errors

    # It logs warnings about unknown statements, which we refuse anyway.
    logging.getLogger("sqlglot").setLevel(logging.ERROR)
    return sqlglot
