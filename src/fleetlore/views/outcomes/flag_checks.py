"""The conditions of risk flags that a pattern cannot express; rules name them as `check`.

A check of a command gets the command, the words behind the program and its sub-command, and the whole shell line. A check
of a shell line gets the match and the line; a check of an edit gets the match, the old and the new text.
"""

import posixpath
import re
from collections.abc import Callable, Iterable, Sequence

from msgspec import Struct, field

from fleetlore.dialects.commands.shell import make_word_set
from fleetlore.views.outcomes.check_commands import find_checks
from fleetlore.views.outcomes.facts import ToolCall
from fleetlore.views.outcomes.shell import SimpleCommand

QUIET_OPTIONS = frozenset(("-q", "--quiet", "-c", "--count", "-l", "--files-with-matches", "-L"))


MOST_REMEMBERED = 400


class FlagContext(Struct):
    """What earlier calls of the session have shown: it tells a risk from tidying up and from moving code."""

    made: list[str] = field(default_factory=list)
    """Folders and files that the session created, as whole paths, and branches as "branch:NAME"."""
    suppressed: list[str] = field(default_factory=list)
    """Lines with suppressed findings that were in the files before."""


class Script(Struct, frozen=True):
    """A shell line and its simple commands."""

    text: str
    commands: tuple[SimpleCommand, ...]
    call: ToolCall
    made: Sequence[str] = ()


def has_option(words: Sequence[str], options: Iterable[str], takes: str = "") -> bool:
    """Whether one of the options is given: `-f` also in joined letters, `--force` also with a value."""
    wanted = frozenset(options)
    letters = {option[1] for option in wanted if len(option) == 2 and option[0] == "-"}
    for word in words[:200]:
        if not word.startswith("-"):
            continue
        if word == "--":
            return False
        if word in wanted or (word.startswith("--") and word.partition("=")[0] in wanted):
            return True
        if letters and not word.startswith("--") and len(word) < 12:
            for letter in word[1:]:
                if letter in letters:
                    return True
                if letter in takes or not letter.isalpha():
                    break
    return False


_TEMPORARY = re.compile(
    r"(?:/private)?/(?:tmp|var/tmp|var/folders|dev/shm)(?:/|$)"
    r"|\$\{?(?:TMP|TEMP|TMPDIR|RUNNER_TEMP|SCRATCH\w*|tmp\w*|temp\w*|work_?dir)\b|\$\(mktemp"
    r"|(?:^|/)\.?(?:tmp|temp|scratch(?:pad)?)(?:[-_.\w]*)(?:/|$)|AppData/Local/Temp|%TEMP%|\$env:TEMP",
    re.IGNORECASE,
)
# The place for temporary files itself, or the folder of a program in it, with the number of the user: others use it too.
_SHARED_TEMPORARY = re.compile(
    r"^(?:/private)?/(?:tmp|var/tmp)/?(?:\*|[a-z]{2,30}-(?:0|50\d|100\d)|(?:ssh-|systemd-|com\.)[\w.*-]{1,80})?/?$"
)
_BUILD_FOLDERS = make_word_set(
    """node_modules dist build out target .next .nuxt .output .svelte-kit .turbo .parcel-cache .vite .angular .cache cache coverage htmlcov
    .nyc_output .coverage __pycache__ .pytest_cache .mypy_cache .ruff_cache .hypothesis .tox .nox .eggs .venv venv env virtualenv .gradle
    .terraform .serverless obj bin Debug Release DerivedData Pods .dart_tool _build deps .elixir_ls .bloop .metals .stack-work
    dist-newstyle zig-out zig-cache .zig-cache .build cmake-build-debug cmake-build-release test-results playwright-report .playwright
    storybook-static site _site public/build .docusaurus .vercel .netlify .wrangler .expo logs .eslintcache generated gen
    tmp temp artifacts reports .ipynb_checkpoints wheelhouse .pnpm-store .yarn bazel-out bazel-bin lib-cov Caches"""
)
_BUILD_FILES = re.compile(
    r".*\.(?:pyc|pyo|o|obj|class|egg-info|dist-info|log|tmp|bak|orig|rej|swp|tsbuildinfo|map|out|cache|coverage|prof|whl)/?", re.DOTALL
)
_BUILD_NAMES = re.compile(
    r"\.DS_Store|__pycache__|Thumbs\.db|nohup\.out|core\.\d+|(?:cmake-)?build[-_.][\w.-]+|dist[-_.][\w.-]+|[\w.-]*\.egg-info"
)


