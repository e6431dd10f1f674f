"""Classifies a command by its program and first words: the tables behind `classify.py`."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping

from fleetlore.dialects.commands.shell import make_word_set, program_name

ACTIONS_BY_RANK = ("pr_merge", "pr_open", "push", "commit", "revert", "test", "build", "check", "edit", "install", "run", "look")
"""The actions of shell commands, most significant first: the first one present describes a whole line."""

_PROGRAMS_BY_ACTION: Mapping[str, str] = {
    "look": """
        ls ll cat bat head tail less more grep egrep fgrep rg ag ack find fd tree wc file stat du df pwd which whereis type jq yq awk cut
        sort uniq diff cmp comm column nl tac strings xxd od hexdump md5sum sha256sum ps top lsof env printenv date whoami id uname
        hostname man tldr dirname basename realpath readlink history nproc free uptime tokei cloc scc ast-grep ctags ss netstat ping dig
        nslookup host open goto scroll_down scroll_up search_dir search_file find_file journalctl seq tr
    """,
    "edit": "apply_patch applypatch patch edit create tee",
    "test": """
        pytest py.test nosetests nose2 unittest tox nox jest vitest mocha ava jasmine karma tap rspec minitest cucumber behave phpunit pest
        ctest gotestsum bats prove busted kaocha doctest trial stestr robot newman test.sh tests.sh run_tests run_tests.sh run-tests.sh
        runtests runtests.sh runtests.py run_tests.py
    """,
    "build": """
        tsc webpack rollup esbuild parcel ninja cmake meson scons gcc g++ cc clang clang++ rustc javac kotlinc ghc ocamlc dune configure
        autoreconf build.sh sphinx-build mkdocs hugo jekyll tsup swc protoc buf
    """,
    "check": """
        ruff flake8 pylint mypy pyright basedpyright pyre ty bandit eslint biome oxlint stylelint shellcheck hadolint rubocop phpstan psalm
        golangci-lint staticcheck ktlint detekt clippy swiftlint credo dialyzer pre-commit lefthook lint-imports actionlint yamllint
        markdownlint semgrep vulture deptry knip vue-tsc svelte-check
    """,
    "install": "apt apt-get aptitude brew dnf yum apk pacman zypper port choco winget scoop",
    "": "cd pushd popd echo printf true false : set unset export source . alias local read shift return exit wait sleep trap for case esac "
    "done fi } [ [[ test ulimit umask declare select function in",
}
_ACTION_BY_PROGRAM = {name: action for action, names in _PROGRAMS_BY_ACTION.items() for name in names.split()}
"""Program → action; an empty one says nothing about the line."""

_INSTALL_WORDS = dict.fromkeys(make_word_set("install i ci add sync restore require update upgrade up get"), "install")
_BUILD_WORDS = dict.fromkeys(("build", "compile", "assemble", "package", "bundle", "b"), "build")
_TEST_WORDS = dict.fromkeys(("test", "tests", "t", "spec"), "test")
_COMPILER_WORDS = _BUILD_WORDS | _TEST_WORDS
_ACTIONS_BY_SUBCOMMAND: Mapping[str, Mapping[str, str]] = {
    "cargo": _COMPILER_WORDS
    | _INSTALL_WORDS
    | {"nextest": "test", "check": "check", "c": "check", "clippy": "check", "doc": "build", "tree": "look"},
    "go": _COMPILER_WORDS | {"vet": "check", "get": "install", "mod": "install", "install": "install", "doc": "look", "list": "look"},
    "mix": _COMPILER_WORDS | {"deps.get": "install", "deps.update": "install", "credo": "check", "dialyzer": "check", "release": "build"},
    "dotnet": _COMPILER_WORDS | _INSTALL_WORDS | {"publish": "build"},
    "swift": _COMPILER_WORDS,
    "flutter": _COMPILER_WORDS | {"analyze": "check", "pub": "install"},
    "dart": _TEST_WORDS | {"compile": "build", "analyze": "check", "pub": "install"},
    "zig": _COMPILER_WORDS,
    "stack": _COMPILER_WORDS,
    "cabal": _COMPILER_WORDS,
    "lein": _COMPILER_WORDS,
    "sbt": _COMPILER_WORDS,
    "deno": _TEST_WORDS | {"check": "check", "lint": "check", "compile": "build"},
    "bazel": _COMPILER_WORDS,
    "rails": _TEST_WORDS,
    "artisan": _TEST_WORDS,
    "manage.py": _TEST_WORDS | {"check": "check"},
    "playwright": _TEST_WORDS | {"install": "install"},
    "cypress": {"run": "test"},
    "ng": _COMPILER_WORDS | {"lint": "check"},
    "vite": _BUILD_WORDS,
    "next": _BUILD_WORDS | {"lint": "check"},
    "pip": _INSTALL_WORDS | {"list": "look", "show": "look", "freeze": "look"},
    "pip3": _INSTALL_WORDS | {"list": "look", "show": "look", "freeze": "look"},
    "uv": _INSTALL_WORDS | {"pip": "install", "build": "build", "tool": "install"},
    "poetry": _INSTALL_WORDS | {"build": "build", "show": "look", "check": "check"},
    "pipx": _INSTALL_WORDS,
    "conda": _INSTALL_WORDS,
    "gem": _INSTALL_WORDS | {"build": "build", "list": "look"},
    "bundle": _INSTALL_WORDS | {"show": "look"},
    "composer": _INSTALL_WORDS | _TEST_WORDS,
    "hatch": _TEST_WORDS | {"build": "build"},
    "docker": {"build": "build", "buildx": "build", "ps": "look", "logs": "look", "images": "look", "inspect": "look", "pull": "install"},
    "kubectl": {"get": "look", "describe": "look", "logs": "look", "top": "look"},
    "systemctl": {"status": "look", "is-active": "look", "list-units": "look"},
    "bd": {"show": "look", "ready": "look", "list": "look", "blocked": "look", "stats": "look"},
}
"""Program → its subcommand → action; other subcommands are a plain run."""

_BUILD_GOAL_WORDS = _COMPILER_WORDS | {"check": "test", "verify": "test", "install": "build", "lint": "check"}
_ACTIONS_BY_BUILD_GOAL: Mapping[str, Mapping[str, str]] = dict.fromkeys(
    ("gradle", "gradlew", "mvn", "mvnw", "ant", "bazelisk", "pants"), _BUILD_GOAL_WORDS
)
"""Programs that take several goals: the last known one counts."""

_ACTION_BY_SCRIPT_NAME: Mapping[str, str] = {
    **dict.fromkeys(("test", "spec", "e2e"), "test"),
    **dict.fromkeys(("build", "compile"), "build"),
    **dict.fromkeys(("lint", "type", "check", "format:check", "fmt-check"), "check"),
    **dict.fromkeys(("install", "setup"), "install"),
}
"""Prefix of a project script's name → action."""
_NO_EFFECT_FLAGS = frozenset(("--help", "--dry-run", "--just-print"))
_MESSAGE_FLAGS = frozenset(("-m", "-am", "-F", "-t", "-b", "-k", "--message", "--title", "--body"))
"""The next word is free text, or a selection of tests."""
_LIST_TESTS_FLAGS = frozenset(
    ("--collect-only", "--co", "--fixtures", "--markers", "--listTests", "--list", "--show-only", "-N", "--listenvs")
)
"""With these, test programs only list the tests."""
_EXCLUDE_FLAGS = frozenset(("-x", "--exclude-task", "-P", "-pl", "-f", "-p"))
_SCRIPT_RUNNERS = frozenset(("npm", "yarn", "pnpm", "bun", "turbo", "nx", "lerna", "rake", "just", "task", "invoke", "inv", "poe", "nps"))
_FLAGS_WITH_VALUE = frozenset(
    ("-C", "-f", "-F", "--filter", "--prefix", "--cwd", "--dir", "-w", "--workspace", "workspace", "--project", "-p", "-j")
)

