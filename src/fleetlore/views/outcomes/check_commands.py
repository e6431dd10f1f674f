"""Which commands are checks: tests, linters, type checkers and builds, by program, subcommand or the name of a task.

Programs are looked up in tables. Task runners (make, npm, mise, just …) are judged by the name of the task. A task such
as `check` or `ci` can be anything; its kind is "mixed" until its output shows what ran.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from typing import NamedTuple

from fleetlore.dialects.commands.shell import make_word_set, program_name
from fleetlore.views.outcomes import check_tables as tables
from fleetlore.views.outcomes.check_tables import BUILD, LINT, MIXED, TESTS, TYPES, Kind


class CheckCommand(NamedTuple):
    """One check that a simple command runs."""

    kind: Kind
    name: str  # program and task, such as "go test" or "mise run lint"
    whole: bool = True
    # The kind is certain only if the output shows it: `mvn package` runs tests unless it is configured not to.
    needs_evidence: bool = False
    # Exit code 0 proves nothing, an empty output does: `gofmt -l`.
    lists_findings: bool = False


def find_checks(words: Sequence[str]) -> tuple[CheckCommand, ...]:
    """The checks that a simple command runs; none for any other command."""
    return _find_checks(tuple(words[:60]))


@lru_cache(maxsize=256)
def _find_checks(words: tuple[str, ...]) -> tuple[CheckCommand, ...]:
    if not words or len(words[0]) > 300:
        return ()
    program = program_name(words[0])
    rest = words[1:]
    if tables.PYTHON_VERSION.match(program):
        program = "python"
    finder = _FINDERS.get(program)
    if finder is not None and ((checks := finder(program, rest)) or program not in _INTERPRETERS):
        return checks
    if program in tables.FORMATTERS:
        return _read_direct_command(LINT, program, rest) if tables.FORMATTERS[program] & set(rest) else ()
    if program == "go" and rest[:1] == ("install",) and any("@" in word for word in rest):
        return ()  # a tool is installed, which says nothing about the code
    if program in tables.BY_SUBCOMMAND and (checks := _find_subcommand(program, rest)):
        return checks
    if program in tables.RUNNERS:
        return _find_task(program, rest)
    if program in tables.BY_PROGRAM:
        return _read_direct_command(tables.BY_PROGRAM[program], program, rest)
    return _find_script(words, program)


def _find_php_checks(program: str, rest: tuple[str, ...]) -> tuple[CheckCommand, ...]:
    if rest and program_name(rest[0]) in ("artisan", "phpunit", "pest", "phpstan"):
        return _find_checks(rest)
    return _find_syntax_check(program, rest)


def _find_interpreter_checks(program: str, rest: tuple[str, ...]) -> tuple[CheckCommand, ...]:
    """`bash -n`, `node --test`, `node node_modules/.bin/jest`."""
    if not rest:
        return ()
    if checks := _find_syntax_check(program, rest):
        return checks
    if program == "node" and "--test" in rest:
        return (CheckCommand(TESTS, "node --test", not any(tables.TEST_FILE.search(word) for word in rest)),)
    if "node_modules/" in rest[0] or program_name(rest[0]) in tables.BY_PROGRAM:
        return _find_checks((program_name(rest[0]).removesuffix(".js"), *rest[1:]))
    return ()


def _find_coverage_program(_: str, rest: tuple[str, ...]) -> tuple[CheckCommand, ...]:
    return _find_coverage(rest)


def _find_sail(_: str, rest: tuple[str, ...]) -> tuple[CheckCommand, ...]:
    """Laravel Sail runs everything in its container: `sail test`, `sail artisan test`, `sail npm run build`."""
    return _find_checks(("artisan", *rest)) if rest[:1] == ("test",) else _find_checks(rest)


_test_call = re.compile(r"\btest(?:_\w+|that)?(?:::\w+)?\(|\.test\(")


def _find_expression_checks(program: str, rest: tuple[str, ...]) -> tuple[CheckCommand, ...]:
    """`Rscript -e 'devtools::test()'`, `julia -e 'using Pkg; Pkg.test()'`, `R CMD check`."""
    if rest[:2] == ("CMD", "check"):
        return (CheckCommand(TESTS, "R CMD check"),)
    if any(_test_call.search(word[:500]) for word in rest[:8]):
        return (CheckCommand(TESTS, program),)
    return ()


def _find_vitest(program: str, rest: tuple[str, ...]) -> tuple[CheckCommand, ...]:
    if (tables.WATCHING - {"-w"}) & set(rest) or rest[:1] == ("bench",):
        return ()
    return _read_direct_command(TESTS, program, rest)


def _find_listing_formatter(program: str, rest: tuple[str, ...]) -> tuple[CheckCommand, ...]:
    if "-w" in rest or ("-l" not in rest and "-d" not in rest):
        return ()
    return (CheckCommand(LINT, program, _covers_all(rest), lists_findings=True),)


def _read_direct_command(kind: Kind, name: str, rest: Sequence[str]) -> tuple[CheckCommand, ...]:
    if tables.LIST_ONLY & set(rest) and not _keeps_running(name, rest):
        return ()
    if tables.WATCHING & set(rest) and name in ("jest", "mocha", "webpack", "rollup", "esbuild", "karma", "parcel", "tsup", "ava"):
        return ()
    if name == "golangci-lint" and rest[:1] not in (("run",), ()):
        return ()
    if name in ("pre-commit", "prek") and rest[:1] != ("run",):
        return ()
    if name == "lefthook" and rest[:1] != ("run",):
        return ()
    if kind in (LINT, TYPES):  # `mypy app tests`: whole folders, by plain names
        rest = [word for word in rest if word.startswith("-") or "." in word.rstrip("/") or "/" in word.rstrip("/")]
    return (CheckCommand(kind, name, not _is_selection(rest)),)


_WITHOUT_LISTING = make_word_set("pytest py.test prettier shfmt rspec clang-format google-java-format php-cs-fixer phpunit ktfmt")


def _keeps_running(name: str, rest: Sequence[str]) -> bool:
    """Flags that only list in some programs mean something else in others: `pytest -l`, `grep -h`."""
    shown = tables.LIST_ONLY & set(rest)
    if shown <= {"-l", "-N", "-V", "-h", "--dry-run"}:
        return name in _WITHOUT_LISTING
    return False


def _find_subcommand(program: str, rest: Sequence[str]) -> tuple[CheckCommand, ...]:
    arguments = _after_options(rest, tables.RUNNERS.get(program, _NO_OPTIONS) | _GLOBAL_VALUED)
    if arguments and arguments[0].startswith("+"):  # cargo +nightly test
        arguments = arguments[1:]
    sub = arguments[0] if arguments else ""
    flags = tables.FORMAT_SUBCOMMANDS.get((program, sub))
    if flags is not None:
        return (CheckCommand(LINT, f"{program} {sub}", _covers_all(arguments[1:])),) if flags & set(rest) else ()
    special = _SPECIAL_SUBCOMMANDS.get((program, "test." if sub.startswith("test.") else sub))
    if special is not None:
        return special(arguments)
    kind = tables.BY_SUBCOMMAND[program].get(sub)
    if kind is None or (tables.LIST_ONLY - {"-l", "-N", "-V"}) & set(rest):
        return ()
    whole = not _is_selection(_own_arguments(program, sub, arguments[1:]))
    return (CheckCommand(kind, f"{program} {sub}" if sub else program, whole),)


def _find_cargo_tool(arguments: Sequence[str]) -> tuple[CheckCommand, ...]:
    """`cargo xtask ci`, `cargo hack test`."""
    kinds = kinds_of_task(arguments[1]) if len(arguments) > 1 else ()
    return tuple(CheckCommand(kind, f"cargo {arguments[0]} {arguments[1]}") for kind in kinds)


def _find_zig_build(arguments: Sequence[str]) -> tuple[CheckCommand, ...]:
    is_test = len(arguments) > 1 and arguments[1].startswith("test")
    return (CheckCommand(TESTS, "zig build test") if is_test else CheckCommand(BUILD, "zig build"),)


def _find_biome_format(arguments: Sequence[str]) -> tuple[CheckCommand, ...]:
    return () if {"--write", "--fix"} & set(arguments) else (CheckCommand(LINT, "biome format"),)


def _find_mix_list(arguments: Sequence[str]) -> tuple[CheckCommand, ...]:
    """`mix do format --check-formatted + credo + test`."""
    checks: list[CheckCommand] = []
    current: list[str] = []
    for word in [*arguments[1:], "+"]:
        if word == "+" or word.endswith(","):
            if word != "+":
                current.append(word[:-1])
            checks += _find_checks(("mix", *current)) if current else ()
            current = []
        else:
            current.append(word)
    return tuple(checks)


_SPECIAL_SUBCOMMANDS: Mapping[tuple[str, str], Callable[[Sequence[str]], tuple[CheckCommand, ...]]] = {
    ("cargo", "xtask"): _find_cargo_tool,
    ("cargo", "hack"): _find_cargo_tool,
    ("cargo", "make"): _find_cargo_tool,
    ("cargo", "tauri"): _find_cargo_tool,
    ("zig", "build"): _find_zig_build,
    ("biome", "format"): _find_biome_format,
    ("mix", "do"): _find_mix_list,
    ("mix", "test."): lambda arguments: (CheckCommand(TESTS, f"mix {arguments[0]}"),),
    ("docker", "buildx"): lambda arguments: (CheckCommand(BUILD, "docker build"),) if "build" in arguments[:3] else (),
    ("docker", "compose"): lambda arguments: (CheckCommand(BUILD, "docker compose build"),) if "build" in arguments[:6] else (),
    ("nix", "flake"): lambda arguments: (CheckCommand(MIXED, "nix flake check"),) if "check" in arguments[:3] else (),
}


_NO_OPTIONS: frozenset[str] = frozenset()
_GLOBAL_VALUED = make_word_set("-C --manifest-path --directory --color --config --prefix")


def _own_arguments(program: str, sub: str, arguments: Sequence[str]) -> Sequence[str]:
    """What can select tests or files: not the second word of `cargo nextest run`, nor what a test program gets behind `--`."""
    if program == "cargo":
        if sub in ("clippy", "check", "build", "doc") and "--" in arguments:
            arguments = arguments[: list(arguments).index("--")]
        return [word for word in arguments if word not in ("run", "--")]
    if program in ("docker", "podman", "hugo"):
        return ()
    return arguments


def _find_python_checks(_: str, rest: tuple[str, ...]) -> tuple[CheckCommand, ...]:
    place = 0
    while place < len(rest) and rest[place].startswith("-") and rest[place] not in ("-m", "-c", "-"):
        place += 2 if rest[place] in ("-W", "-X") else 1
    rest = rest[place:]
    if not rest:
        return ()
    if rest[0] == "-m" and len(rest) > 1:
        return _find_module_checks(rest[1], rest[2:])
    script = program_name(rest[0])
    if script in ("manage.py", "setup.py", "noxfile.py", "conftest.py", "pants.pyz"):
        return _find_checks(("manage.py", *rest[1:])) if script == "manage.py" else _find_setup(rest[1:], script)
    if tables.TEST_FILE.search(rest[0]):
        return (CheckCommand(TESTS, f"python {script}", script in ("runtests.py", "run_tests.py")),)
    return _find_script(rest, script)


def _find_module_checks(name: str, rest: tuple[str, ...]) -> tuple[CheckCommand, ...]:
    """`python -m NAME …`."""
    module = name.partition(".")[0]
    if module in ("py_compile", "compileall"):
        return (CheckCommand(BUILD, f"python -m {module}", False),)
    if module == "build":
        return (CheckCommand(BUILD, "python -m build"),)
    if module == "coverage":
        return _find_coverage(rest)
    if module in ("doctest", "test"):
        return (CheckCommand(TESTS, f"python -m {module}", False),)
    return _find_checks((module, *rest)) if module not in tables.MODULE_PROGRAMS else ()


def _find_setup(rest: Sequence[str], script: str) -> tuple[CheckCommand, ...]:
    if script != "setup.py" or not rest:
        return ()
    return {"test": (CheckCommand(TESTS, "setup.py test"),), "build": (CheckCommand(BUILD, "setup.py build"),)}.get(rest[0], ())


def _find_coverage(rest: tuple[str, ...]) -> tuple[CheckCommand, ...]:
    if rest[:1] != ("run",):
        return ()
    rest = tuple(word for word in rest[1:] if not word.startswith("--"))
    return _find_python_checks("python", rest)


def _find_go_checks(program: str, rest: tuple[str, ...]) -> tuple[CheckCommand, ...]:
    """`go test`, `go tool golangci-lint run`, `go run honnef.co/go/tools/cmd/staticcheck@latest ./...`."""
    if rest[:1] == ("test",) and "-c" in rest:
        return (CheckCommand(BUILD, "go test -c"),)  # it compiles the tests and runs none
    if rest[:1] not in (("run",), ("tool",)):
        return _find_subcommand(program, rest)
    arguments = _after_options(rest[1:], frozenset(("-tags", "-modfile", "-C")))
    if not arguments:
        return ()
    name = program_name(arguments[0].partition("@")[0])
    if name in tables.BY_PROGRAM or name in tables.RUNNERS or name in ("ginkgo", "gotestsum"):
        return _find_checks((name, *arguments[1:]))
    return ()


def _find_tsc(_: str, rest: Sequence[str]) -> tuple[CheckCommand, ...]:
    if tables.LIST_ONLY & set(rest) or "--watch" in rest or "-w" in rest:
        return ()
    whole = not any(word.endswith((".ts", ".tsx")) for word in rest)
    kinds: tuple[Kind, ...] = (TYPES,) if "--noEmit" in rest else (TYPES, BUILD)
    return tuple(CheckCommand(kind, "tsc", whole) for kind in kinds)


def _find_goals(program: str, rest: Sequence[str]) -> tuple[CheckCommand, ...]:
    program = tables.GOAL_ALIASES.get(program, program)
    if tables.LIST_ONLY & set(rest) - {"-V", "-N"}:
        return ()
    skips_tests = any(word.startswith(("-DskipTests", "-Dmaven.test.skip")) for word in rest)
    left_out: set[str] = set()
    goals: list[str] = []
    place = 0
    while place < len(rest):
        word = rest[place]
        if word in ("-x", "--exclude-task"):
            left_out.update(rest[place + 1 : place + 2])
            place += 1
        elif word in (
            "-p",
            "-f",
            "-pl",
            "-P",
            "--tests",
            "-b",
            "-c",
            "--file",
            "-scheme",
            "-destination",
            "-project",
            "-workspace",
            "-sdk",
        ):
            place += 1
        elif not word.startswith("-"):
            goals.append(word)
        place += 1
    whole = not (_is_selection([word for word in rest if word.startswith("-")]) or "-pl" in rest)
    checks: dict[Kind, CheckCommand] = {}
    for goal in goals:
        bare = goal if program == "mvn" else goal.rpartition(":")[2].rpartition("/")[2]
        kinds = tables.GOALS[program].get(bare) or tables.GOALS[program].get(bare.split(" ")[0])
        if kinds is None and program in ("gradle", "sbt"):
            kinds = kinds_of_task(bare)
        part = whole and not (program == "gradle" and goal.count(":") > 0 and goal.strip(":") != bare) and not bare.startswith("testOnly ")
        for number, kind in enumerate(kinds or ()):
            if kind == TESTS and ((number and skips_tests) or "test" in left_out or (number and "check" in left_out)):
                continue
            checks.setdefault(kind, CheckCommand(kind, f"{program} {bare}", part, needs_evidence=number > 0))
    return tuple(checks.values())


def _find_environments(program: str, rest: Sequence[str]) -> tuple[CheckCommand, ...]:
    if tables.LIST_ONLY & set(rest) - {"-l"} or rest[:1] in (("list",), ("config",)) or "-l" in rest:
        return ()
    names: list[str] = []
    for place, word in enumerate(rest):
        if word in ("-e", "-s", "--session", "--sessions", "-env") and place + 1 < len(rest):
            names += rest[place + 1].split(",")
        elif word.startswith(("-e", "-s")) and len(word) > 2 and word[2] != "-" and not word.startswith("--"):
            names += word[2:].lstrip("=").split(",")
    kinds: dict[Kind, None] = {}
    for name in names:
        kinds.update(dict.fromkeys(kinds_of_task(name) or ((TESTS,) if re.match(r"py\d*", name) else ())))
    if not names:
        return (
            CheckCommand(TESTS, program),
            CheckCommand(LINT, program, needs_evidence=True),
            CheckCommand(TYPES, program, needs_evidence=True),
        )
    partial = "--" in rest
    return tuple(CheckCommand(kind, f"{program} {names[0]}", not partial) for kind in kinds)


def _find_cmake(_: str, rest: Sequence[str]) -> tuple[CheckCommand, ...]:
    if "--build" not in rest:
        return ()
    targets = [rest[place + 1] for place, word in enumerate(rest[:-1]) if word in ("--target", "-t")]
    if any(target in ("test", "check", "RUN_TESTS") for target in targets):
        return (CheckCommand(TESTS, "cmake --build"),)
    return (CheckCommand(BUILD, "cmake --build", not targets),)


def _find_task(program: str, rest: Sequence[str]) -> tuple[CheckCommand, ...]:
    """Checks by the names of the tasks that a task runner is given."""
    if tables.SHOW_ONLY & set(rest[:6]):
        return ()
    valued = tables.RUNNERS[program]
    arguments = _after_options(rest, valued)
    if program == "bun" and arguments[:1] == ["test"]:
        return _read_direct_command(TESTS, "bun test", arguments[1:])
    if program == "yarn" and arguments[:1] == ["workspace"]:
        arguments = _after_options(arguments[2:], valued)
    is_run = False
    while arguments and arguments[0] in tables.RUN_WORDS:
        is_run = True
        arguments = _after_options(arguments[1:], valued)
    if program == "nx":
        return _find_nx(rest, arguments)
    if not arguments:
        return (CheckCommand(BUILD, program, needs_evidence=True),) if program in ("make", "gmake", "mage") else ()
    if program in tables.RUNNERS_WITH_RUN and not is_run:
        return _find_task_of_mise(program, arguments)
    if program in tables.NPM_LIKE and not is_run and not _is_npm_shortcut(program, arguments[0]):
        return ()
    return _find_named_tasks(program, rest, arguments)


def _is_npm_shortcut(program: str, task: str) -> bool:
    """Whether a word without `run` names a script: `npm test`, but `yarn lint` and `pnpm lint` as well."""
    return task in ("test", "t", "tst") if program == "npm" else task not in tables.NPM_OWN


def _find_named_tasks(program: str, rest: Sequence[str], arguments: Sequence[str]) -> tuple[CheckCommand, ...]:
    task = "test" if program in tables.NPM_LIKE and arguments[0] in ("t", "tst") else arguments[0]
    label = f"{program} run" if program in tables.LABELLED_WITH_RUN and task != "test" else program
    own = _after_dashes(rest, arguments[0])
    checks: dict[Kind, CheckCommand] = {}
    for name in _task_names(arguments) if program in tables.SEVERAL_TASKS else [task]:
        last = name.rpartition(":")[2]
        if program in ("moon", "pdm", "hatch") and kinds_of_task(last):
            name = last
        kinds = kinds_of_task(name)
        if not kinds and name == task and (program in tables.NPM_LIKE or program in ("pdm", "hatch", "pixi", "devbox")):
            return _find_checks(tuple(arguments)) if program_name(task) != program else ()
        whole = not (_is_selection(own) or tables.PARTIAL_WORDS & set(tables.SPLITTER.split(name.lower())))
        for kind in kinds:
            checks.setdefault(kind, CheckCommand(kind, f"{label} {name}", whole))
    return tuple(checks.values())


def _find_task_of_mise(program: str, arguments: Sequence[str]) -> tuple[CheckCommand, ...]:
    """`mise lint` is short for `mise run lint`; other words of these programs are no tasks."""
    if program not in ("mise", "rtx", "vp") or arguments[0] in ("install", "use", "trust", "ls", "tasks", "exec", "doctor", "activate"):
        return ()
    return tuple(CheckCommand(kind, f"{program} {arguments[0]}") for kind in kinds_of_task(arguments[0]))


def _find_nx(rest: Sequence[str], arguments: Sequence[str]) -> tuple[CheckCommand, ...]:
    names: list[str] = []
    for place, word in enumerate(rest):
        if word in ("-t", "--target", "--targets"):
            for name in rest[place + 1 :]:
                if name.startswith("-"):
                    break
                names += name.split(",")
        elif word.startswith(("--target=", "--targets=", "-t=")):
            names += word.partition("=")[2].split(",")
    whole = "run-many" in rest
    if not names and arguments:
        names = [arguments[0].split(":")[1] if ":" in arguments[0] else arguments[0]]
    return tuple(CheckCommand(kind, f"nx {name}", whole) for name in names for kind in kinds_of_task(name))


def _task_names(arguments: Sequence[str]) -> list[str]:
    names: list[str] = []
    for word in arguments[:8]:
        if word == "--":
            break
        if word == ":::" or word.startswith("-") or "=" in word:
            continue
        names.append(word)
    return names


def _after_dashes(rest: Sequence[str], task: str) -> Sequence[str]:
    """What a task gets as its own arguments."""
    if "--" in rest:
        return rest[list(rest).index("--") + 1 :]
    if task in rest:
        return [word for word in rest[list(rest).index(task) + 1 :] if word.startswith("-") or "/" in word or "." in word]
    return ()


def _after_options(words: Sequence[str], valued: frozenset[str]) -> list[str]:
    """The words without leading options; options between the task and its arguments stay."""
    place = 0
    while place < len(words) and words[place].startswith("-") and words[place] not in ("--", "-"):
        place += 2 if words[place] in valued else 1
    return list(words[place:])


@lru_cache(maxsize=512)
def kinds_of_task(name: str) -> tuple[Kind, ...]:
    """The kinds of check that a task's name promises: `test:ci`, `lint-js`, `format:check`, `check-types`."""
    if len(name) > 80 or not name or name[0] in "-$(":
        return ()
    words = set(tables.SPLITTER.split(tables.CAMEL.sub("-", name).lower()))
    words.discard("")
    if tables.FORMAT_WORDS & words:
        return (LINT,) if tables.CHECK_MODE_WORDS & words else ()
    found: list[Kind] = []
    if tables.TEST_WORDS & words or any(
        word.startswith("test") and word[4:] in ("all", "unit", "race", "cov", "ci", "js", "py", "go") for word in words
    ):
        found.append(TESTS)
    never = tables.NEVER_WORDS & words
    if never and not (found and (never == {"env"} or ({"db", "data", "ui", "server", "report", "update"} & words and "run" in words))):
        return ()
    if tables.LINT_WORDS & words:
        found.append(LINT)
    if tables.TYPE_WORDS & words or ("type" in words and {"check", "checks"} & words):
        found.append(TYPES)
    if tables.BUILD_WORDS & words and not found:
        found.append(BUILD)
    if not found and tables.MIXED_WORDS & words:
        found.append(MIXED)
    if not found and {"pre", "commit"} <= words:
        found.append(MIXED)
    return tuple(found)


