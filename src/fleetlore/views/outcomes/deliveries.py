# ruff: noqa: E501 - a pattern is easier to read on one line
"""Commits, pushes and pull requests that a command made, as far as its output or exit code shows them."""

import re
from collections.abc import Sequence
from functools import lru_cache
from itertools import islice

from msgspec.structs import replace

from fleetlore.dialects.commands.shell import make_word_set
from fleetlore.views.outcomes.facts import CommitMade, PullRequestOpened, PushMade, ToolCall
from fleetlore.views.outcomes.output_text import Output
from fleetlore.views.outcomes.shell import SimpleCommand

MAX_SUBJECT = 300
MAX_MESSAGE = 8_000

_commit_line = re.compile(r"^\[(?P<branch>[^\]\n]{1,200}?)(?: \(root-commit\))? (?P<sha>[0-9a-f]{7,40})\] (?P<subject>[^\n]{0,400})$", re.M)
_push_line = re.compile(
    r"^(?:remote: )?[ \t]*(?P<flag>[ +*=!-])?[ \t]{0,4}(?:(?P<range>[0-9a-f]{4,40}\.{2,3}[0-9a-f]{4,40})|\[new (?:branch|tag|reference)\])[ \t]+(?P<local>\S+)[ \t]+->[ \t]+(?P<remote>\S+)",
    re.M,
)
# The end of what `git commit` prints; `| tail -1` leaves one of these lines.
_files_changed = re.compile(
    r"^(?: |ok )\d+ files? changed|^ (?:create|delete) mode \d{6} |^ (?:rename|rewrite) \S[^\n]{0,400} \(\d+%\)$", re.M
)
# The last line of `git push -u`.
_tracking = re.compile(r"^branch '(?P<branch>[^'\n]{1,200})' set up to track ", re.M | re.IGNORECASE)
_refused = re.compile(
    r"nothing to commit|nothing added to commit|no changes added to commit|Aborting commit|hook (?:declined|failed|exited)|husky - |pre-commit hook"
    r"|error: (?:Committing is not possible|pathspec|gpg failed)|fatal: ",
)
_not_pushed = re.compile(r"\[(?:remote )?rejected\]|error: failed to push|fatal: |ERROR: ")
_pull_url = re.compile(r"https?://[^\s\"'<>()\]]{3,200}?/(?:pull|pulls|merge_requests|pullrequest|pull-requests)/(?P<number>\d+)")
_log_line = re.compile(r"^(?P<sha>[0-9a-f]{7,40}) (?:\([^)\n]{1,200}\) )?(?P<subject>\S[^\n]{0,300})$", re.M)
_scratch = re.compile(
    r"(?:/private)?/tmp(?:/|$)|(?:/private)?/var/(?:folders|tmp)/|\$\(?\{?(?:mktemp|\w*(?:tmp|temp|scratch|sandbox)\w*)|^\$$", re.IGNORECASE
)
_git_merge = re.compile(r"^Merge made by the '[\w-]+' strategy", re.M)
_applying = re.compile(r"^Applying: (?P<subject>[^\n]{1,300})$", re.M)
_jj_commit = re.compile(
    r"^(?:Parent commit|Working copy)[^\n:]{0,40}: (?P<change>[a-z]{4,40}) (?P<sha>[0-9a-f]{6,40}) (?P<subject>[^\n]{0,300})$", re.M
)

_GIT_VALUED = frozenset(("-C", "-c", "--git-dir", "--work-tree", "--exec-path", "--namespace"))
_COMMITTING = frozenset(("commit", "merge", "cherry-pick", "revert", "rebase", "am", "ci", "citool", "commit-tree"))
# Commands that print or search text: a commit line in their output is quoted, not made.
_QUOTING = make_word_set("cat head tail less grep rg sed awk jq gh glab curl diff")


