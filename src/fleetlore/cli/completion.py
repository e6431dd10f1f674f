"""`lore completion`: prints a script that completes commands, verbs and options in bash, zsh and fish."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from fleetlore.cli import arguments, main, terminal

if TYPE_CHECKING:
    from argparse import ArgumentParser, Namespace
    from collections.abc import Iterator

SHELLS = ("bash", "zsh", "fish")
_EXAMPLES = (
    ('eval "$(lore completion bash)"', "in ~/.bashrc"),
    ('eval "$(lore completion zsh)"', "in ~/.zshrc, after compinit"),
    ("lore completion fish > ~/.config/fish/completions/lore.fish", "for fish"),
)
_BASH = """\
_lore() {{
    local word="${{COMP_WORDS[COMP_CWORD]}}" key="" each
    for each in "${{COMP_WORDS[@]:1:COMP_CWORD-1}}"; do
        [[ $each == -* ]] || key="$key $each"
    done
    local words
    while :; do
        case "${{key# }}" in
{cases}
            *) words="" ;;
        esac
        [[ -n $words || -z $key ]] && break
        key="${{key% *}}"
    done
    COMPREPLY=($(compgen -W "$words" -- "$word"))
}}
complete -F _lore -o default lore fleetlore"""
_ZSH = "autoload -U +X bashcompinit && bashcompinit\n"


def configure(parser: ArgumentParser) -> None:
    """Add the arguments."""
    parser.add_argument("shell", metavar="SHELL", choices=SHELLS, help="bash, zsh or fish")
    arguments.add_examples(parser, _EXAMPLES)


def run(args: Namespace) -> int:
    """Print the script."""
    words = find_words()
    if args.shell == "fish":
        for line in _fish_lines(words):
            terminal.print_line(line)
        return 0
    cases = "\n".join(f'            "{key}") words="{" ".join(found)}" ;;' for key, found in words.items())
    terminal.print_line((_ZSH if args.shell == "zsh" else "") + _BASH.format(cases=cases))
    return 0


def _fish_lines(words: dict[str, list[str]]) -> Iterator[str]:
    for key, found in words.items():
        conditions = [f"__fish_seen_subcommand_from {word}" for word in key.split()] or ["__fish_use_subcommand"]
        verbs = [other.removeprefix(f"{key} ") for other in words if key and other.rpartition(" ")[0] == key]
        if verbs:
            conditions.append(f"not __fish_seen_subcommand_from {' '.join(verbs)}")
        no_files = "-f " if verbs or not key else ""  # where a verb must follow; other arguments may be files
        for word in found:
            candidate = f"-l {word[2:]}" if word.startswith("--") else f"-a {word}"
            yield f"complete -c lore {no_files}-n '{'; and '.join(conditions)}' {candidate}"
    yield "complete -c fleetlore -w lore"


def find_words() -> dict[str, list[str]]:
    """What may follow each command and verb: `town task` → its verbs and options. The empty key has all commands."""
    words = {"": [*main.COMMANDS, "help"]}
    for name in main.COMMANDS:
        _collect_words(main.make_command_parser(name), name, words)
    return words


def _collect_words(parser: ArgumentParser, key: str, words: dict[str, list[str]]) -> None:
    if fill := vars(parser).pop("fill", None):  # verbs of `lore town` add their arguments when first used
        fill()
    found: list[str] = []
    for action in parser._actions:
        found += [option for option in action.option_strings if option.startswith("--")]
        if isinstance(action, argparse._SubParsersAction):
            for verb, below in action.choices.items():
                found.append(verb)
                _collect_words(below, f"{key} {verb}", words)
        elif action.choices is not None and not action.option_strings:
            found += map(str, action.choices)
    words[key] = found