def _find_syntax_check(program: str, rest: Sequence[str]) -> tuple[CheckCommand, ...]:
    flag = {"bash": "-n", "sh": "-n", "zsh": "-n", "php": "-l", "ruby": "-c", "perl": "-c", "node": "--check"}.get(program)
    return (CheckCommand(BUILD, f"{program} {flag}", False),) if flag is not None and rest[:1] == (flag,) else ()


def _find_script(words: Sequence[str], program: str) -> tuple[CheckCommand, ...]:
    """A script of the project by its name: `./scripts/test.sh`, `bash ci.sh`, `node build.js`."""
    if program in tables.SCRIPT_STARTERS:
        arguments = [word for word in words[1:] if not word.startswith("-")][:1]
        if not arguments or "\n" in arguments[0] or len(arguments[0]) > 300:
            return ()
        path = arguments[0]
        if program in ("node", "tsx", "ts-node", "bun", "deno", "ruby") and tables.TEST_FILE.search(path):
            return (CheckCommand(TESTS, f"{program} {program_name(path)}", False),)
        rest = words[list(words).index(path) + 1 :]
    else:
        path = words[0]
        if "/" not in path and not tables.SCRIPT_SUFFIX.search(path):
            return ()
        rest = words[1:]
    name = tables.SCRIPT_SUFFIX.sub("", program_name(path))
    kind = tables.SCRIPT_TASKS.get(name.lower())
    if kind is None:
        return ()
    return (CheckCommand(kind, program_name(path), not _is_selection(rest)),)


