"""Finds out what the command of a criterion runs: through wrappers, `make`, `npm run` and shell scripts, by the original files.

Nothing is run. `judging_files.py` decides by the result which files judge. Also which test runners a command starts: exit code 0 of a
known one counts only with the report that it prints at its end.
"""

from __future__ import annotations

import json
import os
import re
import shlex
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from fnmatch import fnmatchcase
from typing import NamedTuple, TypeAlias

from msgspec import Struct

from fleetlore.dialects.commands.shell import make_word_set

ReadText: TypeAlias = Callable[[str], str | None]
"""Returns the original text of a file, or `None`."""

_MAX_EXPANSIONS = 40
_MAX_INCLUDES = 20
_MAX_TARGETS = 200
_SHELLS = ("sh", "bash", "dash", "zsh", "ksh")
_WRAPPERS = make_word_set("timeout nice env time exec command nohup setsid stdbuf ionice xvfb-run sudo doas chrt taskset unbuffer flock")
"""Programs that run the command behind their own options."""
_WRAPPER_ARGUMENT = re.compile(r"-|[A-Za-z_]\w*=|\d[\d.]*[smhd]?\Z|/")
_SHELL_WORD = re.compile(r"[A-Za-z_]\w*=|[!({]\Z|(?:then|do|else|if|while|until)\Z")
_SUBSTITUTION = re.compile(r"\$\(([^()]+)\)|`([^`]+)`")
_PATH_ASSIGNMENT = re.compile(r"(?:^|[\s;&\"'])(?:PYTHON)?PATH[ \t]*[:+?]?=[ \t]*([^\s;&|]+)")
_SHELL_SCRIPT = re.compile(r"#!.{0,100}\b(?:ba|da|z|k)?sh\b")
_HERE = re.compile(r"(?:\./|\$PWD/|\$\{PWD\}/|\$\(pwd\)/|\$\$\{?PWD\}?/|\$\(CURDIR\)/)+")
_MAKE_VARIABLE = re.compile(r"^[ ]*(?:export[ \t]+|override[ \t]+)*([A-Za-z_][\w.-]*)[ \t]*(?:\?|::?)?=[ \t]*([^#\n]*)", re.MULTILINE)
_MAKE_OPTIONS = {"-C": "folder", "--directory": "folder", "-f": "file", "--file": "file", "--makefile": "file"}
_DEFAULT_GOAL = re.compile(r"^\.DEFAULT_GOAL[ \t]*[:?]{0,2}=[ \t]*(\S+)", re.MULTILINE)
_PACKAGE_MANAGERS = ("npm", "yarn", "pnpm", "bun")
_PACKAGE_OPTIONS = {"--prefix": "folder", "-C": "folder", "--dir": "folder", "--cwd": "folder"} | dict.fromkeys(
    ("-w", "--workspace", "-F", "--filter"), "package"
)
_RUN_WORDS = ("run", "run-script")
_ALL_PACKAGES = frozenset(("--workspaces", "-ws", "-r", "--recursive", "workspace", "workspaces", "foreach"))
_SCRIPT_RUNNERS = make_word_set("run-s run-p npm-run-all npm-run-all2 concurrently")
"""Programs of npm packages that run scripts of `package.json`, by names or patterns."""
_MAKE_RULE = re.compile(r"([^\s#:=](?:[^:=#]*[^\s:=#])?)\s*::?(?!=)\s*([^;#]*)(?:;(.*))?")


class ExpandedCommand(Struct, frozen=True, kw_only=True):
    """The command of a criterion, and the recipes and scripts that it runs. Paths are relative to the root of the workspace."""

    direct: str
    nested: tuple[tuple[str, str], ...] = ()
    """Recipes and scripts, each with the folder in which it runs."""
    included: tuple[str, ...] = ()
    """Patterns of files that makefiles and scripts include."""
    targets: dict[str, tuple[str, ...]] = {}
    """Targets of make that are not declared phony, and what they are built from: a file or folder of that name can keep make from running
    the recipe."""
    path_folders: tuple[str, ...] = ()
    """Folders of the workspace that the commands put into `PATH` or `PYTHONPATH`."""

    @property
    def texts(self) -> tuple[str, ...]:
        """The command and everything that it runs."""
        return (self.direct, *(text for text, _ in self.nested))