@lru_cache(maxsize=128)
def git_subcommand(words: tuple[str, ...]) -> tuple[str, tuple[str, ...], str]:
    """The subcommand of a git command, its arguments, and the folder given with -C."""
    index, folder = 1, ""
    while index < len(words) and words[index].startswith("-"):
        if words[index] == "-C" and index + 1 < len(words):
            folder = words[index + 1]
        index += 2 if words[index] in _GIT_VALUED else 1
    return (words[index], words[index + 1 :], folder) if index < len(words) else ("", (), folder)


def is_scratch(folder: str, cwd: str) -> bool:
    """Whether a folder is temporary, so that commits in it do not count as delivered. False if the session's own folder is temporary."""
    return bool(folder) and _scratch.search(folder) is not None and not (cwd and _scratch.match(cwd))


def read_commits(call: ToolCall, commands: Sequence[SimpleCommand], output: Output) -> tuple[CommitMade, ...]:
    """Commits that the output shows as `[branch sha] subject`, and quiet ones that the exit code proves."""
    reached_server = "To " in output.text and _server.search(output.text) is not None
    makers = [command for command in commands if _makes_commits(command, call.cwd, reached_server=reached_server)]
    lines = list(islice(_commit_line.finditer(output.text), 50)) if "] " in output.text else []
    if not makers:
        if not lines or not _may_commit_inside(commands, call.cwd):
            return ()
        return tuple(_from_line(call, line, "", amends=False) for line in lines)
    commits: list[CommitMade] = []
    for command in makers:
        message, amends = _read_message(command, commands)
        subject = message.strip().partition("\n")[0].strip()
        line = _take_line(lines, subject, _commit_verb(command))
        if line is not None:
            commits.append(_from_line(call, line, message, amends=amends))
        elif not _only_tries(command):
            commits += _read_quiet_commits(call, command, commands, output, message, amends=amends)
    rebases = all(_commit_verb(command) == "rebase" for command in makers)
    commits += [replace(_from_line(call, line, "", amends=False), rewritten=rebases) for line in lines]
    return tuple(commits[:50])


MANY_COMMITS = 1000
_back = re.compile(r"(?:HEAD|@)(?:(?P<carets>\^{1,20})|~(?P<count>\d{0,3}))\Z")


def count_undone(commands: Sequence[SimpleCommand], output: Output) -> int:
    """How many of the newest commits `git reset` took back: `HEAD~2`; all of them for `--soft main`."""
    for command in commands:
        if command.program != "git" or not command.proven or output.exit_code != 0:
            continue
        sub, arguments, _ = git_subcommand(command.words)
        names = [word for word in arguments if not word.startswith("-")]
        if sub != "reset" or len(names) != 1:
            continue
        if found := _back.match(names[0]):
            return len(found["carets"]) if found["carets"] else int(found["count"] or 1)
        if "--soft" in arguments and names[0] not in ("HEAD", "@"):
            return MANY_COMMITS
    return 0


def _read_quiet_commits(
    call: ToolCall, command: SimpleCommand, commands: Sequence[SimpleCommand], output: Output, message: str, *, amends: bool
) -> list[CommitMade]:
    """Commits of a command for which the output has no `[branch sha] subject` line."""
    subject = message.strip().partition("\n")[0].strip()
    verb = _commit_verb(command)
    if verb == "merge":
        made = _git_merge.search(output.text) is not None
        return [_make_commit(call, subject or _merge_subject(command), "", message, amends=False)] if made else []
    if verb == "am":
        found = islice(_applying.finditer(output.text), 50) if output.exit_code == 0 else ()
        return [_make_commit(call, line["subject"], "", "", amends=False) for line in found]
    if verb == "commit" and not command.proven and (sha := _find_logged(subject, output.text)):
        return [_make_commit(call, subject, sha, message, amends=amends)]
    if not _shows_success(command, output) and not _was_followed_by_push(command, commands, output):
        return []
    if verb == "jj":
        created = _jj_commit.search(output.text)
        return [_make_commit(call, subject or created["subject"], created["sha"], message, amends=False)] if created else []
    if verb in ("commit", "ci", "gt") and (subject or amends):
        return [_make_commit(call, subject, "", message, amends=amends)]
    return []


