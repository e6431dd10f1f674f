"""Splits a shell command line into its simple commands, and says if it is not certain that these are all.

Deliberately knows less than a shell: bash, zsh and dash differ in the rest, and a parser that guesses can be fooled.
`dialects/commands/shell.py` is the other way round: it reads what already ran, and its best guess is good enough. A rule that
allows a command must not rest on a guess, so the two do not share a parser. Used by `shell.py`.
"""

from __future__ import annotations

import re

from msgspec import Struct

_SEPARATORS = ";&|\n"
_MAX_DEPTH = 16
_VARIABLE = re.compile(r"\$(?:[A-Za-z_][A-Za-z0-9_]*|\{[A-Za-z_][A-Za-z0-9_]*\})(?![A-Za-z0-9_\[])")
# Redirections to /dev/null, or of one stream into the other.
_SAFE_REDIRECTION = re.compile(r"(?:>>?[ \t]*/dev/null|<[ \t]*/dev/null|>&[12])(?=[ \t\n;&|)]|\Z)")
_RESERVED = frozenset(
    (
        "!", "[[", "]]", "{", "}", "if", "then", "elif", "else", "fi", "for", "foreach", "in", "do", "done", "while", "until", "case",
        "esac", "select", "function", "time", "coproc", "repeat", "end", "always", "nocorrect", "noglob", "builtin", "command", "exec",
        "eval", "source", ".",
    )
)  # fmt: skip


class GateCommand(Struct, frozen=True):
    """One command of a command line."""

    text: str
    """As written, with single blanks between words."""
    words: tuple[str, ...]
    """Its words without quotes."""
    first: str
    """The first word as written."""


class ParsedCommandLine(Struct, frozen=True):
    """A parsed command line."""

    parts: tuple[GateCommand, ...]
    """Every command in it, including those in `$(…)` and `(…)`, innermost first."""
    ambiguity: str | None
    """Why `parts` may be incomplete, or may do more than they show; `None` if they are certain."""


def parse_command_line(command: str) -> ParsedCommandLine:
    """Parse a command line. Never fails: what is not understood is reported as `ambiguity`."""
    parser = _CommandLineParser(command)
    parser.parse_commands("", depth=0)
    return ParsedCommandLine(tuple(parser.parts), parser.ambiguity)


class _CommandBuilder:
    """A command while it is parsed."""

    def __init__(self) -> None:
        self.raw: list[str] = []
        """Its words as written."""
        self.words: list[str] = []
        """Its words without quotes."""
        self.word: list[str] = []
        """The pieces of the current word, as written."""
        self.plain: list[str] = []
        """The same pieces without quotes."""
        self.has_closed_group = False
        """Whether a `(…)` ended in it."""

    def add(self, raw: str, plain: str) -> None:
        self.word.append(raw)
        self.plain.append(plain)

    def end_word(self) -> None:
        if self.word:
            self.raw.append("".join(self.word))
            self.words.append("".join(self.plain))
        self.drop_word()

    def drop_word(self) -> None:
        self.word, self.plain = [], []

    @property
    def is_number(self) -> bool:
        """Whether the current word is an unquoted number."""
        return "".join(self.word).isdecimal() and self.word == self.plain

    @property
    def is_empty(self) -> bool:
        return not self.word and not self.raw