def expand_command(command: str, read_text: ReadText, originals: Collection[str] = (), *, prefix: str = "") -> ExpandedCommand:
    """Follow `make`, `npm run` and shell scripts to the commands that they run, by the original files."""
    expansion = _Expansion(read_text, originals)
    expansion.follow(command, prefix)
    return ExpandedCommand(
        direct=command,
        nested=tuple(expansion.nested),
        included=tuple(dict.fromkeys(expansion.included)),
        targets=expansion.targets,
        path_folders=tuple(dict.fromkeys(expansion.path_folders)),
    )


class _Expansion:
    """What was found so far."""

    def __init__(self, read_text: ReadText, originals: Collection[str]) -> None:
        self._read_text, self._originals = read_text, originals
        self.nested: list[tuple[str, str]] = []
        self.included: list[str] = []
        self.targets: dict[str, tuple[str, ...]] = {}
        self.path_folders: list[str] = []

    def follow(self, command: str, prefix: str) -> None:
        queue = [(command, prefix)]
        seen: set[tuple[str, str]] = set()
        while queue and len(seen) < _MAX_EXPANSIONS:
            text, folder = queue.pop(0)
            if (text, folder) in seen:
                continue
            seen.add((text, folder))
            self._note_path_folders(text, folder)
            for found in self._expand_once(text, folder):
                self.nested.append(found)
                queue.append(found)

    def _expand_once(self, text: str, folder: str) -> Iterator[tuple[str, str]]:
        for words in split_simple_commands(text):
            folder = _changed_folder(words, folder)
            program = os.path.basename(words[0])
            if program in ("make", "gmake") or words[0] in ("$(MAKE)", "${MAKE}"):
                yield from self._expand_make(words[1:], folder)
            elif program in _PACKAGE_MANAGERS:
                yield from self._expand_package_script(words[1:], folder)
            elif program in _SCRIPT_RUNNERS:
                yield from self._list_scripts(folder, [word.removeprefix("npm:") for word in words[1:]])
            elif words[0] in (".", "source") and len(words) > 1 and "$" not in words[1]:
                self.included.append(os.path.normpath(folder + words[1]))
            for word in words if words[0] in (*_SHELLS, ".", "source") or program in _SHELLS else words[:1]:
                is_script = word.endswith((".sh", ".bash")) or (words[0] in (".", "source") and word == words[-1])
                content = self._read_text(os.path.normpath(folder + word)) if is_script or "/" in word else None
                if content is not None and (is_script or _SHELL_SCRIPT.match(content)):
                    yield content, folder

    def _note_path_folders(self, text: str, folder: str) -> None:
        for value in _PATH_ASSIGNMENT.findall(text):
            for part in value.strip("\"'").split(":"):
                path = _HERE.sub("", part)
                if path and "$" not in path and not os.path.isabs(path):
                    self.path_folders.append(os.path.normpath(folder + path))

    def _expand_make(self, arguments: Sequence[str], folder: str) -> Iterator[tuple[str, str]]:
        options, words = _split_options(arguments, _MAKE_OPTIONS)
        if "folder" in options:
            folder = os.path.normpath(folder + options["folder"]) + "/"
        names = [options["file"]] if "file" in options else ["GNUmakefile", "makefile", "Makefile"]
        content = next((text for name in names if (text := self._read_text(os.path.normpath(folder + name))) is not None), None)
        if content is None:
            return
        content = self._read_included(content, folder)
        self._note_path_folders(content, folder)
        makefile = _parse_makefile(content)
        goals = [word for word in words if "=" not in word] or _DEFAULT_GOAL.findall(content)[-1:]
        for name, rule in _reach_targets(makefile, goals, lambda path: self._read_text(os.path.normpath(folder + path)) is not None):
            if rule.recipe:
                if name not in makefile.phony and "%" not in name and "$" not in name:
                    path, *needs = (os.path.normpath(folder + each) for each in (name, *rule.prerequisites))
                    self.targets[path] = tuple(needs)
                yield "\n".join(rule.recipe), folder

    def _read_included(self, content: str, folder: str) -> str:
        """A makefile with its variables replaced, followed by those that it includes."""
        parts, queue = list[str](), [content]
        while queue and len(parts) < _MAX_INCLUDES:
            text = _replace_variables(queue.pop(0))
            parts.append(text)
            for line in re.findall(r"^ *[-s]?include[ \t]+(.+)$", text, re.MULTILINE):
                for path in (os.path.normpath(folder + word) for word in re.sub(r"\$\(wildcard ([^()]*)\)", r"\1", line).split()):
                    if "$" not in path:
                        self.included += [path, f"{path}.*"]  # make could build what it includes: `a.inc` from `a.inc.sh`
                        queue += [found for found in (self._read_text(path),) if found is not None]
        return "\n".join(parts)

    def _expand_package_script(self, arguments: Sequence[str], folder: str) -> Iterator[tuple[str, str]]:
        arguments = arguments[: arguments.index("--")] if "--" in arguments else arguments
        options, words = _split_options(arguments, _PACKAGE_OPTIONS)
        if "folder" in options:
            folder = os.path.normpath(folder + options["folder"]) + "/"
        if "package" in options or _ALL_PACKAGES & set(arguments):  # a package of a workspace is named by what its own package.json says
            manifests = (path for path in self._originals if os.path.basename(path) == "package.json")
            names = [word for word in words if word not in _ALL_PACKAGES and word not in _RUN_WORDS]
            for path in manifests:
                yield from self._list_scripts(path.removesuffix("package.json"), names)
            return
        names = words[1:2] if words[:1] and words[0] in _RUN_WORDS else words[:1]
        yield from self._list_scripts(folder, names)

    def _list_scripts(self, folder: str, names: Sequence[str]) -> Iterator[tuple[str, str]]:
        """Scripts of a package.json with these names or patterns, and what runs before and after each."""
        try:
            scripts = json.loads(self._read_text(f"{folder}package.json") or "{}").get("scripts", {})
        except (ValueError, AttributeError):
            return
        for name in ("test" if name in ("t", "tst") else name for name in names):
            for script in scripts if isinstance(scripts, dict) else ():
                if fnmatchcase(script, name):
                    found = (scripts.get(key) for key in (f"pre{script}", script, f"post{script}"))
                    yield from ((text, folder) for text in found if isinstance(text, str))