def is_disposable(path: str, directory: str = "") -> bool:
    """Whether deleting this path loses nothing: a temporary folder, or something that a build makes again."""
    whole = path if path.startswith(("/", "~", "$", "%")) or not directory else f"{directory}/{path}"
    if _TEMPORARY.search(whole[:2000]):
        return True
    parts = [part for part in path[:2000].replace("\\", "/").split("/") if part not in ("", ".", "*", "**")]
    if any(part in _BUILD_FOLDERS or _BUILD_NAMES.fullmatch(part) for part in parts):
        return True
    return bool(parts) and _BUILD_FILES.fullmatch(parts[-1]) is not None


def _deletes_folder(command: SimpleCommand, rest: list[str], script: Script) -> bool:
    recursive = command.program in ("rimraf", "trash") or has_option(rest, ("-r", "-R", "--recursive"))
    if command.program == "Remove-Item":
        recursive = any(word.lower() in ("-recurse", "-r") for word in rest)
    if command.program == "rmdir":
        recursive = any(word.lower() == "/s" for word in rest)
    if not recursive or "--help" in rest:
        return False
    directory = _find_folder(command, script)
    targets = [word for word in rest[:200] if not word.startswith("-") and word.lower() not in ("/s", "/q")]
    if not targets:  # behind xargs: what is deleted is unknown
        return False
    created = _created_in(script)
    for word in targets:
        target = _expand_variable(word, script)
        if target.startswith(("$", "`", "{}", "%")) and not target.startswith(("$HOME", "${HOME}")):
            continue  # what it is depends on a variable
        whole = _whole_path(target, directory)
        if _names_created(word, created) or _names_created(target, created) or _is_below(whole, script.made) or f"={whole}" in script.made:
            continue
        if is_disposable(target, directory) or _GENERATED_FILE.search(target):
            continue
        return True
    return False


def _expand_variable(word: str, script: Script) -> str:
    """A path that begins with a variable to which the same shell line gave a literal value, with that value."""
    found = _variable.match(word[:200])
    if found is None:
        return word
    name = found[1] or found[2]
    if looped := re.search(rf"\bfor\s+{name}\s+in\s+([^\s$`;]{{1,400}})", script.text):
        return f"{looped[1]}{word[found.end() :]}"
    value = re.search(rf"(?:^|[\s;&(]){name}=(?:\"([^\"$`\n]{{1,400}})\"|'([^'\n]{{1,400}})'|([^\s\"'$`;&|()]{{1,400}}))", script.text)
    return f"{value[1] or value[2] or value[3]}{word[found.end() :]}" if value else word


def _deletes_kept_file(command: SimpleCommand, rest: list[str], script: Script) -> bool:
    """Not if the session wrote the file itself, or if it is in a temporary folder."""
    directory = _find_folder(command, script)
    if is_disposable("", directory):
        return False
    targets = [_whole_path(_expand_variable(word, script), directory) for word in rest[:200] if re.search(r"\.(?:db|sqlite3?)$", word)]
    return any(not is_disposable(target) and not _is_below(target, script.made) for target in targets)


def _deletes_shared_temporary(command: SimpleCommand, rest: list[str], script: Script) -> bool:
    return has_option(rest, ("-r", "-R", "--recursive")) and any(_SHARED_TEMPORARY.match(word) for word in rest[:200])


def _find_folder(command: SimpleCommand, script: Script) -> str:
    """The folder that a command runs in: `cd` in the line can be relative to the call's folder."""
    return _whole_path(command.directory, script.call.cwd) if command.directory else script.call.cwd


