"""Decides which files of a workspace judge the agent's work: for these, criteria use the originals from before the first turn.

Judging files are those that criteria name, build and test configuration, CI files, files that match the goal's `protect`
patterns, and new Python modules that would shadow the test runner. `may_change` releases files. `judging_copy.py` applies
the rules, `lore goal check` lists the files.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Literal, TypeAlias

from fleetlore.dialects.commands.shell import make_word_set
from fleetlore.goal.acceptance.expansion import ExpandedCommand, ReadText, find_loaded_files, split_simple_commands, split_words
from fleetlore.goal.workspace import files

JudgingReason: TypeAlias = Literal["named by a criterion", "protected", "configuration", "CI", "built by make", "shadows the runner"]

_CONFIGURATION_BY_ECOSYSTEM = {
    "task runners": """
        Makefile GNUmakefile Makefile.* GNUmakefile.* *.mk *.mak *,v RCS/** SCCS/** justfile .justfile Taskfile.y*ml
        Taskfile.dist.y*ml Rakefile SConstruct SConscript wscript tasks.py dodo.py pants.toml magefile.go lefthook.y*ml
        .pre-commit-config.yaml .env .env.local .env.test* .flaskenv
    """,
    "Python": """
        conftest.py pytest.ini .pytest.ini pytest.toml .pytest.toml tox.ini tox.toml noxfile.py setup.py setup.cfg uv.lock pyproject.toml
        poetry.lock Pipfile Pipfile.lock requirements*.txt constraints*.txt .coveragerc uv.toml mypy.ini .mypy.ini ruff.toml
        .ruff.toml .flake8 pylintrc .pylintrc pyrightconfig.json .python-version sitecustomize.py usercustomize.py *.pth pip.conf
        pytest_*_plugin.py *.egg-info/** *.dist-info/** __pycache__/**
    """,
    "JavaScript": """
        package.json package-lock.json npm-shrinkwrap.json yarn.lock pnpm-lock.yaml pnpm-workspace.yaml bun.lock* .npmrc .yarnrc*
        .pnp.* .pnpmfile.* bunfig.toml deno.json* deno.lock turbo.json nx.json lerna.json jest.config.* jest.setup.* setupTests.*
        vitest.config.* vitest.setup.* vitest.workspace.* vite.config.* jasmine.* mocha.opts .mocharc* ava.config.* karma.conf*
        playwright.config.* cypress.config.* wdio.conf.* .babelrc* babel.config.* tsconfig*.json .eslintrc*
        .nycrc* eslint.config.* biome.json* .taprc .swcrc .nvmrc .node-version
    """,
    "Rust and Go": """
        Cargo.toml Cargo.lock build.rs rust-toolchain* .cargo/** clippy.toml nextest.toml go.mod go.sum go.work*
    """,
    "JVM": """
        pom.xml mvnw* .mvn/** build.gradle* settings.gradle* gradle.properties gradlew* gradle/** build.sbt
    """,
    "C and C++": """
        CMakeLists.txt *.cmake CTestTestfile.cmake CMakePresets.json meson.build meson_options.txt configure.ac
    """,
    ".NET, Swift, Elixir, Ruby and PHP": """
        *.csproj *.fsproj *.sln *.runsettings Directory.Build.* global.json nuget.config Package.swift mix.exs mix.lock Gemfile
        Gemfile.lock .rspec .rubocop.yml phpunit*.xml* composer.json composer.lock
    """,
    "Bazel and tool versions": """
        BUILD BUILD.bazel WORKSPACE* MODULE.bazel .bazelrc .tool-versions mise.toml .envrc flake.nix flake.lock
    """,
    "installed dependencies that are committed": """
        node_modules/** .venv/** venv/** vendor/bin/**
    """,
}
CONFIGURATION = tuple(pattern for patterns in _CONFIGURATION_BY_ECOSYSTEM.values() for pattern in patterns.split())
"""Names and paths at any depth."""
CI_FILES = make_word_set("""
    .github/workflows/** .github/actions/** .gitlab-ci.yml .gitlab/ci/** .circleci/** .travis.yml Jenkinsfile azure-pipelines*.yml
    bitbucket-pipelines.yml .buildkite/** .drone.yml .woodpecker* appveyor.yml cloudbuild.yaml
""")
_RUNNER_MODULES = make_word_set(
    """pytest _pytest py pluggy iniconfig packaging pygments exceptiongroup tomli coverage xdist execnet hypothesis nose2 tox nox mypy ruff
    sitecustomize usercustomize setuptools pip wheel pkg_resources _distutils_hack attr attrs yaml django trio anyio
    _hypothesis_pytestplugin _hypothesis_ftz_detector _pytest_cov faker typeguard syrupy respx requests_mock pyfakefs nbval langsmith"""
)
_SHADOWED_MODULES = (_RUNNER_MODULES | sys.stdlib_module_names) - {"test", "this", "antigravity"}
_PYTHON_MODULE = re.compile(r"([A-Za-z_]\w*)(?:\.[\w-]+)?\.(?:py|pyc|so|pyd)\Z|([A-Za-z_]\w*)/__init__(?:\.[\w-]+)?\.(?:py|pyc|so|pyd)\Z")
_LOADED_INSTEAD_OF = (
    (re.compile(r"(.+)/__init__(?:\.[\w-]+)?\.(?:py|pyc|so|pyd)\Z", re.DOTALL), (".py",)),
    (re.compile(r"(.+?)(?:\.[\w-]+)?\.(?:so|pyd)\Z", re.DOTALL), (".py",)),
    (re.compile(r"(.+)\.(?:[mc]?js|jsx)\Z", re.DOTALL), (".ts", ".tsx", ".mts", ".cts", ".jsx", ".js")),
)
"""A file of such a name is loaded instead of the file with the same stem and one of these endings."""
_CHECKING_NAME = re.compile(
    r"(?:^|[/_.-])(?:tests?|specs?|check(?:s|er)?|verif(?:y|ier)|validat(?:e|or|ion)|assert(?:s|ions?)?|acceptance|smoke|integration"
    r"|regressions?|lint|ci|e2e|run|expected|golden|snapshots?|fixtures?)(?:[/_.-]|\Z)|\.(?:sh|bash)\Z",
    re.IGNORECASE,
)
"""Of the files that a recipe or script names, those with such a name judge; others, such as a source that it compiles, do not."""


class JudgingRules:
    """The judging files of one goal. `originals` are the files before the first turn. Paths are relative to the root of the workspace.

    `protect`, `may_change` and the commands are relative to the folder `prefix`. `links` maps symbolic links to their targets, `read_text`
    reads originals.
    """

    def __init__(
        self,
        commands: Collection[ExpandedCommand],
        originals: Collection[str],
        *,
        prefix: str = "",
        protect: Sequence[str] = (),
        may_change: Sequence[str] = (),
        links: Mapping[str, str] | None = None,
        read_text: ReadText = lambda _: None,
    ) -> None:
        self._originals = originals
        self._reasons: dict[str, JudgingReason | None] = {}
        folders = files_and_folders(originals)

        # Files that judge because of their names, or because configuration names them.
        named = _find_named_files(commands, originals, folders, prefix)
        named |= find_loaded_files([path for path in originals if _TEST_CONFIGURATION.match(path)], read_text)
        self._named = named | {target for path in named if (target := (links or {}).get(path)) is not None}
        self._protect = [(compile_pattern(each.removeprefix("!"), prefix), not each.startswith("!")) for each in protect]
        self._may_change = [compile_pattern(each, prefix) for each in may_change]
        included = (compile_pattern(each.casefold()) for command in commands for each in command.included)
        self._configuration = [_compile_any_depth(CONFIGURATION), *included]
        self._ci = _compile_any_depth(CI_FILES)

        # What a new file could be used in place of: a program on the search path, a target of make, a Python module. A target that the
        # agent changed is left out, too, so that make builds it.
        self._path_folders = {path for command in commands for path in command.path_folders}
        self._programs = {
            os.path.basename(words[0]) for command in commands for text in command.texts for words in split_simple_commands(text)
        }
        self._make_targets = {
            path: needs for command in commands for path, needs in command.targets.items() if path in originals or path not in folders
        }
        words = {word.rstrip("/") for command in commands for word in split_words(command.direct)}
        named_folders = {os.path.normpath(prefix + word) for word in words if prefix + word in folders}
        script_folders = {os.path.dirname(path) for path in self._named if path.endswith(".py")}  # Python looks beside its script
        self._module_folders = {"", prefix.rstrip("/")} | named_folders | self._path_folders | script_folders

    @property
    def has_released_files(self) -> bool:
        """Whether the goal has `may_change` patterns."""
        return bool(self._may_change)

    def may_change(self, path: str) -> bool:
        """Whether a `may_change` pattern releases the file: the agent may change it although it judges."""
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
        protections = [is_protected for pattern, is_protected in self._protect if pattern.match(path)]
        if protections:
            return "protected" if protections[-1] else None  # the last pattern that matches decides
        is_new = path not in self._originals
        if path in self._named or (not is_new and self._is_program_on_path(path)):
            return "named by a criterion"
        if any(pattern.match(path.casefold()) for pattern in self._configuration):
            return "configuration"
        if self._ci.match(path.casefold()):
            return "CI"
        if not self._make_targets.keys().isdisjoint((path, *files.parent_folders(path)) if is_new else (path,)):
            return "built by make"
        return "shadows the runner" if is_new and self._is_used_instead(path) else None

    def list_prerequisites(self, target: str) -> set[str]:
        """What make builds a target from, and what that is built from."""
        found, queue = set[str](), list(self._make_targets.get(target, ()))
        for path in queue:
            if path not in found:
                found.add(path)
                queue += self._make_targets.get(path, ())
        return found

    def _is_program_on_path(self, path: str) -> bool:
        return os.path.dirname(path) in self._path_folders and os.path.basename(path) in self._programs

    def _is_used_instead(self, path: str) -> bool:
        """Whether a new file would be used in place of something that judges."""
        return self._is_program_on_path(path) or self._shadows_module(path) or self._shadows_judging_file(path)

    def _shadows_module(self, path: str) -> bool:
        for folder in self._module_folders:
            if folder and not path.startswith(f"{folder}/"):
                continue
            match = _PYTHON_MODULE.match(path[len(folder) + 1 :] if folder else path)
            name = (match[1] or match[2]) if match else ""
            if name in _SHADOWED_MODULES or name.startswith("pytest_"):  # as plugins are called by convention
                return True
        return False

    def _shadows_judging_file(self, path: str) -> bool:
        """A package or compiled module comes before the Python module of its name, JavaScript before TypeScript."""
        for pattern, endings in _LOADED_INSTEAD_OF:
            if match := pattern.match(path):
                replaced = (match[1] + ending for ending in endings)
                return any(other in self._originals and other != path and self.is_judging(other) for other in replaced)
        return False


# --- Patterns


def compile_pattern(pattern: str, prefix: str = "") -> re.Pattern[str]:
    """A glob as a regular expression for paths from the root. `**` crosses folders; a folder means everything in it."""
    pattern = prefix + pattern.removeprefix("./").rstrip("/")
    return re.compile(f"(?:{_translate_glob(pattern)})(?:/.*)?\\Z", re.DOTALL)


def _compile_any_depth(patterns: Iterable[str]) -> re.Pattern[str]:
    return re.compile(f"(?:.*/)?(?:{'|'.join(_translate_glob(each.casefold()) for each in patterns)})\\Z", re.DOTALL)