_GIT_READ_COMMANDS = make_word_set(
    """
    status diff log show blame ls-files ls-tree rev-parse rev-list grep describe shortlog reflog cat-file fetch merge-base name-rev
    whatchanged ls-remote check-ignore version help for-each-ref symbolic-ref count-objects var
    """
)
_GIT_LIST_COMMANDS = frozenset(("branch", "tag", "remote", "config", "worktree", "stash"))
"""They only read if they are used to list."""
_GIT_OTHER_ACTIONS = {"push": "push", "apply": "edit", "am": "edit", "clone": "install"}
GIT_VALUED = frozenset(("-C", "-c", "--git-dir", "--work-tree", "--exec-path", "--namespace"))
FORGE_FLAGS_WITH_VALUE = make_word_set("-R --repo -r -t --title -b --body -B --base -H --head -m -d --description -F")
"""Flags of forge CLIs that take a value."""
_PULL_REQUEST_WORDS = frozenset(("pr", "prs", "mr", "pull", "pulls", "pull-request"))
_FORGE_READ_COMMANDS = frozenset(("view", "list", "ls", "diff", "checks", "status", "watch", "show", "api", "search", "browse"))


def classify_command(words: list[str]) -> str | None:
    """Return the action of one simple command; empty if it says nothing, `None` for an empty command."""
    if not words:
        return None
    action = _classify_program(program_name(words[0]), words)
    if action and action not in ("look", "run") and _has_no_effect(words):
        return "look"
    return action


