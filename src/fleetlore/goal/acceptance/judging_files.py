"""Decides which files of a workspace judge the agent's work: for these, criteria use the originals from before the first turn.

Judging files are those that criteria name, build and test configuration, CI files, files that match the goal's `protect`
patterns, and new Python modules that would shadow the test runner. `may_change` releases files. `judging_copy.py` applies
the rules, `lore goal check` lists the files.
"""

from __future__ import annotations

import json
import os
import re
import shlex
import sys
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from typing import Literal, TypeAlias

from msgspec import Struct

from fleetlore.dialects.commands.shell import make_word_set
from fleetlore.goal.workspace import files

JudgingReason: TypeAlias = Literal["named by a criterion", "protected", "configuration", "CI", "shadows the runner"]

ReadText: TypeAlias = Callable[[str], str | None]
"""Returns the original text of a file, or `None`."""

CONFIGURATION = (
    # make, just, task and other task runners
    *("Makefile", "GNUmakefile", "Makefile.*", "*.mk", "*.mak", "justfile", ".justfile", "Taskfile.y*ml", "Taskfile.dist.y*ml", "Rakefile"),
    *(
        "SConstruct",
        "SConscript",
        "wscript",
        "tasks.py",
        "dodo.py",
        "pants.toml",
        "magefile.go",
        "lefthook.y*ml",
        ".pre-commit-config.yaml",
    ),
    # Python
    *("conftest.py", "pytest.ini", ".pytest.ini", "pytest.toml", "tox.ini", "tox.toml", "noxfile.py", "setup.py", "setup.cfg", "uv.lock"),
    *("pyproject.toml", "poetry.lock", "Pipfile", "Pipfile.lock", "requirements*.txt", "constraints*.txt", ".coveragerc", "uv.toml"),
    *("mypy.ini", ".mypy.ini", "ruff.toml", ".ruff.toml", ".flake8", "pylintrc", ".pylintrc", "pyrightconfig.json", ".python-version"),
    *("sitecustomize.py", "usercustomize.py", "*.pth", "pip.conf", "pytest_*_plugin.py"),
    # JavaScript
    *("package.json", "package-lock.json", "npm-shrinkwrap.json", "yarn.lock", "pnpm-lock.yaml", "pnpm-workspace.yaml", "bun.lock*"),
    *(".npmrc", ".yarnrc*", ".pnp.*", ".pnpmfile.*", "bunfig.toml", "deno.json*", "deno.lock", "turbo.json", "nx.json", "lerna.json"),
    *(
        "jest.config.*",
        "jest.setup.*",
        "vitest.config.*",
        "vitest.workspace.*",
        "vite.config.*",
        ".mocharc*",
        "ava.config.*",
        "karma.conf*",
    ),
    *("playwright.config.*", "cypress.config.*", "wdio.conf.*", ".babelrc*", "babel.config.*", "tsconfig*.json", ".eslintrc*", ".nycrc*"),
    *("eslint.config.*", "biome.json*", ".taprc", ".swcrc", ".nvmrc", ".node-version"),
    # Rust, Go, JVM, C and C++, .NET, Ruby, PHP, Elixir, Swift, Bazel
    *("Cargo.toml", "Cargo.lock", "rust-toolchain*", ".cargo/**", "clippy.toml", "nextest.toml", "go.mod", "go.sum", "go.work*"),
    *("pom.xml", "mvnw*", ".mvn/**", "build.gradle*", "settings.gradle*", "gradle.properties", "gradlew*", "gradle/**", "build.sbt"),
    *("CMakeLists.txt", "*.cmake", "CTestTestfile.cmake", "CMakePresets.json", "meson.build", "meson_options.txt", "configure.ac"),
    *("*.csproj", "*.fsproj", "*.sln", "*.runsettings", "Directory.Build.*", "global.json", "nuget.config", "Package.swift", "mix.exs"),
    *("mix.lock", "Gemfile", "Gemfile.lock", ".rspec", ".rubocop.yml", "phpunit*.xml*", "composer.json", "composer.lock"),
    *("BUILD", "BUILD.bazel", "WORKSPACE*", "MODULE.bazel", ".bazelrc", ".tool-versions", "mise.toml", ".envrc", "flake.nix", "flake.lock"),
    # installed dependencies that are committed
    *("node_modules/**", ".venv/**", "venv/**", "vendor/bin/**"),
)
"""Names and paths at any depth."""
CI_FILES = (
    *(".github/workflows/**", ".github/actions/**", ".gitlab-ci.yml", ".gitlab/ci/**", ".circleci/**", ".travis.yml", "Jenkinsfile"),
    *("azure-pipelines*.yml", "bitbucket-pipelines.yml", ".buildkite/**", ".drone.yml", ".woodpecker*", "appveyor.yml", "cloudbuild.yaml"),
)
_RUNNER_MODULES = make_word_set(
    """pytest _pytest py pluggy iniconfig packaging pygments exceptiongroup tomli coverage xdist execnet hypothesis nose2 tox nox mypy ruff
    sitecustomize usercustomize setuptools pip wheel pkg_resources _distutils_hack attr attrs yaml django trio anyio"""
)
_SHADOWED_MODULES = (_RUNNER_MODULES | sys.stdlib_module_names) - {"test", "this", "antigravity"}
_PYTHON_MODULE = re.compile(r"([A-Za-z_]\w*)(?:\.[\w-]+)?\.(?:py|pyc|so|pyd)\Z|([A-Za-z_]\w*)/__init__(?:\.[\w-]+)?\.(?:py|pyc|so|pyd)\Z")
_CHECKING_NAME = re.compile(r"(?:^|[/_.-])(?:tests?|specs?|checks?|verify|lint|ci|e2e|run)(?:[/_.-]|\Z)|\.(?:sh|bash)\Z", re.IGNORECASE)
"""Files in a recipe or script of these names judge; others, such as a source that it compiles, are the agent's work."""
_MAX_EXPANSIONS = 40