def _changed_folder(words: Sequence[str], folder: str) -> str:
    return os.path.normpath(folder + words[1]) + "/" if words[0] == "cd" and len(words) == 2 and not os.path.isabs(words[1]) else folder


# --- Makefiles


class _MakeRule(NamedTuple):
    prerequisites: list[str]
    recipe: list[str]


class _Makefile(NamedTuple):
    rules: dict[str, _MakeRule]
    phony: frozenset[str]


def _replace_variables(content: str) -> str:
    """A makefile with the values of its plain variables in place of their names."""
    content = content.replace("\\\n", " ")
    values = {name: value.strip() for name, value in _MAKE_VARIABLE.findall(content) if "$" not in value and len(value) < 1000}
    return re.sub(r"\$[({]([A-Za-z_][\w.-]*)[)}]", lambda match: values.get(match[1], match[0]), content) if values else content


def _parse_makefile(content: str) -> _Makefile:
    rules: dict[str, _MakeRule] = {}
    current: list[_MakeRule] = []
    for line in content.splitlines():
        if line.startswith("\t"):
            for rule in current:
                rule.recipe.append(line.strip().lstrip("@-+"))
        elif match := _MAKE_RULE.match(line):
            current = [rules.setdefault(name, _MakeRule([], [])) for name in match[1].split()]
            for rule in current:
                rule.prerequisites.extend(match[2].split())
                rule.recipe.extend([match[3]] if match[3] else [])
        elif line.strip() and not line.startswith("#"):
            current = []
    return _Makefile(rules, frozenset(rules[".PHONY"].prerequisites if ".PHONY" in rules else ()))


def _reach_targets(makefile: _Makefile, goals: Sequence[str], exists: Callable[[str], bool]) -> list[tuple[str, _MakeRule]]:
    """The targets with a rule that make reaches from its goals; from the first target if none is named."""
    queue = list(goals) or [name for name in makefile.rules if not name.startswith(".")][:1]
    reached = []
    for name in queue:
        if (rule := _find_rule(makefile, name, exists)) is not None:
            reached.append((name, rule))
            queue += [each for each in rule.prerequisites if each not in queue and len(queue) < _MAX_TARGETS]
    return reached


def _find_rule(makefile: _Makefile, name: str, exists: Callable[[str], bool]) -> _MakeRule | None:
    """The rule of a target; if it has none with a recipe, a pattern rule such as `test-%:` whose prerequisites are there."""
    found = makefile.rules.get(name)
    if found is not None and found.recipe:
        return found
    for pattern, rule in makefile.rules.items():
        start, is_pattern, end = pattern.partition("%")
        if is_pattern and rule.recipe and name.startswith(start) and name.endswith(end) and len(name) > len(start) + len(end):
            stem = name[len(start) : len(name) - len(end)]
            needs = [each.replace("%", stem) for each in rule.prerequisites]
            if all(each in makefile.rules or exists(each) for each in needs):
                recipe = [line.replace("$*", stem).replace("$@", name) for line in rule.recipe]
                return _MakeRule([*(found.prerequisites if found else ()), *needs], recipe)
    return found