_GLOB_PART = re.compile(r"\*\*/|\*\*|\*|\?|\[[^\]/]+\]|.", re.DOTALL)


def _translate_glob(pattern: str) -> str:
    translated = ""
    for part in _GLOB_PART.findall(pattern):
        if part.startswith("[") and len(part) > 2:
            translated += "[" + part[1:-1].replace("\\", "\\\\").replace("!", "^", 1) + "]"
        else:
            translated += {"**/": "(?:.*/)?", "**": ".*", "*": "[^/]*", "?": "[^/]"}.get(part) or re.escape(part)
    return translated


_TEST_CONFIGURATION = re.compile(
    r"(?!(?:.*/)?(?:node_modules|\.venv|venv|vendor)/)(?:.*/)?(?:conftest\.py|\.?pytest\.(?:ini|toml)|tox\.ini|setup\.cfg|pyproject\.toml"
    r"|package\.json|(?:jest|vitest|vite|playwright|karma)\.conf[^/]*)\Z"
)
"""Files that name plugins and setup files of test runners."""


# --- Files that commands name


def files_and_folders(paths: Iterable[str]) -> frozenset[str]:
    """Paths and all folders above them."""
    folders = {folder for path in paths for folder in files.parent_folders(path)}
    return frozenset(folders.union(paths))