class ExpandedCommand(Struct, frozen=True, kw_only=True):
    """The command of a criterion, and the recipes and scripts that it runs."""

    direct: str
    nested: tuple[str, ...] = ()
    included: tuple[str, ...] = ()
    """Patterns of files that makefiles include."""

    @property
    def texts(self) -> tuple[str, ...]:
        """The command and everything that it runs."""
        return (self.direct, *self.nested)


class JudgingRules:
    """The judging files of one goal. Paths are relative to the root of the workspace, patterns of the goal to `prefix`."""

    def __init__(
        self,
        commands: Collection[ExpandedCommand],
        start: Collection[str],
        *,
        prefix: str = "",
        protect: Sequence[str] = (),
        may_change: Sequence[str] = (),
        links: Mapping[str, str] | None = None,
    ) -> None:
        self._start = start
        self._reasons: dict[str, JudgingReason | None] = {}
        folders = files_and_folders(start)
        named = {path for command in commands for path in _find_named(command.direct, start, folders, prefix)}
        nested = (path for command in commands for text in command.nested for path in _find_named(text, start, folders, prefix))
        named |= {path for path in nested if _CHECKING_NAME.search(path)}
        self._named = named | {target for path in named if (target := (links or {}).get(path)) is not None}
        self._protect = [(compile_pattern(each.removeprefix("!"), prefix), not each.startswith("!")) for each in protect]
        self._may_change = [compile_pattern(each, prefix) for each in may_change]
        included = (compile_pattern(each.casefold()) for command in commands for each in command.included)
        self._configuration = [_compile_any_depth(CONFIGURATION), *included]
        self._ci = _compile_any_depth(CI_FILES)
        words = {word.rstrip("/") for command in commands for word in split_words(command.direct)}
        self._module_folders = {"", prefix.rstrip("/")} | {os.path.normpath(prefix + word) for word in words if prefix + word in folders}

    @property
    def has_released(self) -> bool:
        """Whether the goal releases any file."""
        return bool(self._may_change)

    def may_change(self, path: str) -> bool:
        """Whether the goal releases the file."""
        return any(pattern.match(path) for pattern in self._may_change)

    def is_judging(self, path: str) -> bool:
        """Whether checks use the original of the file."""
        return self.find_reason(path) is not None and not self.may_change(path)

    def find_reason(self, path: str) -> JudgingReason | None:
        """Why a file judges, even if the goal releases it; `None` if it is the agent's own."""
        if path not in self._reasons:
            self._reasons[path] = self._decide_reason(path)
        return self._reasons[path]

    def _decide_reason(self, path: str) -> JudgingReason | None:
        protected = None
        for pattern, is_protected in self._protect:
            if pattern.match(path):
                protected = is_protected
        if protected is not None:
            return "protected" if protected else None
        if path in self._named:
            return "named by a criterion"
        if any(pattern.match(path.casefold()) for pattern in self._configuration):
            return "configuration"
        if self._ci.match(path.casefold()):
            return "CI"
        return "shadows the runner" if path not in self._start and self._shadows_module(path) else None

    def _shadows_module(self, path: str) -> bool:
        for folder in self._module_folders:
            relative = path[len(folder) + 1 :] if folder and path.startswith(f"{folder}/") else "" if folder else path
            match = _PYTHON_MODULE.match(relative)
            if match and (match[1] or match[2]) in _SHADOWED_MODULES:
                return True
        return False