def _find_logged(subject: str, text: str) -> str:
    """The hash of the newest commit in a `git log --oneline` behind a quiet commit; "" if it has another subject."""
    found = _log_line.search(text)
    is_same = found is not None and len(subject) > 8 and found["subject"][:60].startswith(subject[:40])
    return found["sha"] if found is not None and is_same else ""


def _commit_verb(command: SimpleCommand) -> str:
    if command.program == "git":
        return git_subcommand(command.words)[0]
    return {"gt": "gt", "jj": "jj"}.get(command.program, "commit")


def _makes_commits(command: SimpleCommand, cwd: str, *, reached_server: bool) -> bool:
    words = command.words
    program = command.program
    if program == "git":
        sub, arguments, folder = git_subcommand(words)
        if sub not in _COMMITTING or (not reached_server and is_scratch(folder or command.directory, cwd)):
            return False
        return not (
            sub in ("merge", "rebase", "cherry-pick", "revert", "am") and {"--abort", "--quit", "--no-commit", "-n"} & set(arguments)
        )
    if is_scratch(command.directory, cwd):
        return False
    sub = words[1] if len(words) > 1 else ""
    if program == "jj":
        return sub in ("commit", "ci", "describe", "desc", "squash") and ("-m" in words or "--message" in words or sub in ("commit", "ci"))
    if program == "gt":
        return sub in ("create", "c", "modify", "m", "commit") and len(words) > 2
    if program in ("hg", "sl"):
        return sub in ("commit", "ci", "amend")
    return (program, sub) in (("git-cz", ""), ("cz", "commit"), ("cz", "c"), ("czg", ""), ("but", "commit"))


def _may_commit_inside(commands: Sequence[SimpleCommand], cwd: str) -> bool:
    """Whether an unknown script in the command can have made the commits that the output shows."""
    own = [command for command in commands if command.words and command.program not in ("cd", "export", "set")]
    if not own or any(is_scratch(command.directory, cwd) for command in own):
        return False
    for command in own:
        if command.program == "git" and git_subcommand(command.words)[0] not in ("push", "add", "status", "stash", "rebase", "pull"):
            return False
    return not any(command.program in _QUOTING and command.operator != "|" for command in own)


def _take_line(lines: list[re.Match[str]], subject: str, sub: str) -> re.Match[str] | None:
    """The output line of a commit: with the same subject, else the next one."""
    if not lines:
        return None
    start = " ".join(subject.split())[:30]
    for index, line in enumerate(lines):
        if start and line["subject"].startswith(start):
            return lines.pop(index)
    if sub in ("cherry-pick", "revert", "rebase", "am"):
        return None  # several lines; all of them are taken at the end
    return lines.pop(0) if not subject or len(lines) == 1 else None


def _from_line(call: ToolCall, line: re.Match[str], message: str, *, amends: bool) -> CommitMade:
    return _make_commit(call, line["subject"], line["sha"], message, amends=amends)


def _make_commit(call: ToolCall, subject: str, sha: str, message: str, *, amends: bool) -> CommitMade:
    return CommitMade(
        step=call.step,
        source=call.source,
        subject=subject.strip()[:MAX_SUBJECT],
        sha=sha,
        message=(message or subject)[:MAX_MESSAGE],
        amends=amends,
    )


def _find_file_text(path: str, commands: Sequence[SimpleCommand]) -> str:
    """The text that the same script wrote into a file with a here-document."""
    return next((each.body for each in reversed(commands) if each.body and path in each.writes), "")