def _has_no_effect(words: list[str]) -> bool:
    """Return whether a command only shows help, a version or what it would do."""
    if words[-1] in ("-h", "--version") and words[-2] not in _MESSAGE_FLAGS:
        return True
    return any(word in _NO_EFFECT_FLAGS and before not in _MESSAGE_FLAGS for before, word in itertools.pairwise(words))


def _classify_program(program: str, words: list[str]) -> str | None:
    classifier = _CLASSIFIER_BY_PROGRAM.get(program)
    if classifier is not None:
        return classifier(words)
    action = _ACTION_BY_PROGRAM.get(program)
    if action is not None:
        return _classify_known_program(program, action, words)
    subcommands = _ACTIONS_BY_SUBCOMMAND.get(program)
    if subcommands is not None:
        return subcommands.get(find_subcommand(words), "run")
    goal_actions = _ACTIONS_BY_BUILD_GOAL.get(program)
    if goal_actions is not None:
        return _classify_build_goals(goal_actions, words)
    return _classify_script_file(program)


def _classify_build_goals(goals: Mapping[str, str], words: list[str]) -> str:
    """Return the action of the last known goal; excluded goals do not count."""
    goal_words = [word.rpartition(":")[2] for word in list_positional_words(words, _EXCLUDE_FLAGS)]
    action = next((goals[goal] for goal in reversed(goal_words) if goal in goals), "run")
    skips = any(word.startswith(("-DskipTests", "-Dmaven.test.skip")) and not word.endswith("=false") for word in words)
    return "build" if action == "test" and skips else action


def find_subcommand(words: list[str], valued: frozenset[str] = _FLAGS_WITH_VALUE) -> str:
    """Return the first word after the program that is neither a flag nor a flag's value."""
    return next(iter(list_positional_words(words, valued)), "")


def list_positional_words(words: list[str], valued: frozenset[str] = _FLAGS_WITH_VALUE) -> list[str]:
    """Return the words after the program that are neither flags nor values of flags."""
    skip = False
    found: list[str] = []
    for word in words[1:]:
        if skip:
            skip = False
        elif word in valued:
            skip = True
        elif not word.startswith(("-", "+")):
            found.append(word)
    return found


def _classify_known_program(program: str, action: str, words: list[str]) -> str:
    if program == "tsc" and "--noEmit" in words:
        return "check"
    if action == "test" and not _LIST_TESTS_FLAGS.isdisjoint(words):
        return "look"
    if program == "ruff" and "format" in words and "--check" not in words:
        return "run"
    if action == "install":
        return action if any(word in _INSTALL_WORDS or word == "-S" for word in words) else "look"
    return action