def _whole_path(path: str, directory: str) -> str:
    path = path.replace("\\", "/")
    if not path.startswith(("/", "~", "$")) and path[1:2] != ":":
        path = f"{directory}/{path}"
    return posixpath.normpath(path)


def _is_below(path: str, folders: Sequence[str]) -> bool:
    return any(path == folder or path.startswith(f"{folder}/") for folder in folders)


def read_created(script: Script) -> list[str]:
    """Folders and branches that a shell line surely created: what existed before is not among them."""
    created: list[str] = []
    for command in script.commands[:200]:
        words = [word for word in command.words[1:20] if not word.startswith("-")]
        directory = _find_folder(command, script)
        if command.program == "mkdir" and not has_option(command.words[1:], ("-p", "--parents")):
            created += [_whole_path(word, directory) for word in words]
        elif command.program == "cp" and has_option(command.words[1:], ("-r", "-R", "-a", "--recursive", "--archive")) and len(words) > 1:
            target = words[-1].rstrip("/")
            for source in (posixpath.basename(word.rstrip("/")) for word in words[:-1]):
                whole = target if posixpath.basename(target) == source else f"{target}/{source}"
                # Only the copy as a whole: what is taken out of a copy that stays is gone from the project.
                created += [f"={_whole_path(whole, directory)}"] if source not in ("", ".", "*") else []
        elif command.program == "git" and words[:1] == ["clone"] and len(words) > 1:
            name = words[2] if len(words) > 2 else posixpath.basename(words[1].rstrip("/")).removesuffix(".git")
            created.append(_whole_path(name, directory))
        elif command.program == "git" and words[:2] == ["worktree", "add"] and len(words) > 2:
            place = command.words.index("add") + 1
            while place < len(command.words) - 1 and command.words[place].startswith("-"):
                place += 2 if command.words[place] in ("-b", "-B", "--reason") else 1
            created.append(_whole_path(command.words[place], directory))
            created += _new_branches(command)
        elif command.program == "git" and words[:1] in (["checkout"], ["switch"], ["branch"]):
            created += _new_branches(command)
    return created


_RESUMABLE = ("rebase", "merge", "cherry-pick", "revert", "am", "pull")


def read_begun(script: Script) -> list[str]:
    """What git began and may have stopped at a conflict, as "begun:VERB", and "begun:compose" for containers."""
    begun = ["begun:compose"] if any(_starts_stack(command) for command in script.commands[:200]) else []
    return begun + [
        f"begun:{verb}"
        for command in script.commands[:200]
        if command.program == "git" and not {"--abort", "--quit"} & set(command.words)
        for verb in _RESUMABLE
        if verb in command.words[1:8]
    ]


def _starts_stack(command: SimpleCommand) -> bool:
    return "compose" in " ".join(command.words[:2]) and "up" in command.words[1:12]


def _removes_foreign_stack(command: SimpleCommand, rest: list[str], script: Script) -> bool:
    """Not if the session started the containers itself, in an earlier call or before in the line."""
    if "begun:compose" in script.made:
        return False
    for each in script.commands[:200]:
        if each is command:
            return True
        if _starts_stack(each):
            return False
    return True


def _new_branches(command: SimpleCommand) -> list[str]:
    words = command.words
    for place, word in enumerate(words[:-1]):
        if word in ("-b", "-B", "-c", "-C", "--create", "--orphan") and "branch" not in words[1:3]:
            return [f"branch:{words[place + 1]}"]
    if words[1:2] == ("branch",) and len(words) in (3, 4) and not words[2].startswith("-"):
        return [f"branch:{words[2]}"]
    return []


def _deletes_foreign_branch(command: SimpleCommand, rest: list[str], script: Script) -> bool:
    """Not if the session made the branch itself."""
    made = frozenset((*script.made, *read_created(script)))
    names = [word for word in rest if not word.startswith("-")]
    return bool(names) and not all(f"branch:{name}" in made or "$" in name for name in names)