def _find_named_files(commands: Collection[ExpandedCommand], originals: Collection[str], folders: Collection[str], prefix: str) -> set[str]:
    """Files that criteria name; of those that only a recipe or script names, the ones that check something by their name."""
    named = {path for command in commands for path in _find_words(command.direct, originals, folders, prefix)}
    texts = [(text, folder) for command in commands for text, folder in ((command.direct, prefix), *command.nested)]
    nested = {path for text, folder in texts for path in _find_words(text, originals, folders, folder)}
    modules = {path for text, folder in texts for path in _find_modules(text, originals, folder)}
    return named | {path for path in nested | modules if _CHECKING_NAME.search(path)}


def _find_modules(command: str, originals: Collection[str], prefix: str) -> Iterator[str]:
    """Files of the modules that `python -m` runs."""
    for name in re.findall(r"(?:^|\s)-m\s+([A-Za-z_][\w.]*)", command):
        stem = prefix + name.replace(".", "/")
        yield from (path for path in (f"{stem}.py", f"{stem}/__main__.py", f"{stem}/__init__.py") if path in originals)


def _find_words(command: str, originals: Collection[str], folders: Collection[str], prefix: str) -> Iterator[str]:
    """Files that a command names, also relative to a folder that it names: `cd tests && sh run.sh`."""
    words = split_words(command)
    bases = [prefix, *(os.path.normpath(prefix + word) + "/" for word in words if os.path.normpath(prefix + word) in folders)]
    for word in words:
        for base in bases:
            path = os.path.normpath(base + word)
            if path in originals and files.is_safe_path(path):
                yield path
            elif "*" in word and "/" in word:  # tests/test_*.py
                pattern = compile_pattern(path)
                yield from (each for each in originals if pattern.match(each))
