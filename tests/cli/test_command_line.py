"""The command line as a whole: the list of commands, help, options anywhere, errors in one line."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from fleetlore import __version__
from fleetlore.cli import main as cli
from fleetlore.cli.main import COMMANDS, EPILOGUE, GROUPS, GUESSES, make_command_parser
from tests.cli.running import Lore, command

DOCS = Path(__file__).parents[2] / "docs"


def listed(text: str) -> dict[str, list[str]]:
    """The commands of a list, under the headings they stand below."""
    found: dict[str, list[str]] = {}
    heading = ""
    for line in text.partition("examples:")[0].splitlines()[4:]:
        if line.startswith("  "):
            found[heading].append(line.split()[0])
        elif line and not line.startswith("`"):
            heading = line
            found[heading] = []
    return found


def test_lore_alone_shows_the_commands_of_every_day_and_where_the_others_are(lore: Lore) -> None:
    result = lore(code=0)
    assert listed(result.out) == {"every day": list(GROUPS["every day"])}
    assert len(GROUPS["every day"]) <= 12
    assert "`lore help all` lists all commands" in result.out


@pytest.mark.parametrize("argv", [["--help"], ["-h"], ["help"]])
def test_help_shows_twelve_verbs_and_where_the_others_are(lore: Lore, argv: list[str]) -> None:
    result = lore(*argv, code=0)
    assert listed(result.out) == {"every day": list(GROUPS["every day"])}
    assert len(GROUPS["every day"]) == 12
    assert "`lore help all` lists all commands" in result.out


def test_the_whole_list_has_every_command_once_by_subject_those_of_every_day_first(lore: Lore) -> None:
    result = lore("help", "all", code=0)
    assert listed(result.out) == {heading: list(names) for heading, names in GROUPS.items()}
    assert sorted(name for names in GROUPS.values() for name in names) == sorted(COMMANDS)
    assert "lore emit fleet.commit" in result.out


@pytest.mark.parametrize("argv", [[], ["help", "all"]])
def test_the_lists_fit_into_a_hundred_columns(lore: Lore, argv: list[str]) -> None:
    assert [line for line in lore(*argv).lines if len(line) > 100] == []


def test_the_examples_of_the_list_are_taken() -> None:
    examples = [re.split(r" {2,}", line.strip())[0].split() for line in EPILOGUE.splitlines() if line.startswith("  lore ")]
    assert len(examples) > 5
    for words in examples:
        argv = words[3:] if words[1] == "--log" else words[1:]
        assert make_command_parser(argv[0]).parse_args(argv[1:])


def buffered() -> dict[str, str]:
    """Python buffers what goes into a pipe unless PYTHONUNBUFFERED is set, as on many CI machines."""
    return {name: value for name, value in os.environ.items() if name != "PYTHONUNBUFFERED"}


@pytest.mark.parametrize("argv", [["--help"], ["town", "send", "--help"]])
def test_help_arrives_whole_in_a_pipe(lore: Lore, argv: list[str]) -> None:
    printed = subprocess.run(command(argv), check=True, capture_output=True, text=True, env=buffered()).stdout
    assert printed == lore(*argv).out


FAILS_HALFWAY = """
import sys, types
from fleetlore.cli import main, terminal
from fleetlore.errors import LogError

def run(args):
    terminal.print_line("the first half")
    raise LogError("the disk is gone")