def _aborts_foreign_work(command: SimpleCommand, rest: list[str], script: Script) -> bool:
    """Not if the session began the rebase, merge or cherry-pick itself."""
    verb = next((word for word in command.words[1:8] if word in _RESUMABLE), "")
    own = frozenset((*script.made, *read_begun(script)))
    return f"begun:{verb}" not in own and not (verb in ("rebase", "merge") and "begun:pull" in own)


def _removes_foreign_worktree(command: SimpleCommand, rest: list[str], script: Script) -> bool:
    directory = _find_folder(command, script)
    names = [_expand_variable(word, script) for word in rest if not word.startswith("-")]
    return any(not is_disposable(name, directory) and not _is_below(_whole_path(name, directory), script.made) for name in names)


def _calls_other_machine(command: SimpleCommand, rest: list[str], script: Script) -> bool:
    return _LOCAL.search(" ".join(rest)[:4000]) is None


def _created_in(script: Script) -> frozenset[str]:
    """Names that the same shell line creates, so that deleting them is tidying up."""
    created: set[str] = set()
    for command in script.commands[:200]:
        words = command.words
        if command.program == "mkdir" or words[:3] == ("git", "worktree", "add") or words[:2] == ("git", "clone"):
            names = [word.rstrip("/") for word in words[1:20] if not word.startswith("-")]
            created.update(names)
            created.update(name.rpartition("/")[2].removesuffix(".git") for name in names if command.program == "git")
    return frozenset(created)


def _names_created(target: str, created: frozenset[str]) -> bool:
    bare = target.removeprefix("./").rstrip("/")
    return bare in created or target.rstrip("/") in created or any(name.endswith(f"/{bare}") for name in created)


_BY_AGE = frozenset(("-mmin", "-mtime", "-amin", "-atime", "-cmin", "-ctime"))
_HIDDEN_FOLDER = re.compile(r"(?:~|\$HOME|\$\{HOME\}|/(?:home|Users)/[^/]+)/\.[^/]")


def _find_deletes(command: SimpleCommand, rest: list[str], script: Script) -> bool:
    words = rest[:200]
    runs_rm = any(words[at + 1 : at + 2] == ["rm"] for at, word in enumerate(words) if word in ("-exec", "-execdir", "-x", "-X", "--exec"))
    if "-delete" not in words and not runs_rm:
        return False
    directory = command.directory or script.call.cwd
    roots = []
    for word in words:
        if word.startswith(("-", "(", "!")):
            break
        roots.append(word)
    if any(_SHARED_TEMPORARY.match(root) for root in roots):
        return True
    if roots and all(is_disposable(root, directory) or root.startswith("$") for root in roots):
        return False
    if any(word in _BY_AGE for word in words) and all(_HIDDEN_FOLDER.match(root) for root in roots):
        return False  # what a program keeps for itself and has not used for a while
    if not roots and is_disposable("", directory):
        return False
    names = [words[at + 1] for at, word in enumerate(words[:-1]) if word in ("-name", "-iname", "-path")]
    return not (names and all(is_disposable(name.strip("*/") or name, "") or is_disposable(name, "") for name in names))


_GENERATED_FILE = re.compile(
    r"(?:^|/)(?:package-lock\.json|yarn\.lock|pnpm-lock\.yaml|bun\.lockb?|npm-shrinkwrap\.json|Cargo\.lock|poetry\.lock|uv\.lock|Pipfile\.lock"
    r"|Gemfile\.lock|composer\.lock|go\.sum|mix\.lock|pubspec\.lock|Podfile\.lock|flake\.lock|next-env\.d\.ts|[\w.-]+\.(?:snap|tsbuildinfo))\Z"
)


def _is_made_again(path: str) -> bool:
    """Whether a tool writes the file: a lock file, a build's or a test run's output."""
    return _GENERATED_FILE.search(path) is not None or is_disposable(path)


_FILE_NAME = re.compile(
    r"[\w./@()\[\]+-]{1,300}\.(?:go|py|ts|tsx|js|jsx|mjs|cjs|rs|rb|java|kt|c|h|cc|cpp|hpp|cs|php|swift|ex|exs|json|ya?ml|toml|lock|mod|sum|md|sql"
    r"|html|css|scss|vue|svelte|sh|xml|txt|gradle|tf|proto)"
)