# --- Configuration


_LOADING_KEY = re.compile(
    r"""\b(?:pytest_plugins|setupFiles\w{0,20}|globalSetup|globalTeardown|testEnvironment|testRunner|reporters?|resolver)["']?\s{0,20}[=:]"""
    r"""\s{0,20}(\[[^\]]{0,2000}\]|\([^)]{0,2000}\)|["'][^"'\n]{0,200}["'])"""
)
_PYTEST_OPTIONS = re.compile(r"\baddopts\b(.{0,500}?)(?=\n\s{0,20}(?:\w{1,50}\s{0,20}=|\[)|\Z)", re.DOTALL)
_PLUGIN_OPTION = re.compile(r"""(?<![\w-])-p["',\s=]{0,20}([\w.]{1,200})""")
_QUOTED = re.compile(r"""["']([^"'\n]{1,200})["']""")
_LOADED_ENDINGS = ("", ".py", "/__init__.py", ".js", ".mjs", ".cjs", ".ts", ".mts", ".cts", ".tsx", ".jsx", ".json")


def find_loaded_files(configuration: Collection[str], read_text: ReadText) -> set[str]:
    """Files that the configuration of test runners loads before any test: plugins, setup files, reporters."""
    found: set[str] = set()
    for path in configuration:
        text, folder = read_text(path) or "", os.path.dirname(path)
        names = {name for value in _LOADING_KEY.findall(text) for name in _QUOTED.findall(value)}
        names |= {name for options in _PYTEST_OPTIONS.findall(text) for name in _PLUGIN_OPTION.findall(options)}
        for name in (name.removeprefix("<rootDir>/") for name in names):
            modules = [] if "/" in name else [name.replace(".", "/")]
            stems = {*modules, *(os.path.normpath(os.path.join(folder, each)) for each in (name, *modules))}
            found.update(f"{stem}{ending}" for stem in stems for ending in _LOADED_ENDINGS)
    return {path for path in found if read_text(path) is not None}


# --- Words


def split_simple_commands(text: str) -> Iterator[list[str]]:
    """The simple commands of a shell text as lists of words, without assignments in front.

    What a wrapper such as `timeout`, `sh -c` or `$(…)` runs follows as a command of its own.
    """
    for line in re.split(r"\n|;|&&|\|\||\||&", text.replace("\\\n", " ")):
        try:
            words = shlex.split(line, comments=True)
        except ValueError:
            words = line.split()
        words = [word if word.startswith("$") else word.strip("(){}") or word for word in words]
        while words and _SHELL_WORD.match(words[0]):
            words = words[1:]
        while words:
            yield words
            words, shell_text = _unwrap_command(words)
            if shell_text:
                yield from split_simple_commands(shell_text)
    for match in _SUBSTITUTION.finditer(text):
        yield from split_simple_commands(match[1] or match[2])


def _unwrap_command(words: list[str]) -> tuple[list[str], str]:
    """The command that a wrapper runs, and the text that it passes to a shell; empty for other programs."""
    program = os.path.basename(words[0])
    if program in _SHELLS or program == "eval":
        flag = next((number for number, word in enumerate(words) if re.fullmatch(r"-\w*c\w*", word)), 0 if program == "eval" else None)
        return [], "" if flag is None else " ".join(words[flag + 1 :] if program == "eval" else words[flag + 1 : flag + 2])
    if program not in _WRAPPERS:
        return [], ""
    words = words[1:]
    while words and _WRAPPER_ARGUMENT.match(words[0]):
        has_value = words[0] in ("-u", "-C", "-k", "-s", "--signal", "--kill-after", "--unset", "--chdir")
        words = words[2 if has_value else 1 :]
    return words, ""


def _split_options(arguments: Sequence[str], names: Mapping[str, str]) -> tuple[dict[str, str], list[str]]:
    """The values of options by what `names` calls them, written as `-C x`, `-Cx` or `--directory=x`; and all other words but options."""
    values, words = dict[str, str](), list[str]()
    rest = iter(arguments)
    for argument in rest:
        option, has_value, value = argument.partition("=")
        if argument in names:
            values[names[argument]] = next(rest, "")
        elif has_value and option in names:
            values[names[option]] = value
        elif argument[:2] in names and not argument.startswith("--"):
            values[names[argument[:2]]] = argument[2:]
        elif not argument.startswith("-"):
            words.append(argument)
    return values, words