_PACKAGE = re.compile(r" (?:--package-path|--manifest-path|--filter|-F|--package|--prefix|--cwd|-C|-pl|--workspace)[ =](\S{1,200})")


def find_package(command: str) -> str:
    """The package of a monorepo that a command names by an option; "" if none."""
    found = _PACKAGE.search(command[:400])
    return found[1] if found else ""


_EVERYTHING = frozenset(
    (
        ".",
        "./...",
        "./",
        "...",
        "src",
        "src/",
        "tests",
        "tests/",
        "test",
        "test/",
        "spec",
        "spec/",
        "//...",
        "::",
        "run",
        "all",
        "lib",
        "discover",
        "./src",
        "./tests",
        "*",
    )
)


def _is_selection(arguments: Sequence[str]) -> bool:
    """Whether options or paths restrict a run to some of its tests or files."""
    place = 0
    while place < len(arguments):
        word = arguments[place]
        if word in tables.SELECTING and not (
            word in ("-p", "-m", "-n", "-e", "-o", "-t", "-g", "-R") and _value_is_harmless(arguments, place)
        ):
            return True
        if word.startswith("-"):
            if word.startswith(tables.SELECTING_STARTS):
                return True
            place += 2 if word in tables.VALUED and "=" not in word else 1
            continue
        if word not in _EVERYTHING and not word.isdigit() and "=" not in word and not word.startswith(("$", "*.", "**", '"**', "\0")):
            return True
        place += 1
    return False