def _discards_changes(command: SimpleCommand, rest: list[str], script: Script) -> bool:
    action = command.words[1] if len(command.words) > 1 else ""
    if action not in ("checkout", "restore", "switch"):
        action = next((word for word in command.words[1:12] if word in ("checkout", "restore", "switch")), "")
    if any(word in ("--ours", "--theirs", "--merge", "--help", "-h", "-p", "--patch") for word in rest):
        return False
    if is_disposable("", command.directory or script.call.cwd):
        return False
    if action == "restore":
        staged = has_option(rest, ("--staged", "-S"))
        named = [word for word in rest if not word.startswith("-") and not _is_made_again(word)]
        return (not staged or has_option(rest, ("--worktree", "-W"))) and bool(named)
    if action == "switch":
        return has_option(rest, ("--discard-changes", "-f", "--force"), "cC")
    if has_option(rest, ("-f", "--force"), "bBt"):
        return True
    if "--" in rest:
        at = rest.index("--")
        before = [word for word in rest[:at] if not word.startswith("-")]
        named = [word for word in rest[at + 1 :] if not _is_made_again(word)]
        return bool(named) and (not before or before == ["HEAD"])
    names = [word for word in rest if not word.startswith("-")]
    if (
        names
        and not has_option(rest, ("-b", "-B", "--orphan", "-t", "--track", "--detach"))
        and all(_FILE_NAME.fullmatch(name) for name in names)
    ):
        return not all(_is_made_again(name) for name in names)
    return names[:1] in (["."], ["./"], ["*"]) or names[:2] == ["HEAD", "."]


_REVISION = re.compile(r"[0-9a-f]{7,40}|v?\d+(?:\.\d+)+[\w.-]*|[\w-]*v\d[\w.-]*")


def _git_without_revision(command: SimpleCommand, rest: list[str], script: Script) -> bool:
    for word in rest[:100]:
        at = word.find("git+")
        if at < 0:
            continue
        address = word[at:].partition("#")[0]
        _, found, revision = address.partition("://")[2].rpartition("@")
        if not found or "/" in revision.rpartition(".git")[0] or not _REVISION.fullmatch(revision[:200]):
            return True
    return False


def _prints_environment(command: SimpleCommand, rest: list[str], script: Script) -> bool:
    if command.writes or (script.call.state == "ok" and not script.call.output.strip()):
        return False  # nothing was shown
    names = [word for word in rest if not word.startswith("-")]
    if command.program in ("export", "declare"):
        return False if names else has_option(rest, ("-p", "-x")) or (command.program == "export" and not rest)
    if command.program == "set" and (names or rest or not _is_piped(command, script)):
        return False
    if names:
        return command.program == "printenv" and any(is_secret_name(name) for name in names)
    after = _command_after(command, script)
    if after is None or after.program in ("sort", "cat", "less", "head", "tail", "column"):
        return True
    if after.program in ("grep", "egrep", "rg", "awk"):
        if any(word in QUIET_OPTIONS for word in after.words[1:]):
            return False
        return bool(SECRET_WORD.search(" ".join(after.words[1:6])[:400]))
    return not _is_piped(command, script)


def _command_after(command: SimpleCommand, script: Script) -> SimpleCommand | None:
    """The command that reads this one's output in a pipe, if any."""
    if not _is_piped(command, script):
        return None
    commands = script.commands
    at = next((place for place, each in enumerate(commands) if each is command), len(commands))
    return commands[at + 1] if at + 1 < len(commands) else None


def _is_piped(command: SimpleCommand, script: Script) -> bool:
    """Whether a pipe stands behind the command. The words are searched in the text, because the parser keeps no operators."""
    last = command.words[-1][-60:]
    at = script.text.find(last, max(0, script.text.find(command.words[0])))
    tail = script.text[at + len(last) : at + len(last) + 40].lstrip("\"' )}\t2>&1") if at >= 0 else ""
    return tail.startswith("|") and not tail.startswith("||")