def _read_message(command: SimpleCommand, commands: Sequence[SimpleCommand]) -> tuple[str, bool]:
    """The message of a commit from -m, -F and here-documents; whether it amends the last commit."""
    parts: list[str] = []
    words = command.words
    amends = "--amend" in words or (command.program == "gt" and words[1:2] in (("modify",), ("m",)))
    index = 1
    while index < len(words):
        word = words[index]
        following = words[index + 1] if index + 1 < len(words) else ""
        if word in ("-m", "--message") or (re.match(r"-[a-zA-Z]{1,6}\Z", word) and word.endswith("m") and word not in ("-m",)):
            parts.append(following)
            index += 1
        elif word.startswith("--message="):
            parts.append(word[10:])
        elif word.startswith("-m") and len(word) > 2 and not word.startswith("--"):
            parts.append(word[2:])
        elif word == "--file" or re.match(r"-[a-zA-Z]{0,4}F\Z", word):
            parts.append(command.body if following in ("-", "/dev/stdin") else _find_file_text(following, commands))
            index += 1
        elif word in ("--fixup", "--squash"):
            parts.append(f"{word[2:]}! {following}")
            index += 1
        elif word.startswith(("--fixup=", "--squash=")):
            parts.append(f"{word[2:].partition('=')[0]}! {word.partition('=')[2]}")
        index += 1
    # PowerShell writes a text of several lines as @'…'@.
    parts = [part[2:].removesuffix("@").strip() if part.startswith("@\n") else part for part in parts]
    return "\n\n".join(part for part in parts if part).strip(), amends


def _merge_subject(command: SimpleCommand) -> str:
    names = [word for word in git_subcommand(command.words)[1] if not word.startswith("-")]
    name = names[0] if names else "branch"
    return (
        f"Merge remote-tracking branch '{name}'" if "/" in name and name.startswith(("origin/", "upstream/")) else f"Merge branch '{name}'"
    )


def _only_tries(command: SimpleCommand) -> bool:
    return "--dry-run" in command.words or "--help" in command.words


def _shows_success(command: SimpleCommand, output: Output) -> bool:
    if _refused.search(output.text):
        return False
    return (command.proven and output.exit_code == 0) or _files_changed.search(output.text) is not None


def _was_followed_by_push(command: SimpleCommand, commands: Sequence[SimpleCommand], output: Output) -> bool:
    """Whether the push after a quiet commit shows that it succeeded: the push was rejected, or it sent something."""
    if not any(later.program == "git" and "push" in later.words[:4] for later in commands[list(commands).index(command) + 1 :]):
        return False
    if command.proven and ("[rejected]" in output.text or "error: failed to push" in output.text):
        return True
    sent = any(line["range"] and line["flag"] != "!" for line in islice(_push_line.finditer(output.text), 50))
    return sent and _refused.search(output.text) is None


_stack_tools = re.compile(r"\b(?:gt|gh stack) ")


def read_pushes(call: ToolCall, commands: Sequence[SimpleCommand], output: Output) -> tuple[PushMade, ...]:
    """One push per push command that succeeded; without one, a push that a script or another tool made and its output shows."""
    if (
        "push" not in call.command
        and not _stack_tools.search(call.command)
        and "To " not in output.text
        and "Pushed branch " not in output.text
    ):
        return ()
    # A trial repository is pushed to a folder; what reaches a server is delivered, wherever it was cloned.
    reached_server = "To " in output.text and _server.search(output.text) is not None
    made = (_read_push(call, each, output) for each in commands if _is_push(each, call.cwd, reached_server=reached_server))
    pushes = [push for push in made if push is not None]
    if not pushes:
        pushes = _read_push_of_script(call, commands, output) or _read_push_of_tool(call, commands, output)
    return tuple(push for push in pushes[:20] if not push.branch.startswith("refs/notes"))  # notes deliver no commit