def _value_is_harmless(arguments: Sequence[str], place: int) -> bool:
    """`pytest -n 4`, `pytest -p no:cacheprovider`, `-n auto`, `-o addopts=…` select nothing; `go test -p 4` neither."""
    value = arguments[place + 1] if place + 1 < len(arguments) else ""
    flag = arguments[place]
    if flag in ("-n", "-p") and (value.isdigit() or value in ("auto", "logical") or value.startswith("no:")):
        return True
    return (flag == "-o" and "=" in value) or flag == "-n"


def _covers_all(arguments: Sequence[str]) -> bool:
    return all(word.startswith("-") or word in _EVERYTHING for word in arguments)


_INTERPRETERS = make_word_set("node ruby perl bash sh zsh php")
_FINDERS: Mapping[str, Callable[[str, tuple[str, ...]], tuple[CheckCommand, ...]]] = {
    **dict.fromkeys(tables.MODULE_PROGRAMS, _find_python_checks),
    **dict.fromkeys(_INTERPRETERS, _find_interpreter_checks),
    "php": _find_php_checks,
    "go": _find_go_checks,
    **dict.fromkeys(("tsc", "ttsc", "tspc", "tsgo"), _find_tsc),
    "vitest": _find_vitest,
    "coverage": _find_coverage_program,
    "sail": _find_sail,
    **dict.fromkeys(("R", "Rscript", "julia"), _find_expression_checks),
    **dict.fromkeys((*tables.GOALS, *tables.GOAL_ALIASES), _find_goals),
    **dict.fromkeys(("tox", "nox"), _find_environments),
    "cmake": _find_cmake,
    **dict.fromkeys(tables.LISTING_FORMATTERS, _find_listing_formatter),
}
