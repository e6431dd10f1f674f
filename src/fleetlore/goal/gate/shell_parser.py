"""What a shell's command line consists of, read so that nothing is run that was not seen. Whatever is not plain is called odd.

It knows less than a shell does, on purpose: bash, zsh and dash differ in the rest, and a reader that guesses can be fooled.
"""

from __future__ import annotations

import re

from msgspec import Struct

_SEPARATORS = ";&|\n"
_MAX_DEPTH = 16
_VARIABLE = re.compile(r"\$(?:[A-Za-z_][A-Za-z0-9_]*|\{[A-Za-z_][A-Za-z0-9_]*\})(?![A-Za-z0-9_\[])")
# What sends output nowhere, or one stream where the other goes.
_SAFE_REDIRECTION = re.compile(r"(?:>>?[ \t]*/dev/null|<[ \t]*/dev/null|>&[12])(?=[ \t\n;&|)]|\Z)")
_RESERVED = frozenset(
    (
        "!", "[[", "]]", "{", "}", "if", "then", "elif", "else", "fi", "for", "foreach", "in", "do", "done", "while", "until", "case",
        "esac", "select", "function", "time", "coproc", "repeat", "end", "always", "nocorrect", "noglob", "builtin", "command", "exec",
        "eval", "source", ".",
    )
)  # fmt: skip


class SimpleCommand(Struct, frozen=True):
    """One command of a line."""

    text: str
    """As it was written, blanks between words made one."""
    words: tuple[str, ...]
    """Its words, without their quotes."""
    first: str
    """The first word as it was written."""


class ParsedCommandLine(Struct, frozen=True):
    """A command line."""

    parts: tuple[SimpleCommand, ...]
    """Every command in it, those in `$(…)` and `(…)` too, the innermost first."""
    ambiguity: str | None
    """Why nobody can be sure that these are all, or that they do no more than they say."""


def parse_command_line(command: str) -> ParsedCommandLine:
    """What a command line would run."""
    reader = _CommandLineParser(command)
    reader.parse_commands("", depth=0)
    return ParsedCommandLine(tuple(reader.parts), reader.ambiguity)


class _CommandBuilder:
    """A command that is being read."""

    def __init__(self) -> None:
        self.raw: list[str] = []
        self.words: list[str] = []
        self.word: list[str] = []
        self.plain: list[str] = []
        self.has_closed_group = False

    def add(self, raw: str, plain: str) -> None:
        """Make the word longer."""
        self.word.append(raw)
        self.plain.append(plain)

    def end_word(self) -> None:
        """A blank, or the end."""
        if self.word:
            self.raw.append("".join(self.word))
            self.words.append("".join(self.plain))
        self.drop_word()

    def drop_word(self) -> None:
        """Forget what was begun."""
        self.word, self.plain = [], []

    @property
    def is_number(self) -> bool:
        """Whether the word so far is a number without quotes."""
        return "".join(self.word).isdecimal() and self.word == self.plain

    @property
    def is_empty(self) -> bool:
        """Whether no word has begun yet."""
        return not self.word and not self.raw