def _classify_script_file(program: str) -> str:
    """Classify a script by its name alone."""
    stem = program.partition(".")[0]
    return "test" if stem in _TEST_WORDS or stem.startswith(("test_", "test-")) or stem.endswith("_test") else "run"


def _classify_git(words: list[str]) -> str:
    word = find_subcommand(words, GIT_VALUED)
    if word == "push" and "-n" in words:
        return "look"
    if word == "commit":
        return "commit"
    if word in ("revert", "reset", "checkout", "restore", "stash", "clean") and _discards_work(word, words):
        return "revert"
    if word in _GIT_LIST_COMMANDS:
        rest = list_positional_words(words, GIT_VALUED)[1:]
        return "look" if rest in (["list"], ["show"]) or (not rest and word != "stash") or "--list" in words else "run"
    return "look" if word in _GIT_READ_COMMANDS else _GIT_OTHER_ACTIONS.get(word, "run")


def _discards_work(word: str, words: list[str]) -> bool:
    """Return whether the command discards work, instead of only moving to another state."""
    match word:
        case "revert":
            return not {"--abort", "--quit", "--continue"} & set(words)
        case "reset":
            return "--hard" in words
        case "restore":
            return "--staged" not in words or "--worktree" in words
        case "checkout":
            return "--" in words[:-1] or words[-1] == "."
        case "stash":
            return "drop" in words or "clear" in words
    flags = [flag for flag in words if flag.startswith("-")]
    return any("f" in flag for flag in flags) and not any("n" in flag for flag in flags if not flag.startswith("--"))


def _classify_forge_cli(words: list[str]) -> str:
    """Classify `gh`, `glab`, `tea`, `hub` and similar programs."""
    noun, verb = ([*list_positional_words(words, FORGE_FLAGS_WITH_VALUE), "", ""])[:2]
    if noun == "pull-request":
        return "pr_open"
    if noun in _PULL_REQUEST_WORDS and verb in ("create", "new", "c", "open"):
        return "run" if {"--web", "-w"} & set(words) else "pr_open"
    if noun in _PULL_REQUEST_WORDS and verb in ("merge", "m", "accept"):
        return "run" if {"--auto", "--disable-auto"} & set(words) else "pr_merge"
    if noun == "api":
        return "run" if {"-X", "-f", "-F", "--method", "--field", "--input"} & set(words) else "look"
    return "look" if verb in _FORGE_READ_COMMANDS or noun in _FORGE_READ_COMMANDS else "run"


def _classify_sed(words: list[str]) -> str:
    return "edit" if any(word.startswith(("-i", "-pi", "--in-place", "-Ei", "-ni")) for word in words[1:4]) else "look"


def _classify_perl(words: list[str]) -> str:
    flags = [word for word in words[1:3] if word.startswith("-") and not word.startswith("--")]
    return "edit" if any("i" in flag and "p" in flag for flag in flags) else "run"


def _classify_python(words: list[str]) -> str | None:
    if "-m" in words[:4]:
        return classify_command(words[words.index("-m") + 1 :])
    script = find_subcommand(words, frozenset(("-c", "-W", "-X")))
    return classify_command(words[words.index(script, 1) :]) if script and script != "-" else "run"


def _classify_find(words: list[str]) -> str | None:
    for flag in ("-exec", "-execdir", "-ok"):
        if flag in words:
            return classify_command(words[words.index(flag) + 1 :])
    return "run" if "-delete" in words else "look"


def _classify_script_runner(words: list[str]) -> str:
    """`npm test`, `yarn build:prod`, `just lint`, `pnpm --filter web run test:unit`."""
    word = find_subcommand(words)
    if words[0] == "nx":
        word = _find_nx_target(words, word)
    elif word in ("run", "run-script", "exec"):
        word = find_subcommand(words[words.index(word) :])
    elif words[0] in ("npm", "yarn", "pnpm", "bun"):
        if word in _INSTALL_WORDS or (not word and words[0] == "yarn"):
            return "install"
        if word in ("ls", "list", "view", "info", "outdated", "why", "audit"):
            return "look"
    if word in _TEST_WORDS:
        return "test"
    return next((action for start, action in _ACTION_BY_SCRIPT_NAME.items() if word.startswith(start)), "run")