def split_words(command: str) -> list[str]:
    """All words of a shell command, also inside quotes, and parts of words: `a.py::test`, `--rc=a.toml`."""
    try:
        lexer = shlex.shlex(command, posix=True, punctuation_chars=True)
        lexer.whitespace_split, lexer.commenters = True, ""
        words = list(lexer)
    except ValueError:
        words = command.split()
    nested = [part for word in words if any(separator in word for separator in " \n;") for part in re.split(r"[\s;&|()<>\"']+", word)]
    return [part for word in (*words, *nested) for part in {word, word.partition("::")[0], word.rpartition("=")[2]} if part]


# --- test runners
#
# Code under test runs inside its judge: it can end the process with exit code 0 before any test ran. The report shows that
# the runner itself came to its end. Code that prints a forged report is not caught.


class TestRunner(Struct, frozen=True):
    """A runner: the beginnings of its commands, and what its report looks like."""

    commands: tuple[str, ...]
    report: str
    example: str

    __test__ = False


RUNNERS = (
    TestRunner(("pytest", "py.test"), r"^(?:=+ )?(?:\d+ \w+, )*\d+ passed\b.* in \d[\d.]*m? ?s", "2 passed in 0.12s"),
    TestRunner(("unittest", "manage.py test"), r"^Ran [1-9]\d* tests? in [\d.]+s\s+OK\b", "Ran 2 tests in 0.001s\n\nOK"),
    TestRunner(("tox",), r"^\s*congratulations :\)", "  congratulations :) (1.20 seconds)"),
    TestRunner(("nox",), r"^nox > (?:Session .* was successful|Ran multiple sessions)", "nox > Session tests was successful."),
    TestRunner(("cargo test", "cargo t"), r"^test result: ok\. \d+ passed; 0 failed", "test result: ok. 2 passed; 0 failed; 0 ignored"),
    TestRunner(("cargo nextest run",), r"^\s*Summary \[.*\] +[1-9]\d* tests? run: \d+ passed", "     Summary [   0.1s] 2 tests run: 2 passed, 0 skipped"),  # noqa: E501
    TestRunner(("go test",), r"^ok\s+\S+\s+(?:[\d.]+s|\(cached\))", "ok  \texample.org/app\t0.004s"),
    TestRunner(("jest", "react-scripts test"), r"^Tests: +(?:\d+ \w+, )*[1-9]\d* passed", "Tests:       2 passed, 2 total"),
    TestRunner(("vitest",), r"^\s*Tests +(?:\d+ \w+ \| )*[1-9]\d* passed", "      Tests  2 passed (2)"),
    TestRunner(("mocha",), r"^\s*[1-9]\d* passing", "  2 passing (5ms)"),
    TestRunner(("node --test",), r"^(?:# |ℹ )pass [1-9]\d*", "# pass 2"),
    TestRunner(("ava",), r"^\s*[1-9]\d* tests? passed", "  2 tests passed"),
    TestRunner(("tap",), r"^(?:# )?pass: +[1-9]|^# pass +[1-9]|# { total: \d+, pass: [1-9]", "# pass 2"),
    TestRunner(("bun test",), r"^\s*[1-9]\d* pass\b", " 2 pass"),
    TestRunner(("deno test",), r"^ok \| [1-9]\d* passed", "ok | 2 passed | 0 failed (5ms)"),
    TestRunner(("playwright test",), r"^\s*[1-9]\d* passed", "  2 passed (1.2s)"),
    TestRunner(("cypress run",), r"All specs passed!", "✔  All specs passed!"),
    TestRunner(("rspec",), r"^[1-9]\d* examples?, 0 failures", "2 examples, 0 failures"),
    TestRunner(("rake test", "rails test", "minitest"), r"^[1-9]\d* runs, .*\b0 failures, 0 errors", "2 runs, 3 assertions, 0 failures, 0 errors, 0 skips"),  # noqa: E501
    TestRunner(("phpunit",), r"^OK(?: \([1-9]\d* tests?|, but)", "OK (2 tests, 3 assertions)"),
    TestRunner(("mvn test", "mvn verify", "mvnw test", "mvnw verify"), r"^(?:\[INFO\] )?BUILD SUCCESS$", "[INFO] BUILD SUCCESS"),
    TestRunner(("gradle test", "gradle check", "gradlew test", "gradlew check"), r"^BUILD SUCCESSFUL in ", "BUILD SUCCESSFUL in 2s"),
    TestRunner(("dotnet test",), r"^\s*Passed! +- +Failed: +0|Test summary: .*failed: 0", "Passed!  - Failed:     0, Passed:     2"),
    TestRunner(("ctest",), r"^100% tests passed", "100% tests passed, 0 tests failed out of 2"),
    TestRunner(("mix test",), r"^[1-9]\d* tests?, 0 failures", "2 tests, 0 failures"),
    TestRunner(("swift test",), r"Executed [1-9]\d* tests?, with 0 failures|Test run with [1-9]\d* tests? passed", "Executed 2 tests, with 0 failures"),  # noqa: E501
    TestRunner(("bats",), r"^(?:[1-9]\d* tests?, 0 failures|1\.\.[1-9])", "2 tests, 0 failures"),
    TestRunner(("prove",), r"^Result: PASS$", "Result: PASS"),
    TestRunner(("mypy",), r"^Success: no issues found", "Success: no issues found in 2 source files"),
    TestRunner(("ruff check",), r"^All checks passed!", "All checks passed!"),
)  # fmt: skip
_LAUNCHERS = make_word_set("uv uvx poetry pdm hatch pipenv rye npx bunx pnpx bundle coverage php npm yarn pnpm bun")
_PYTHON = re.compile(r"python[\d.]*\Z|pypy[\d.]*\Z|\$[({]?\w*(?:PY|PYTHON)\w*[)}]?\Z", re.IGNORECASE)
"""Also a variable that a makefile does not set itself, such as `$(PYTHON)`."""
_ONLY_ASKS = frozenset(("--version", "-V", "--help", "-h", "install", "add"))