# --- Patterns


def compile_pattern(pattern: str, prefix: str = "") -> re.Pattern[str]:
    """A glob as a regular expression for paths from the root. `**` crosses folders; a folder means everything in it."""
    pattern = prefix + pattern.removeprefix("./").rstrip("/")
    return re.compile(f"(?:{_translate_glob(pattern)})(?:/.*)?\\Z", re.DOTALL)


def _compile_any_depth(patterns: Iterable[str]) -> re.Pattern[str]:
    return re.compile(f"(?:.*/)?(?:{'|'.join(_translate_glob(each.casefold()) for each in patterns)})\\Z", re.DOTALL)


def _translate_glob(pattern: str) -> str:
    translated = ""
    for part in re.findall(r"\*\*/|\*\*|\*|\?|\[[^\]/]+\]|.", pattern, re.DOTALL):
        if part.startswith("[") and len(part) > 2:
            translated += "[" + part[1:-1].replace("\\", "\\\\").replace("!", "^", 1) + "]"
        else:
            translated += {"**/": "(?:.*/)?", "**": ".*", "*": "[^/]*", "?": "[^/]"}.get(part) or re.escape(part)
    return translated


# --- Commands


def expand_command(command: str, read_text: ReadText, *, prefix: str = "") -> ExpandedCommand:
    """Follow `make`, `npm run` and shell scripts to the commands that they run, by the original files."""
    nested: list[str] = []
    included: list[str] = []
    queue = [(command, prefix)]
    seen: set[tuple[str, str]] = set()
    while queue and len(seen) < _MAX_EXPANSIONS:
        text, folder = queue.pop(0)
        if (text, folder) in seen:
            continue
        seen.add((text, folder))
        for recipe, its_folder in _expand_once(text, folder, read_text, included):
            nested.append(recipe)
            queue.append((recipe, its_folder))
    return ExpandedCommand(direct=command, nested=tuple(nested), included=tuple(included))


def _expand_once(text: str, folder: str, read_text: ReadText, included: list[str]) -> Iterator[tuple[str, str]]:
    for words in split_simple_commands(text):
        folder = _changed_folder(words, folder)
        program = os.path.basename(words[0])
        if program in ("make", "gmake") or words[0] in ("$(MAKE)", "${MAKE}"):
            yield from _expand_make(words[1:], folder, read_text, included)
        elif program in ("npm", "yarn", "pnpm", "bun"):
            yield from _expand_package_script(words[1:], folder, read_text)
        runs_script = program in ("sh", "bash", "dash", "zsh", "source", ".")
        for word in words if runs_script else words[:1]:
            if word.endswith((".sh", ".bash")) and (content := read_text(os.path.normpath(folder + word))) is not None:
                yield content, folder


def _changed_folder(words: Sequence[str], folder: str) -> str:
    return os.path.normpath(folder + words[1]) + "/" if words[0] == "cd" and len(words) == 2 and not os.path.isabs(words[1]) else folder