def _find_nx_target(words: list[str], word: str) -> str:
    """`nx test web`, `nx run web:test:ci`, `nx run-many -t test`, `nx affected --target=build`."""
    if word == "run":
        return (find_subcommand(words[words.index(word) :]) + ":").split(":")[1]
    for before, flag in itertools.pairwise(words):
        if before in ("-t", "--target", "--targets"):
            return flag
        if flag.startswith(("--target=", "--targets=", "-t=")):
            return flag.partition("=")[2]
    return word


def _classify_make(words: list[str]) -> str:
    if {"-n", "--dry-run", "--just-print", "--recon"} & set(words):
        return "look"
    target = find_subcommand(words)
    if "test" in target or target.startswith("check"):
        return "test"
    if target.startswith(("lint", "type", "format-check")):
        return "check"
    if target.startswith("install"):
        return "install"
    return "run" if target.startswith(("clean", "run", "dev", "serve", "start", "help")) else "build"


def _classify_shell_script(words: list[str]) -> str | None:
    """Classify a script file given to a shell, by its name."""
    return "check" if "-n" in words[1:2] else classify_command(words[1:]) if len(words) > 1 and not words[1].startswith("-") else "run"


def _classify_docker(words: list[str]) -> str | None:
    """Classify docker itself; commands inside a container are classified separately."""
    rest = words[1:] if find_subcommand(words) == "compose" else words
    return _ACTIONS_BY_SUBCOMMAND["docker"].get(find_subcommand(rest, frozenset(("-f", "--file", "-p"))), "run")


def _classify_go(words: list[str]) -> str:
    action = _ACTIONS_BY_SUBCOMMAND["go"].get(find_subcommand(words), "run")
    if action != "test":
        return action
    return "build" if "-c" in words else "look" if "-list" in words else action


def _classify_cargo(words: list[str]) -> str:
    action = _ACTIONS_BY_SUBCOMMAND["cargo"].get(
        find_subcommand([words[0], *(word for word in words[1:] if not word.startswith("+"))]), "run"
    )
    return "build" if action == "test" and "--no-run" in words else action


def _classify_curl(words: list[str]) -> str:
    sends = {"-X", "-d", "--data", "-F", "-T", "--request", "--data-raw", "--json", "--upload-file", "-o", "-O", "--output"}
    return "run" if sends & set(words) else "look"


def _classify_node(words: list[str]) -> str:
    return "test" if "--test" in words else "run"


def _classify_mix(words: list[str]) -> str:
    word = find_subcommand(words)
    return "check" if word == "format" and "--check-formatted" in words else _ACTIONS_BY_SUBCOMMAND["mix"].get(word, "run")


_CLASSIFIER_BY_PROGRAM: Mapping[str, Callable[[list[str]], str | None]] = {
    "git": _classify_git,
    **dict.fromkeys(("gh", "glab", "tea", "hub", "fj", "berg"), _classify_forge_cli),
    **dict.fromkeys(("sed", "gsed"), _classify_sed),
    "perl": _classify_perl,
    **dict.fromkeys(("python", "python3", "python2", "py", "php", "ruby"), _classify_python),
    **dict.fromkeys(("find", "fd"), _classify_find),
    **dict.fromkeys(_SCRIPT_RUNNERS, _classify_script_runner),
    **dict.fromkeys(("make", "gmake"), _classify_make),
    **dict.fromkeys(("bash", "sh", "zsh", "dash"), _classify_shell_script),
    **dict.fromkeys(("docker", "docker-compose", "podman"), _classify_docker),
    "curl": _classify_curl,
    "node": _classify_node,
    "go": _classify_go,
    "cargo": _classify_cargo,
    "command": lambda words: "look",
    "mix": _classify_mix,
}
"""Programs that need more than their name."""