class _CommandLineParser:
    """Goes through a line once."""

    def __init__(self, text: str) -> None:
        self.text, self.at = text, 0
        self.parts: list[SimpleCommand] = []
        self.ambiguity: str | None = None

    def parse_commands(self, closing: str, *, depth: int) -> None:
        """Commands up to a closing bracket, or the end."""
        if depth > _MAX_DEPTH:
            self._mark_ambiguous("it is nested too deeply")
            self.at = len(self.text)
            return
        draft = _CommandBuilder()
        while (char := self._current_char()) and char != closing:
            if char in _SEPARATORS:
                self._finish_command(draft)
                draft = _CommandBuilder()
                self.at += 1
            else:
                self._parse_char(char, draft, depth)
        self._finish_command(draft)

    def _current_char(self) -> str:
        return self.text[self.at : self.at + 1]

    def _mark_ambiguous(self, why: str) -> None:
        self.ambiguity = self.ambiguity or why

    def _finish_command(self, draft: _CommandBuilder) -> None:
        draft.end_word()
        if not draft.raw:
            return
        if draft.has_closed_group:
            self._mark_ambiguous("words stand behind a bracket")
        if draft.raw[0] in _RESERVED:
            self._mark_ambiguous(f"it uses {draft.raw[0]!r} of the shell's language")
        self.parts.append(SimpleCommand(" ".join(draft.raw), tuple(draft.words), draft.raw[0]))

    def _parse_char(self, char: str, draft: _CommandBuilder, depth: int) -> None:
        match char:
            case " " | "\t":
                draft.end_word()
                self.at += 1
            case "'":
                self._parse_single_quotes(draft)
            case '"':
                self._parse_double_quotes(draft, depth)
            case "\\":
                self._parse_escape(draft)
            case "$":
                self._parse_dollar(draft, depth, quoted=False)
            case "<" | ">":
                self._parse_redirection(draft)
            case "(" | ")" | "`" | "#":
                self._parse_special(char, draft, depth)
            case _:
                self._parse_plain(char, draft)

    def _parse_plain(self, char: str, draft: _CommandBuilder) -> None:
        if char < " " or char == "\x7f" or "\ud800" <= char <= "\udfff":
            self._mark_ambiguous("it has control characters")
        draft.add(char, char)
        self.at += 1

    def _parse_single_quotes(self, draft: _CommandBuilder) -> None:
        end = self.text.find("'", self.at + 1)
        if end < 0:
            self._mark_ambiguous("a quote is not closed")
            end = len(self.text)
        draft.add(self.text[self.at : end + 1], self.text[self.at + 1 : end])
        self.at = end + 1

    def _parse_double_quotes(self, draft: _CommandBuilder, depth: int) -> None:
        draft.add('"', "")
        self.at += 1
        while (char := self._current_char()) and char != '"':
            if char == "\\":
                self._parse_escape(draft)
            elif char == "$":
                self._parse_dollar(draft, depth, quoted=True)
            else:
                if char == "`":
                    self._mark_ambiguous("it has backticks")
                draft.add(char, char)
                self.at += 1
        if not char:
            self._mark_ambiguous("a quote is not closed")
        draft.add(char, "")
        self.at += 1

    def _parse_escape(self, draft: _CommandBuilder) -> None:
        pair = self.text[self.at : self.at + 2]
        if pair in ("\\", "\\\n"):
            self._mark_ambiguous("a line goes on behind a backslash")
        draft.add(pair, pair[1:])
        self.at += 2

    def _parse_dollar(self, draft: _CommandBuilder, depth: int, *, quoted: bool) -> None:
        begin = self.at
        after = self.text[begin + 1 : begin + 2]
        name = _VARIABLE.match(self.text, begin)
        if after == "(":
            if self.text[begin + 2 : begin + 3] == "(":
                self._mark_ambiguous("it has arithmetic")
            self._parse_group(2, depth)
        elif name is not None:
            self.at = name.end()
        else:
            if after not in (('"', " ") if quoted else ("", " ")):
                self._mark_ambiguous("it has an expansion other than of a plain name")
            self.at += 1
        draft.add(self.text[begin : self.at], self.text[begin : self.at])

    def _parse_group(self, width: int, depth: int) -> None:
        self.at += width
        self.parse_commands(")", depth=depth + 1)
        if not self._current_char():
            self._mark_ambiguous("a bracket is not closed")
        self.at += 1

    def _parse_redirection(self, draft: _CommandBuilder) -> None:
        if draft.is_number:
            draft.drop_word()  # it says which stream
        draft.end_word()
        harmless = _SAFE_REDIRECTION.match(self.text, self.at)
        if harmless is None:
            self._mark_ambiguous("it redirects to or from elsewhere than /dev/null")
        self.at = self.at + 1 if harmless is None else harmless.end()

    def _parse_special(self, char: str, draft: _CommandBuilder, depth: int) -> None:
        if char == "(" and draft.is_empty and self.text[self.at + 1 : self.at + 2] != "(":
            if draft.has_closed_group:
                self._mark_ambiguous("a bracket stands behind a bracket")
            self._parse_group(1, depth)
            draft.has_closed_group = True
            return
        if char == "#" and draft.word:
            self._parse_plain(char, draft)
            return
        self._mark_ambiguous({"`": "it has backticks", "#": "it has a comment"}.get(char, "it has brackets in an unusual place"))
        draft.end_word()
        self.at += 1