SECRET_WORD = re.compile(r"(?i)token|secret|passw|api.?key|private|credential|auth|_key\b|\bkey\b")
_SECRET_NAME = re.compile(
    r"(?i)(?:[A-Z0-9]+_)*(?:TOKEN|SECRET|PASSWORD|PASSWD|PASSPHRASE|API_?KEY|PRIVATE_KEY|ACCESS_KEY|SECRET_KEY|CREDENTIALS?|PAT)(?:_(?:ID|PROD|DEV|STAGING|V?\d+))?"
)
_HARMLESS_NAME = re.compile(r"(?i)\w*(?:MAX|MIN|NUM|COUNT|LIMIT|TOTAL|CSRF|FILE|PATH|URL|NAME)\w*")
_variable = re.compile(r"\$(?:\{(\w{1,80})\}|(\w{1,80}))")


def is_secret_name(name: str) -> bool:
    """Whether a variable of this name holds a secret."""
    return len(name) <= 80 and _SECRET_NAME.fullmatch(name) is not None and _HARMLESS_NAME.fullmatch(name) is None


_LOCAL = re.compile(r"\b(?:localhost|127\.0\.0\.1|0\.0\.0\.0)\b")


def _prints_variable(command: SimpleCommand, rest: list[str], script: Script) -> bool:
    if command.writes:
        return False
    for word in rest[:50]:
        # The log has no secrets: what was printed is masked in the command and in its output.
        name, masked, _ = word[:200].partition("=[redacted]")
        if masked and re.search(rf"\s-[nzv] \S{{0,4}}{re.escape(name)}\b|\$\{{{re.escape(name)}[:+-]", script.text):
            continue  # the line only says whether it is set
        if masked and is_secret_name(name) and f"{name}=[redacted]" in script.call.output and not _is_piped(command, script):
            return True
        for match in _variable.finditer(word[:4000]):
            name = match[1] or match[2]
            if not is_secret_name(name) or _is_piped(command, script) or _in_single_quotes(match[0], script.text):
                continue
            if f"{name}=" in script.text and _LOCAL.search(script.text):
                continue  # a token of a test server that the same line has just asked for
            return True
    return False


def _in_single_quotes(text: str, script: str) -> bool:
    at = script.find(text)
    line = script[max(0, at - 500) : at].rpartition("\n")[2]
    return line.count("'") % 2 == 1 and line.count('"') % 2 == 0


def _prints_secret(command: SimpleCommand, rest: list[str], script: Script) -> bool:
    """Not if the value goes into a variable, another command or a file."""
    if command.writes or "--help" in rest or _is_piped(command, script):
        return False
    start = " ".join(command.words[:2])
    at = script.text.find(start)
    if at < 0 or script.text[max(0, at - 3) : at].rstrip().endswith(("$(", "`", "<(")):
        return False
    if command.program == "security":
        return has_option(rest, ("-w", "-g"))
    if command.program == "kubectl":
        return has_option(rest, ("-o", "--output"))
    return script.call.state != "failed"


def _starts_package(match: re.Match[str], script: Script) -> bool:
    """Whether the package named in the text is really started or installed, not only mentioned."""
    package = match[0].split()[-1]
    for command in script.commands[:200]:
        if command.program in ("npm", "pnpm", "yarn", "bun", "npx", "bunx", "uvx", "uv", "pipx"):
            if package in command.words:
                return True
        elif command.words and command.words[0] == package:
            return True
    return False


_INTERPRETERS = make_word_set("bash sh zsh dash fish python python3 node perl ruby")


def _pipes_into_interpreter(match: re.Match[str], script: Script) -> bool:
    """Whether the interpreter reads the program from the pipe: it is given no file, module or expression."""
    for command in script.commands[:200]:
        if command.program in _INTERPRETERS and not command.body:
            first = command.words[1] if len(command.words) > 1 else ""
            if first in ("", "-", "--") or (first.startswith("-") and "s" in first and not first.startswith("--")):
                return True
    return False