def _read_push(call: ToolCall, command: SimpleCommand, output: Output) -> PushMade | None:
    """The push of a push command; `None` if neither the output nor the exit code shows that it succeeded."""
    lines = [
        line
        for line in islice(_push_line.finditer(output.text), 50)
        if line["flag"] != "!" and not line["remote"].startswith(("FETCH_HEAD", "origin/", "upstream/"))  # those are fetched
    ]
    has_succeeded = command.proven and output.exit_code == 0 and not _not_pushed.search(output.text)
    arguments = git_subcommand(command.words)[1] if command.program == "git" else command.words[1:]
    tracking = _tracking.search(output.text) if {"-u", "--set-upstream"} & set(arguments) else None
    if not lines and not has_succeeded and tracking is None:
        return None
    forced = any(word in ("-f", "--force") or word.startswith(("--force-with-lease", "+")) for word in arguments)
    forced = forced or any(line["flag"] == "+" for line in lines)
    branch = ""
    if lines:
        branch = lines[-1]["remote"]
    elif tracking is not None:
        branch = tracking["branch"]
    elif command.program == "git":
        branch = _pushed_ref(arguments)
    known = not lines and "Everything up-to-date" in output.text
    return PushMade(step=call.step, source=call.source, branch=branch[:200], forced=forced, known=known)


def _read_push_of_script(call: ToolCall, commands: Sequence[SimpleCommand], output: Output) -> list[PushMade]:
    """The push of a script, an alias or another tool: git's own lines in the output show it."""
    if "\nTo " not in f"\n{output.text}" or any(_is_read_by_us(command) for command in commands):
        return []
    if any(is_scratch(command.directory, call.cwd) for command in commands):
        return []
    if any(command.program in _QUOTING and command.operator != "|" for command in commands):
        return []
    lines = (line for line in islice(_push_line.finditer(output.text), 50) if line["flag"] != "!")
    return [
        PushMade(step=call.step, source=call.source, branch=line["remote"][:200], forced=line["flag"] == "+") for line in islice(lines, 1)
    ]


_TELLING = frozenset(("push", "log", "show", "diff", "grep", "blame", "cat-file", "format-patch", "fetch", "pull"))


def _is_read_by_us(command: SimpleCommand) -> bool:
    """Whether a git command pushes by itself, or prints text in which the lines of a push can be quoted."""
    return command.program == "git" and git_subcommand(command.words)[0] in _TELLING


def _read_push_of_tool(call: ToolCall, commands: Sequence[SimpleCommand], output: Output) -> list[PushMade]:
    """The push of a tool that reports it in words of its own."""
    if call.state != "ok" or all(command.program in _SHOWING for command in commands):
        return []
    reported = _reported_push.search(output.text)
    return [] if reported is None else [PushMade(step=call.step, source=call.source, branch=reported[1])]


_reported_push = re.compile(r"^Pushed branch [\"'`]?([\w./-]{1,200})[\"'`]? to \S+$", re.M)
# Commands that show text: a line in their output is quoted.
_SHOWING = frozenset(("cat", "head", "tail", "grep", "rg", "sed", "awk", "echo", "printf", "cd", "ls", "git", "gh", "jq", "less"))
_server = re.compile(r"^To (?:https?://|ssh://|git@)\S", re.M)


def _is_push(command: SimpleCommand, cwd: str, *, reached_server: bool) -> bool:
    words = command.words
    if command.background or not words:
        return False
    if command.program == "git":
        sub, arguments, folder = git_subcommand(words)
        if sub == "subtree":
            sub = arguments[0] if arguments else ""
        if sub != "push" or (not reached_server and is_scratch(folder or command.directory, cwd)):
            return False
        if {"--dry-run", "-n", "--delete", "-d", "--help"} & set(arguments):
            return False
        names = [word for word in arguments if not word.startswith("-")]
        return not any(name.startswith(":") for name in names[1:])
    if is_scratch(command.directory, cwd):
        return False
    second = words[1] if len(words) > 1 else ""
    if command.program == "jj":
        return words[1:3] == ("git", "push") and "--dry-run" not in words
    if command.program == "gt":
        return second in ("submit", "s", "ss", "push") or words[1:3] == ("stack", "submit")
    if command.program == "gh":
        return words[1:3] in (("stack", "submit"), ("stack", "push")) or (words[1:3] == ("repo", "create") and "--push" in words)
    return command.program in ("hg", "sl") and second == "push"