def find_runners(commands: Iterable[str]) -> list[TestRunner]:
    """The known runners that commands start, each once."""
    found = [runner for command in commands for words in split_simple_commands(command) for runner in _match_runner(words)]
    return list(dict.fromkeys(found))


def _match_runner(words: Sequence[str]) -> Iterator[TestRunner]:
    if _ONLY_ASKS & set(words):
        return
    words = _find_runner_words([os.path.basename(words[0]), *words[1:]])
    options = [word for word in words[1:] if not word.startswith("-") or word == "--test"]
    line = " ".join([*words[:1], *options]) + " "
    yield from (runner for runner in RUNNERS if any(line.startswith(f"{command} ") for command in runner.commands))


def _find_runner_words(words: Sequence[str]) -> Sequence[str]:
    """The words from the runner on, behind `python -m`, `uv run --with x`, `npx` and the like."""
    while len(words) > 1:
        if _PYTHON.match(words[0]):
            has_module = "-m" in words
            rest = words[words.index("-m") + 1 :] if has_module else [word for word in words[1:] if not word.startswith("-")]
        elif words[0] in _LAUNCHERS:
            names = [os.path.basename(word) for word in words[1:]]
            found = (number for number, name in enumerate(names) if _PYTHON.match(name) or name in _LAUNCHERS or _starts_runner(name))
            if (start := next(found, None)) is None:
                return words
            rest = words[start + 1 :]
        else:
            return words
        words = [os.path.basename(rest[0]), *rest[1:]] if rest else rest
    return words


def _starts_runner(name: str) -> bool:
    return any(command.partition(" ")[0] == name for runner in RUNNERS for command in runner.commands)


_INSTALLERS = make_word_set("uv tox nox hatch yarn prisma patch-package")
"""Programs that always write installed dependencies."""
_INSTALLING = make_word_set("install ci i add sync update upgrade rebuild dedupe prune link restore deps.get")


def installs_dependencies(commands: Iterable[str]) -> bool:
    """Whether commands install dependencies themselves: `npm ci && npm test`."""
    simple = (words for command in commands for words in split_simple_commands(command))
    return any(not _INSTALLERS.isdisjoint(map(os.path.basename, words)) or not _INSTALLING.isdisjoint(words[1:]) for words in simple)


def find_missing_report(runners: Iterable[TestRunner], output: str) -> str | None:
    """What is wrong if a runner's report is not in the output."""
    plain = re.sub(r"\x1b\[[0-9;]*[A-Za-z]", "", output)
    for runner in runners:
        if not re.search(runner.report, plain, re.MULTILINE):
            return (
                f"exit code 0, but {runner.commands[0]} did not report its end (such as {runner.example.splitlines()[0].strip()!r}):"
                " a run that ends without its report has not passed. If the command hides the report, let it print it,"
                " or set report = false for this criterion"
            )
    return None