def _fetches_package(match: re.Match[str], script: Script) -> bool:
    """Whether a package without a version is started. Who says "yes" beforehand knows that it is not installed."""
    return "@" not in match[0].split()[-1][1:] and _starts_package(match, script)


def _runs_download(match: re.Match[str], script: Script) -> bool:
    """Whether a downloaded file is run or made executable, and it is from an address without a version."""
    targets: set[str] = set()
    for command in script.commands[:200]:
        words = command.words
        if command.program in ("curl", "wget"):
            addresses = [word for word in words if "://" in word]
            if any(re.search(r"v?\d{1,9}\.\d", address) for address in addresses) or _LOCAL.search(" ".join(addresses)):
                continue
            for place, word in enumerate(words[:-1]):
                if word.startswith("-") and word.endswith(("o", "O", "--output", "--output-document")):
                    targets.add(words[place + 1])
            if command.program == "wget" or any(re.fullmatch(r"-[a-zA-Z]*O[a-zA-Z]*|--remote-name", word) for word in words):
                targets.update(posixpath.basename(address.partition("?")[0]) for address in addresses)
            targets.update(command.writes)
        elif targets and (command.program in _INTERPRETERS or command.program in ("chmod", "source", ".")):
            if targets.intersection(word.removeprefix("./") for word in words[1:8]) or targets.intersection(words[1:8]):
                return not (command.program == "chmod" and not any("x" in word or "7" in word or "5" in word for word in words[1:3]))
        elif targets and words and (words[0] in targets or words[0].removeprefix("./") in targets):
            return True
    return False


def _really_run(match: re.Match[str], script: Script) -> bool:
    """Whether the text is not only searched for, printed or written into a message."""
    return not any(
        command.program in _TEXT_PROGRAMS and any(match[0] in word for word in (*command.words[1:50], command.body))
        for command in script.commands[:200]
    )


_TEXT_PROGRAMS = make_word_set("grep rg egrep ag echo printf sed cat awk jq git gh")


_DATABASE_PASSWORD = re.compile(r"PGPASSWORD|MYSQL_PWD|REDISCLI_AUTH|mysql")
_OTHER_HOST = re.compile(r"(?:\s-h\s*|--host[= ])[\"']?(?!localhost|127\.|0\.0\.|::1|\$)[\w-]+\.[\w.-]+")
_SENDING = frozenset(("clone", "remote", "push", "fetch", "pull", "ls-remote", "config"))


def _secret_in_command(match: re.Match[str], script: Script) -> bool:
    """Not in a search pattern, a commit message or other text, nor for a server on the same machine or a test run."""
    if match[0].rstrip("\"'").endswith("=[redacted]") and any(
        check.kind == "tests" for command in script.commands[:200] for check in find_checks(command.words)
    ):
        return False
    elsewhere = any(command.program in ("ssh", "sshpass") for command in script.commands[:200])
    if not elsewhere and (_LOCAL.search(script.text) or (_DATABASE_PASSWORD.search(match[0]) and not _OTHER_HOST.search(script.text))):
        return False
    return not any(
        command.program in ("grep", "rg", "egrep", "git", "echo", "sed", "cat", "printf", "jq", "awk", "ag")
        and any("[redacted]" in word or "REDACTED" in word for word in (*command.words, command.body))
        and not (command.program == "git" and _SENDING.intersection(command.words[1:3]))
        for command in script.commands[:200]
    )


_CONDITION = re.compile(r"\}?\s*(?:if|else|elif|case|default|unless|except|rescue|catch|when|switch)\b|.*\b(?:Short|Getenv|LookPath)\(")


def _without_condition(match: re.Match[str], old: str, new: str) -> bool:
    """A skip inside of `if`, `except` and the like depends on the machine; only one that always happens counts."""
    before = new[max(0, match.start() - 1000) : match.start()].rstrip().rpartition("\n")[2].strip()
    if not before and match.start() > 0 and not new[: match.start()].strip():
        return False  # the edit does not show what it stands in
    return _CONDITION.match(before) is None