class _CommandLineParser:
    """Goes through a line once."""

    def __init__(self, text: str) -> None:
        self.text, self.position = text, 0
        self.parts: list[GateCommand] = []
        self.ambiguity: str | None = None

    def parse_commands(self, closing: str, *, depth: int) -> None:
        """Parse commands up to a closing bracket or the end."""
        if depth > _MAX_DEPTH:
            self._mark_ambiguous("it is nested too deeply")
            self.position = len(self.text)
            return
        builder = _CommandBuilder()
        while (char := self._current_char()) and char != closing:
            if char in _SEPARATORS:
                self._finish_command(builder)
                builder = _CommandBuilder()
                self.position += 1
            else:
                self._parse_char(char, builder, depth)
        self._finish_command(builder)

    def _current_char(self) -> str:
        return self.text[self.position : self.position + 1]

    def _mark_ambiguous(self, reason: str) -> None:
        self.ambiguity = self.ambiguity or reason

    def _finish_command(self, builder: _CommandBuilder) -> None:
        builder.end_word()
        if not builder.raw:
            return
        if builder.has_closed_group:
            self._mark_ambiguous("words stand behind a bracket")
        if builder.raw[0] in _RESERVED:
            self._mark_ambiguous(f"it uses {builder.raw[0]!r} of the shell's language")
        self.parts.append(GateCommand(" ".join(builder.raw), tuple(builder.words), builder.raw[0]))

    def _parse_char(self, char: str, builder: _CommandBuilder, depth: int) -> None:
        match char:
            case " " | "\t":
                builder.end_word()
                self.position += 1
            case "'":
                self._parse_single_quotes(builder)
            case '"':
                self._parse_double_quotes(builder, depth)
            case "\\":
                self._parse_escape(builder)
            case "$":
                self._parse_dollar(builder, depth, quoted=False)
            case "<" | ">":
                self._parse_redirection(builder)
            case "(" | ")" | "`" | "#":
                self._parse_special(char, builder, depth)
            case _:
                self._parse_plain(char, builder)

    def _parse_plain(self, char: str, builder: _CommandBuilder) -> None:
        if char < " " or char == "\x7f" or "\ud800" <= char <= "\udfff":
            self._mark_ambiguous("it has control characters")
        builder.add(char, char)
        self.position += 1

    def _parse_single_quotes(self, builder: _CommandBuilder) -> None:
        end = self.text.find("'", self.position + 1)
        if end < 0:
            self._mark_ambiguous("a quote is not closed")
            end = len(self.text)
        builder.add(self.text[self.position : end + 1], self.text[self.position + 1 : end])
        self.position = end + 1

    def _parse_double_quotes(self, builder: _CommandBuilder, depth: int) -> None:
        builder.add('"', "")
        self.position += 1
        while (char := self._current_char()) and char != '"':
            if char == "\\":
                self._parse_escape(builder)
            elif char == "$":
                self._parse_dollar(builder, depth, quoted=True)
            else:
                if char == "`":
                    self._mark_ambiguous("it has backticks")
                builder.add(char, char)
                self.position += 1
        if not char:
            self._mark_ambiguous("a quote is not closed")
        builder.add(char, "")
        self.position += 1

    def _parse_escape(self, builder: _CommandBuilder) -> None:
        pair = self.text[self.position : self.position + 2]
        if pair in ("\\", "\\\n"):
            self._mark_ambiguous("a line goes on behind a backslash")
        builder.add(pair, pair[1:])
        self.position += 2

    def _parse_dollar(self, builder: _CommandBuilder, depth: int, *, quoted: bool) -> None:
        start = self.position
        next_char = self.text[start + 1 : start + 2]
        variable = _VARIABLE.match(self.text, start)
        if next_char == "(":
            if self.text[start + 2 : start + 3] == "(":
                self._mark_ambiguous("it has arithmetic")
            self._parse_group(2, depth)
        elif variable is not None:
            self.position = variable.end()
        else:
            if next_char not in (('"', " ") if quoted else ("", " ")):
                self._mark_ambiguous("it has an expansion other than of a plain name")
            self.position += 1
        builder.add(self.text[start : self.position], self.text[start : self.position])

    def _parse_group(self, opening_length: int, depth: int) -> None:
        self.position += opening_length
        self.parse_commands(")", depth=depth + 1)
        if not self._current_char():
            self._mark_ambiguous("a bracket is not closed")
        self.position += 1

    def _parse_redirection(self, builder: _CommandBuilder) -> None:
        if builder.is_number:
            builder.drop_word()  # it is a file descriptor
        builder.end_word()
        safe = _SAFE_REDIRECTION.match(self.text, self.position)
        if safe is None:
            self._mark_ambiguous("it redirects to or from elsewhere than /dev/null")
        self.position = self.position + 1 if safe is None else safe.end()

    def _parse_special(self, char: str, builder: _CommandBuilder, depth: int) -> None:
        if char == "(" and builder.is_empty and self.text[self.position + 1 : self.position + 2] != "(":
            if builder.has_closed_group:
                self._mark_ambiguous("a bracket stands behind a bracket")
            self._parse_group(1, depth)
            builder.has_closed_group = True
            return
        if char == "#" and builder.word:
            self._parse_plain(char, builder)
            return
        self._mark_ambiguous({"`": "it has backticks", "#": "it has a comment"}.get(char, "it has brackets in an unusual place"))
        builder.end_word()
        self.position += 1