def _expand_make(arguments: Sequence[str], folder: str, read_text: ReadText, included: list[str]) -> Iterator[tuple[str, str]]:
    targets, names = [], ["GNUmakefile", "makefile", "Makefile"]
    values = iter(arguments)
    for argument in values:
        if argument in ("-C", "--directory"):
            folder = os.path.normpath(folder + next(values, "")) + "/"
        elif argument in ("-f", "--file", "--makefile"):
            names = [next(values, "")]
        elif not argument.startswith("-") and "=" not in argument:
            targets.append(argument)
    content = next((text for name in names if (text := read_text(os.path.normpath(folder + name))) is not None), None)
    if content is None:
        return
    for line in re.findall(r"^[-s]?include[ \t]+(.+)$", content, re.MULTILINE):
        included += [os.path.normpath(folder + word) for word in line.split() if "$" not in word]
    yield from ((recipe, folder) for recipe in _find_recipes(content, targets))


def _find_recipes(content: str, targets: Sequence[str]) -> Iterator[str]:
    """The recipes of make targets and of what they depend on; of the first target if none is named."""
    rules: dict[str, tuple[list[str], list[str]]] = {}
    current: list[tuple[list[str], list[str]]] = []
    for line in content.replace("\\\n", " ").splitlines():
        if line.startswith("\t"):
            for rule in current:
                rule[1].append(line.strip().lstrip("@-+"))
        elif match := re.match(r"([^\s#:=](?:[^:=#]*[^\s:=#])?)\s*::?(?!=)\s*([^;#]*)(?:;(.*))?", line):
            current = [rules.setdefault(name, ([], [])) for name in match[1].split()]
            for rule in current:
                rule[0].extend(match[2].split())
                rule[1].extend([match[3]] if match[3] else [])
        elif line.strip() and not line.startswith("#"):
            current = []
    queue = list(targets) or [name for name in rules if not name.startswith(".")][:1]
    for name in queue:
        prerequisites, recipe = rules.get(name, ([], []))
        queue += [each for each in prerequisites if each not in queue]
        if recipe:
            yield "\n".join(recipe)


def _expand_package_script(arguments: Sequence[str], folder: str, read_text: ReadText) -> Iterator[tuple[str, str]]:
    words = [word for word in arguments if not word.startswith("-")]
    names = words[1:2] if words[:1] in (["run"], ["run-script"]) else words[:1]
    names = ["test" if name in ("t", "tst") else name for name in names]
    try:
        scripts = json.loads(read_text(f"{folder}package.json") or "{}").get("scripts", {})
    except (ValueError, AttributeError):
        return
    for name in names:
        for key in (f"pre{name}", name, f"post{name}"):
            if isinstance(scripts, dict) and isinstance(scripts.get(key), str):
                yield scripts[key], folder


def split_simple_commands(text: str) -> Iterator[list[str]]:
    """The simple commands of a shell text as lists of words, without assignments in front."""
    for line in re.split(r"\n|;|&&|\|\||\||&", text.replace("\\\n", " ")):
        try:
            words = shlex.split(line, comments=True)
        except ValueError:
            words = line.split()
        words = [word if word.startswith("$") else word.strip("(){}") or word for word in words]
        while words and re.match(r"[A-Za-z_]\w*=|[!({]\Z|(?:time|exec|env|nice|then|do|else|if|while)\Z", words[0]):
            words = words[1:]
        if words:
            yield words


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


def files_and_folders(paths: Iterable[str]) -> frozenset[str]:
    """Paths and all folders above them."""
    folders = {folder for path in paths for folder in files.parent_folders(path)}
    return frozenset(folders.union(paths))


def _find_named(command: str, start: Collection[str], folders: Collection[str], prefix: str) -> Iterator[str]:
    """Files that a command names, also relative to a folder that it names: `cd tests && sh run.sh`."""
    words = split_words(command)
    bases = [prefix, *(os.path.normpath(prefix + word) + "/" for word in words if os.path.normpath(prefix + word) in folders)]
    for word in words:
        for base in bases:
            path = os.path.normpath(base + word)
            if path in start and files.is_safe_path(path):
                yield path