def _was_active(match: re.Match[str], old: str, new: str) -> bool:
    """Whether the assertion that is now a comment was code before."""
    code = match[0].strip().lstrip("/#").strip()
    return len(code) > 8 and any(line.strip() == code for line in old.split("\n"))


_ASSERTION = re.compile(r"\bassert|\bexpect\(|\brequire\.\w+\(|\bt\.(?:Error|Fatal)|\bshould\b")


def _replaces_assertion(match: re.Match[str], old: str, new: str) -> bool:
    """Whether the replaced text had an assertion; a placeholder in a new test weakens nothing."""
    return _ASSERTION.search(old) is not None


_MADE_BY_TOOLS = re.compile(
    r"(?i)generated|vendor|third[-_]party|\.gen\b|\.pb\b|_pb2|min\.js|\.d\.ts|migrations?|lock|snapshots?|storybook|public|assets|\.md\b|worktrees"
)


def _takes_out_code(match: re.Match[str], old: str, new: str) -> bool:
    """Whether a list of ignored files gets one that people write and that a check should see."""
    text = match[0].strip()
    names = re.findall(r"[\"']([^\"'\n]{2,120})[\"']", text) or [text.rpartition("=")[2].strip()]
    return any(
        name not in old
        and re.search(r"[a-zA-Z]{2}", name)
        and not name.startswith(".")
        and not is_disposable(name.strip("*/"))
        and not _MADE_BY_TOOLS.search(name)
        for name in names
    )


_number = re.compile(r"\d{1,20}(?:\.\d{1,20})?\Z")


def _number_lowered(match: re.Match[str], old: str, new: str) -> bool:
    after = _number.search(match[0])
    if not after or not re.search(r"(?i)cov|fail.under|threshold|minimum", new + old):
        return False
    key = match[0][: after.start()]
    before = re.search(re.escape(key) + r"(\d+(?:\.\d+)?)", old)
    return before is not None and float(after[0]) < float(before[1])


def _not_in_deny(match: re.Match[str], old: str, new: str) -> bool:
    """Whether the last list of permissions that is named before the match is not one of refusals."""
    before = new[max(0, match.start() - 20_000) : match.start()]
    places = {name: before.rfind(f'"{name}"') for name in ("allow", "deny", "ask", "matcher", "hooks")}
    last = max(places, key=lambda name: places[name])
    return places[last] < 0 or last == "allow" or not match[0].startswith('"')


COMMAND_CHECKS: dict[str, Callable[[SimpleCommand, list[str], Script], bool]] = {
    "deletes_folder": _deletes_folder,
    "deletes_kept_file": _deletes_kept_file,
    "deletes_shared_temporary": _deletes_shared_temporary,
    "find_deletes": _find_deletes,
    "removes_foreign_stack": _removes_foreign_stack,
    "deletes_foreign_branch": _deletes_foreign_branch,
    "removes_foreign_worktree": _removes_foreign_worktree,
    "aborts_foreign_work": _aborts_foreign_work,
    "discards_changes": _discards_changes,
    "git_without_revision": _git_without_revision,
    "calls_other_machine": _calls_other_machine,
    "prints_environment": _prints_environment,
    "prints_variable": _prints_variable,
    "prints_secret": _prints_secret,
}
SCRIPT_CHECKS: dict[str, Callable[[re.Match[str], Script], bool]] = {
    "starts_package": _starts_package,
    "fetches_package": _fetches_package,
    "really_run": _really_run,
    "pipes_into_interpreter": _pipes_into_interpreter,
    "runs_download": _runs_download,
    "secret_in_command": _secret_in_command,
}
EDIT_CHECKS: dict[str, Callable[[re.Match[str], str, str], bool]] = {
    "without_condition": _without_condition,
    "was_active": _was_active,
    "replaces_assertion": _replaces_assertion,
    "number_lowered": _number_lowered,
    "takes_out_code": _takes_out_code,
    "not_in_deny": _not_in_deny,
}