def _pushed_ref(arguments: Sequence[str]) -> str:
    names = [word for word in arguments if not word.startswith("-")]
    return names[1].lstrip("+").rpartition(":")[2] if len(names) > 1 else ""


_OPENING = {
    "gh": ("pr", "create"),
    "glab": ("mr", "create"),
    "tea": ("pr", "create"),
    "az": ("repos", "pr", "create"),
    "bkt": ("pr", "create"),
}


def read_pull_requests(call: ToolCall, commands: Sequence[SimpleCommand], output: Output) -> tuple[PullRequestOpened, ...]:
    """Pull requests that a command opened; the forge's program prints the address."""
    opened: list[PullRequestOpened] = []
    urls = list(islice(_pull_url.finditer(output.text), 20)) if "http" in output.text else []
    for command in commands:
        if not _opens_pull_request(command) or {"--dry-run", "--help", "--web"} & set(command.words):
            continue
        if "already exists" in output.text and not (command.proven and output.exit_code == 0):
            continue
        url = urls.pop(0) if urls else None
        if url is None and not (command.proven and output.exit_code == 0 and command.program != "gt"):
            continue
        if command.proven and output.exit_code not in (0, None) and not any(later.proven for later in commands if later is not command):
            continue
        opened.append(
            PullRequestOpened(
                step=call.step,
                source=call.source,
                url=url[0] if url else "",
                number=url["number"] if url else "",
                title=(_option_value(command, "--title", "-t", "--message", "-m") or "")[:MAX_SUBJECT],
                body=(_option_value(command, "--body", "-b", "--description", "-d") or (command.body if "-" in command.words else ""))[
                    :MAX_MESSAGE
                ],
            )
        )
    return tuple(opened)


def _opens_pull_request(command: SimpleCommand) -> bool:
    words = command.words
    verbs = _OPENING.get(command.program)
    if verbs is not None:
        if tuple(words[1 : 1 + len(verbs)]) == verbs or (command.program == "glab" and words[1:3] == ("mr", "new")):
            return True
        if command.program == "gh" and words[1:3] == ("pr", "new"):
            return True
        if command.program == "gh" and words[1:2] == ("api",):
            return any(re.match(r"/?repos/[^/]+/[^/]+/pulls\Z", word) for word in words) and any(
                word.startswith("title=") for word in words
            )
        return False
    if command.program == "hub":
        return words[1:2] == ("pull-request",)
    return command.program == "gt" and words[1:2] in (("submit",), ("s",), ("ss",))


def _option_value(command: SimpleCommand, *names: str) -> str | None:
    for index, word in enumerate(command.words):
        if word in names and index + 1 < len(command.words):
            return command.words[index + 1]
        head, equals, value = word.partition("=")
        if equals and head in names and head.startswith("--"):
            return value
    return None


_json_title = re.compile(r'"title"\s{0,4}:\s{0,4}"((?:[^"\\]|\\.){1,300})"')


def read_forge_tool(call: ToolCall, output: Output) -> tuple[PullRequestOpened, ...]:
    """Pull requests that were opened with a forge's own tool (MCP), not with a command."""
    name = call.tool.rpartition("__")[2].lower().replace("-", "_")
    if name not in ("create_pull_request", "create_merge_request", "open_pull_request", "createpullrequest") or call.state != "ok":
        return ()
    url = next((found for found in _pull_url.finditer(output.text) if "api." not in found[0]), None) or _pull_url.search(output.text)
    title = _json_title.search(output.text)
    if url is None and not output.text.strip():
        return ()
    return (
        PullRequestOpened(
            step=call.step,
            source=call.source,
            url=url[0] if url else "",
            number=url["number"] if url else "",
            title=title[1] if title else "",
        ),
    )