sys.modules["halves"] = types.SimpleNamespace(configure=lambda parser: None, run=run)
main.COMMANDS["halves"] = "halves"
sys.argv = ["lore", "halves"]
main.entry()
"""


def test_what_was_printed_before_a_failure_arrives_in_a_pipe() -> None:
    done = subprocess.run([sys.executable, "-c", FAILS_HALFWAY], check=False, capture_output=True, text=True, env=buffered())
    assert (done.returncode, done.stdout, done.stderr) == (1, "the first half\n", "lore: the disk is gone\n")


@pytest.mark.parametrize("name", COMMANDS)
def test_the_help_of_every_command_has_an_example(lore: Lore, name: str) -> None:
    result = lore(name, "--help", code=0)
    assert "examples:" in result.out
    assert re.search(rf"^  .*lore .*{name}", result.out, re.MULTILINE)
    assert "--log URL" in result.out
    assert lore("help", name).out == result.out


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_has_its_section_in_the_guide(name: str) -> None:
    """Each of its options stands in docs/reference/cli.md, which is made of the parsers."""
    assert f"`lore {name}" in (DOCS / "reference" / "cli.md").read_text()


def test_the_version_is_reported(lore: Lore) -> None:
    assert lore("--version", code=0).out == f"lore {__version__}\n"


def test_the_package_run_as_a_module_is_the_same_command() -> None:
    recorded = subprocess.run([sys.executable, "-m", "fleetlore", "--version"], capture_output=True, check=True, text=True).stdout
    assert recorded == f"lore {__version__}\n"


def test_a_typing_error_is_answered_with_the_nearest_command(lore: Lore) -> None:
    result = lore("evnets", code=2)
    assert result.err == "lore: unknown command: evnets; did you mean `lore events`?\n"
    assert "did you mean" not in lore("xyzzy", code=2).err


@pytest.mark.parametrize("guess", GUESSES)
def test_what_people_guess_leads_to_a_command(lore: Lore, guess: str) -> None:
    assert guess not in COMMANDS
    assert GUESSES[guess].split()[0] in COMMANDS
    assert f"use `lore {GUESSES[guess]}`" in lore(guess, code=2).err


@pytest.mark.parametrize("shell", ["bash", "zsh"])
def test_commands_verbs_and_choices_are_completed(lore: Lore, shell: str) -> None:
    script = lore("completion", "bash", code=0).out
    for line, expected in (("lore stat", "status statusline"), ("lore town task ca", "cancel"), ("lore decide x al", "allow")):
        words = " ".join(f"'{word}'" for word in line.split())
        ask = f'{script}\nCOMP_WORDS=({words}); COMP_CWORD={len(line.split()) - 1}; _lore; echo "${{COMPREPLY[@]}}"'
        assert subprocess.run(["bash", "-c", ask], capture_output=True, check=True, text=True).stdout.strip() == expected
    assert "complete -F _lore" in lore("completion", shell, code=0).out


def test_fish_completes_verbs_below_their_command_only_and_files_where_they_may_stand(lore: Lore) -> None:
    script = lore("completion", "fish", code=0).lines
    [cancel] = [line for line in script if line.endswith("-a cancel") and "from town; and __fish_seen_subcommand_from task;" in line]
    assert cancel.startswith("complete -c lore -f -n '__fish_seen_subcommand_from town; and __fish_seen_subcommand_from task; and not ")
    assert "complete -c lore -n '__fish_seen_subcommand_from scan' -l dry-run" in script
    assert script[-1] == "complete -c fleetlore -w lore"
    assert not any(" and __fish" in line.replace("; and", "") for line in script)


def test_files_with_blanks_in_their_names_are_left_to_bash(lore: Lore) -> None:
    lore.write("a b.txt", "")
    script = lore("completion", "bash", code=0).out
    ask = f'{script}\nCOMP_WORDS=(lore scan a); COMP_CWORD=2; _lore; echo "${{#COMPREPLY[@]}}"; complete -p lore'
    assert (
        subprocess.run(["bash", "-c", ask], capture_output=True, check=True, text=True).stdout == "0\ncomplete -o default -F _lore lore\n"
    )


def test_events_as_json_in_a_pipe_are_all_of_them(lore: Lore) -> None:
    lore("emit", "-", stdin=b"".join(b'{"kind": "fleet.commit", "agent": "ada"}\n' for _ in range(30)), code=0)
    assert len(lore("events", "--json", code=0).lines) == 30
    assert len(lore("events", code=0).lines) < 30


@pytest.mark.parametrize("argv", [["--frob", "emit"], ["--log"], ["--town=", "emit"], ["events", "--frob"], ["events", "--scop", "town"]])
def test_a_wrong_command_line_is_a_usage_error(lore: Lore, argv: list[str]) -> None:
    result = lore(*argv, code=2)
    assert result.err.startswith("lore")
    assert "Traceback" not in result.err


@pytest.mark.parametrize(
    "argv",
    [
        ["--log", "sqlite:a.db", "--town", "harbour", "emit", "fleet.idle"],
        ["--log=sqlite:a.db", "emit", "--town=harbour", "fleet.idle"],
        ["emit", "fleet.idle", "--log", "sqlite:a.db", "--town", "harbour"],
        ["--log", "sqlite:b.db", "--town", "elsewhere", "emit", "--log", "sqlite:a.db", "fleet.idle", "--town", "harbour"],
        ["emit", "fleet.idle", "--log", "sqlite:a.db?town=harbour"],
        ["emit", "fleet.idle", "--log", "sqlite:a.db?town=elsewhere", "--town", "harbour"],
    ],
)
def test_log_and_town_may_stand_before_or_behind_the_command(lore: Lore, argv: list[str]) -> None:
    lore(*argv, code=0)
    assert not (lore.folder / "b.db").exists()
    assert len(lore("events", "--json", "--log", "sqlite:a.db", "--town", "harbour").lines) == 1
    assert lore("events", "--json", "--log", "sqlite:a.db").lines == []


@pytest.mark.parametrize(
    ("argv", "code", "reason"),
    [
        (["events", "--scope", "planet:x"], 2, "unknown scope"),
        (["events", "--log", "fleet.db"], 2, "write sqlite:fleet.db"),
        (["events", "--log", "sqlite:absent.db"], 1, "there is no log yet"),
        (["emit", "fleet.idle", "--log", "sqlite:no/such/folder.db"], 1, "folder.db"),
        (["import", "klingon", "x"], 2, "klingon: there is no such file or folder, nor format"),
        (["export", "klingon"], 2, "unknown format"),
        (["verify", "--log", "memory:"], 2, "nothing to verify"),
        (["verify", "--log", "sqlit:notes.db"], 2, "unknown log address sqlit:"),
        (["events", "--since", "whenever"], 2, "not a time"),
        (["events", "--last", "-1"], 2, "--last"),
    ],
)
def test_an_error_is_one_line_that_says_what_to_do(lore: Lore, argv: list[str], code: int, reason: str) -> None:
    result = lore(*argv, code=code)
    assert reason in result.err
    assert result.err.count("\n") == 1
    assert result.err.startswith("lore: ")


def test_what_nobody_foresaw_is_reported_without_a_traceback_unless_asked_for(lore: Lore, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(COMMANDS, "emit", "fleetlore.cli.no_such_module")
    assert "Traceback" not in lore("emit", "fleet.idle", code=1).err
    monkeypatch.setenv("FLEETLORE_DEBUG", "1")
    assert "Traceback" in lore("emit", "fleet.idle", code=1).err


def test_windows_is_refused_in_one_sentence(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(sys, "platform", "win32")
    assert cli.entry() == 1
    assert capsys.readouterr().err == "lore: Fleetlore runs on Linux and macOS; on Windows, use it inside WSL.\n"


def test_a_reader_that_stops_early_ends_it_quietly(lore: Lore) -> None:
    lore("emit", "-", stdin=b'{"kind":"fleet.commit","actor":"ada","text":"%s"}\n' % (b"x" * 500) * 1000)
    process = lore.start("events", "--all", stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    assert process.stdout is not None
    assert process.stderr is not None
    process.stdout.readline()
    process.stdout.close()
    assert process.stderr.read() == b""
    process.stderr.close()
    assert process.wait() == 141


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="no /dev/full here")
def test_output_that_cannot_be_written_is_a_failure(lore: Lore) -> None:
    lore("emit", "fleet.idle")
    with open("/dev/full", "wb") as full:
        result = subprocess.run(command(["events"]), stdout=full, stderr=subprocess.PIPE, check=False)
    assert result.returncode == 1
    assert result.stderr.startswith(b"lore: No space left")


def test_an_event_is_stored_though_nobody_reads_the_position(lore: Lore) -> None:
    code = subprocess.run(["sh", "-c", 'exec "$@" >&- 2>&- <&-', "sh", *command(["emit", "fleet.idle"])], check=False).returncode
    assert code == 0
    assert len(lore("events", "--json").lines) == 1


def test_an_interrupt_ends_a_command_with_130_and_no_words(lore: Lore) -> None:
    process = lore.start("emit", "-", stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    follower = lore.start("events", "--follow", "--json", stdout=subprocess.PIPE)
    assert process.stdin is not None
    assert follower.stdout is not None
    process.stdin.write(b'{"kind":"fleet.commit","actor":"ada"}\n')
    process.stdin.flush()
    follower.stdout.readline()  # it has come so far as to store
    follower.send_signal(signal.SIGINT)
    follower.communicate()
    process.send_signal(signal.SIGINT)
    assert process.communicate()[1] == b""
    assert process.returncode == 130
