"""Random histories of real git repositories in which the author of every line is known.

Two agents and a person change files in the main work tree and in two others, and use git as people do. Every line carries the
name of the call that wrote it, `hand`, or `before` (before the recording).
"""

from __future__ import annotations

import json
import os
import random
import subprocess
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, NamedTuple

from fleetlore import Event

START = datetime(2026, 11, 10, 9, 0, tzinfo=UTC)
WORDS = tuple(
    f"{first}{last}" for first in ("order", "parcel", "token", "queue", "route") for last in ("", "s", "_id", "_list", "_by_name")
)
SMALL = ("", "", "}", "else:", "return None", "pass", ")", "try:")
SECTIONS = 4
AGENTS = ("claude-code/ada", "codex/bob")


class Line(NamedTuple):
    text: str
    author: str


File = list[list[Line]]
"""Its sections: branches that are merged changed different ones, as long as nobody made a conflict."""
Files = dict[str, File]


def text_of(file: File) -> str:
    return "".join(f"{line.text}\n" for section in file for line in section)


def copy_files(files: Files) -> Files:
    return {path: [list(section) for section in file] for path, file in files.items()}


class Tree:
    """A work tree with its branch, and what its files are known to hold."""

    def __init__(self, root: Path, branch: str, files: Files) -> None:
        self.root, self.branch, self.files = root, branch, files
        self.committed = copy_files(files)


class FileHistory:
    """One repository, changed at random, and the events that a recording of it has."""

    def __init__(self, seed: int, folder: Path, steps: int = 40) -> None:
        self.random, self.now, self.folder = random.Random(seed), START, folder
        self.events: list[Event] = []
        self._calls = 0
        (folder / "shop").mkdir(parents=True)
        self.main = Tree(folder / "shop", "main", {})
        self._git("init", "-q", "-b", "main")
        for name in ("retry.py", "store.py", "notes.ipynb"):
            self.main.files[name] = [self._make_lines(self.random.randint(3, 12), "before", name) for _ in range(SECTIONS)]
            self._put(self.main, name)
        self._commit(self.main)
        self.side: Tree | None = None
        self.base: Files = {}
        for agent in AGENTS:
            self._record("session.started", agent, data={"cwd": str(self.main.root), "project": "shop", "program": agent.partition("/")[0]})
            self._record("prompt.submitted", agent, text="Work", data={"prompt": "Work on it"})
        choices: dict[Callable[[], None], float] = {
            self._edit: 8,
            self._write_whole: 2,
            self._edit_notebook: 2,
            self._append_by_shell: 1,
            self._replace_by_shell: 1,
            self._change_by_script: 0.1,
            self._type_in: 4,
            self._format: 1,
            self._move_lines: 1,
            self._rename: 1,
            self._commit_all: 5,
            self._commit_part: 2,
            self._amend: 1,
            self._branch_off: 2,
            self._bring_back: 2,
        }
        for _ in range(steps):
            self.random.choices(list(choices), list(choices.values()))[0]()
        if self.side is not None:
            self._bring_back()

    # --- who changes what

    def _tree(self) -> Tree:
        return self.side if self.side is not None and self.random.random() < 0.5 else self.main

    def _choose(self, tree: Tree, notebook: bool = False) -> tuple[str, int]:
        """A file and a section; while there are two branches each has its own half, so that most merges are clean."""
        path = self.random.choice([path for path in tree.files if path.endswith(".ipynb") == notebook])
        half = range(SECTIONS // 2) if tree is self.main else range(SECTIONS // 2, SECTIONS)
        is_free = self.side is None or self.random.random() < 0.05
        return path, self.random.randrange(SECTIONS) if is_free else self.random.choice(half)

    def _make_lines(self, count: int, author: str, path: str, avoid: frozenset[str] = frozenset()) -> list[Line]:
        made = [Line(self._make_text(path), author) for _ in range(count)]
        return [line for line in made if line.text not in avoid]

    def _make_text(self, path: str) -> str:
        pick, number = self.random.choice, self.random.randint(0, 9999)
        if path.endswith(".ipynb"):
            return json.dumps(f"{pick(WORDS)}_{pick(WORDS)} = {pick(WORDS)}('{pick(WORDS)}', {number})\n") + ","
        indent = "    " * self.random.randint(0, 2)
        if self.random.random() < 0.15:
            return indent + pick(SMALL)
        return f"{indent}{pick(WORDS)}_{pick(WORDS)} = {pick(WORDS)}('{pick(WORDS)}', {number})"

    def _change(self, tree: Tree, path: str, place: int, author: str) -> tuple[list[str], list[str]]:
        """Replace some lines of a section; returns the lines around and the new ones, as an edit names them."""
        section = tree.files[path][place]
        first = self.random.randrange(len(section) + 1)
        last = min(len(section), first + self.random.randint(0, 4))
        gone = frozenset(line.text for line in section[max(0, first - 1) : last + 1])
        new = self._make_lines(self.random.randint(0 if last > first else 1, 6), author, path, gone)
        before, after = section[max(0, first - 1) : first], section[last : last + 1]
        old = [line.text for line in (*before, *section[first:last], *after)]
        section[first:last] = new
        return old, [line.text for line in (*before, *new, *after)]

    def _edit(self) -> None:
        """An agent edits: a replacement, several in one call, or a patch."""
        tree, agent = self._tree(), self.random.choice(AGENTS)
        path, place = self._choose(tree)
        call = self._next_call()
        edits, was = [], text_of(tree.files[path])
        for _ in range(self.random.choice((1, 1, 1, 2))):
            before = text_of(tree.files[path])
            old, new = ("".join(f"{line}\n" for line in lines) for lines in self._change(tree, path, place, call))
            if not old or before.count(old) != 1:
                self._read(tree, path, AGENTS[0], was)
                self._call(call, tree, path, AGENTS[0], "Write", file_path=str(tree.root / path), content=text_of(tree.files[path]))
                return
            edits.append({"old_string": old, "new_string": new})
        name = str(tree.root / path)
        if agent == AGENTS[1]:
            hunks = [f"@@\n{mark('-', each['old_string'])}\n{mark('+', each['new_string'])}" for each in edits]
            patch = "\n".join(("*** Begin Patch", f"*** Update File: {name}", *hunks, "*** End Patch"))
            self._call(call, tree, path, agent, "apply_patch", input=patch)
        elif len(edits) > 1:
            self._call(call, tree, path, agent, "MultiEdit", file_path=name, edits=edits)
        else:
            self._read(tree, path, agent, was)
            self._call(call, tree, path, agent, "Edit", file_path=name, **edits[0])

    def _write_whole(self) -> None:
        tree, agent, call = self._tree(), AGENTS[0], self._next_call()
        path, place = self._choose(tree)
        self._read(tree, path, agent, text_of(tree.files[path]))
        self._change(tree, path, place, call)
        self._call(call, tree, path, agent, "Write", file_path=str(tree.root / path), content=text_of(tree.files[path]))

    def _edit_notebook(self) -> None:
        tree, call = self._tree(), self._next_call()
        if not any(path.endswith(".ipynb") for path in tree.files):
            return
        path, place = self._choose(tree, notebook=True)
        new = self._make_lines(self.random.randint(1, 4), call, path)
        section = tree.files[path][place]
        at = self.random.randrange(len(section) + 1)
        section[at:at] = new
        source = "".join(json.loads(line.text.rstrip(",")) for line in new)
        fields = {"notebook_path": str(tree.root / path), "cell_id": "c1", "edit_mode": "insert", "new_source": source}
        self._call(call, tree, path, AGENTS[0], "NotebookEdit", **fields)

    def _append_by_shell(self) -> None:
        tree, agent, call = self._tree(), self.random.choice(AGENTS), self._next_call()
        path = self.random.choice([path for path in tree.files if not path.endswith(".ipynb")])
        new = self._make_lines(self.random.randint(1, 4), call, path)
        tree.files[path][-1] += new
        script = f"cat >> {path} <<'END'\n" + "".join(f"{line.text}\n" for line in new) + "END"
        self._call(call, tree, path, agent, "Bash" if agent == AGENTS[0] else "shell", command=f"cd {tree.root} && {script}")

    def _replace_by_shell(self) -> None:
        """`sed -i` with a literal text: its command shows what it wrote."""
        tree, call = self._tree(), self._next_call()
        path, place = self._choose(tree)
        old = self.random.choice([line.text.split()[0] for line in tree.files[path][place] if " = " in line.text] or ["nothing"])
        new = f"renamed_{self.random.randrange(1000)}"
        for section in tree.files[path]:
            section[:] = [Line(line.text.replace(old, new), call) if old in line.text else line for line in section]
        self._call(call, tree, path, AGENTS[0], "Bash", command=f"cd {tree.root} && sed -i 's/{old}/{new}/g' {path}")

    def _change_by_script(self) -> None:
        """A program that writes the file: nothing shows which lines."""
        tree, call = self._tree(), self._next_call()
        path, place = self._choose(tree)
        self._change(tree, path, place, call)
        script = f"python3 - <<'END'\ntext = make()\nopen('{path}', 'w').write(text)\nEND"
        self._call(call, tree, path, AGENTS[0], "Bash", command=f"cd {tree.root} && {script}")

    def _type_in(self) -> None:
        tree = self._tree()
        path, place = self._choose(tree, notebook=self.random.random() < 0.1 and any(path.endswith(".ipynb") for path in tree.files))
        self._change(tree, path, place, "hand")
        self._put(tree, path)

    def _format(self) -> None:
        tree = self._tree()
        path, place = self._choose(tree)
        change: Callable[[Line], Iterator[Line]] = self.random.choice((requote, split_call))
        tree.files[path][place] = [new for line in tree.files[path][place] for new in change(line)]
        self._put(tree, path)

    def _move_lines(self) -> None:
        tree = self._tree()
        path, place = self._choose(tree)
        section = tree.files[path][place]
        first = self.random.randrange(len(section) + 1)
        moved = section[first : first + 4]
        del section[first : first + 4]
        at = self.random.randrange(len(section) + 1)
        section[at:at] = moved
        self._put(tree, path)

    def _rename(self) -> None:
        if self.side is not None:
            return
        path = self.random.choice([path for path in self.main.files if not path.endswith(".ipynb")])
        self._commit(self.main)
        new = f"part{self.random.randrange(1000)}.py"
        if new in self.main.files:
            return
        self._git("mv", path, new)
        self.main.files[new] = self.main.files.pop(path)
        self._commit(self.main)

    # --- git

    def _commit_all(self) -> None:
        self._commit(self._tree())

    def _commit_part(self) -> None:
        """Only one section is staged and committed."""
        tree = self._tree()
        path, place = self._choose(tree)
        if path not in tree.committed or tree.files[path] == tree.committed[path]:
            return
        tree.committed[path][place] = list(tree.files[path][place])
        blob = self._git("hash-object", "-w", "--stdin", tree=tree, stdin=text_of(tree.committed[path])).strip()
        self._git("update-index", "--cacheinfo", f"100644,{blob},{path}", tree=tree)
        self._git("commit", "-q", "--allow-empty", "-m", "part", tree=tree)

    def _amend(self) -> None:
        if self.side is None:
            self._git("commit", "-q", "-a", "--amend", "--allow-empty", "--no-edit")
            self.main.committed = copy_files(self.main.files)

    def _branch_off(self) -> None:
        if self.side is not None:
            return
        self._commit(self.main)
        name = f"topic{self._calls}"
        root = self.folder / name
        self._git("worktree", "add", "-q", "-b", name, str(root))
        self.side, self.base = Tree(root, name, copy_files(self.main.files)), copy_files(self.main.files)

    def _bring_back(self) -> None:
        """Merge, rebase, squash or cherry-pick the branch, and resolve conflicts by hand: with the sections of the branch."""
        side = self.side
        if side is None:
            return
        self._commit(side)
        self._commit(self.main)
        merged = {
            path: [
                list(theirs if theirs != base else ours)
                for ours, theirs, base in zip(self.main.files[path], side.files[path], self.base[path], strict=True)
            ]
            for path in self.main.files
        }
        how = self.random.choice(("merge", "squash", "rebase", "cherry-pick"))
        if how == "rebase":
            self._try("rebase", "-q", "-X", "theirs", "main", tree=side)
            self._git("merge", "-q", "--ff-only", side.branch)
        elif how == "cherry-pick":
            self._try("cherry-pick", "--allow-empty", "--keep-redundant-commits", "-X", "theirs", f"main..{side.branch}")
        elif how == "squash":
            self._try("merge", "-q", "--squash", "-X", "theirs", side.branch)
        else:
            self._try("merge", "-q", "--no-ff", "-X", "theirs", "-m", "merge", side.branch)
        self.main.files = merged
        for path in merged:
            self._put(self.main, path)
        self._commit(self.main)
        self._git("worktree", "remove", "--force", str(side.root))
        self._git("branch", "-q", "-D", side.branch)
        self.side = None

    def _commit(self, tree: Tree) -> None:
        self._git("add", "-A", tree=tree)
        self._git("commit", "-q", "--allow-empty", "-m", "work", tree=tree)
        tree.committed = copy_files(tree.files)

    def _try(self, *arguments: str, tree: Tree | None = None) -> None:
        """A git command that may end in a conflict, which the next commit resolves."""
        try:
            self._git(*arguments, tree=tree)
        except subprocess.CalledProcessError:
            if arguments[0] in ("rebase", "cherry-pick"):
                raise

    def _git(self, *arguments: str, tree: Tree | None = None, stdin: str = "") -> str:
        self.now += timedelta(minutes=1)
        moment = self.now.strftime("%Y-%m-%dT%H:%M:%SZ")
        who = {f"GIT_{role}_{field}": "grace" for role in ("AUTHOR", "COMMITTER") for field in ("NAME", "EMAIL")}
        return subprocess.run(
            ["git", *arguments],
            cwd=(tree or self.main).root,
            env=os.environ | who | {"GIT_AUTHOR_DATE": moment, "GIT_COMMITTER_DATE": moment},
            input=stdin,
            check=True,
            capture_output=True,
            text=True,
        ).stdout

    # --- files and events

    def _put(self, tree: Tree, path: str) -> None:
        self.now += timedelta(minutes=1)
        (tree.root / path).write_text(text_of(tree.files[path]))

    def _next_call(self) -> str:
        self._calls += 1
        return f"00000000-0000-4000-8000-{self._calls:012}"

    def _call(self, call: str, tree: Tree, path: str, agent: str, tool: str, **given: Any) -> None:
        self._put(tree, path)
        self._record("tool.called", agent, id=call, data={"tool": tool, "input": given, "cwd": str(tree.root)})
        self._record("tool.returned", agent, cause=call, data={"tool": tool, "output": "ok"})

    def _read(self, tree: Tree, path: str, agent: str, content: str) -> None:
        if agent != AGENTS[0]:
            return
        call = self._next_call()
        listing = "\n".join(f"{number:6}\t{line}" for number, line in enumerate(content.splitlines(), 1))
        self._record("tool.called", agent, id=call, data={"tool": "Read", "input": {"file_path": str(tree.root / path)}})
        self._record("tool.returned", agent, cause=call, data={"tool": "Read", "output": listing})

    def _record(self, kind: str, agent: str, **fields: Any) -> None:
        self.now += timedelta(seconds=1)
        self.events.append(Event(kind=kind, agent=agent, actor=agent, run=f"run-{agent.rpartition('/')[2]}", at=self.now, **fields))


def mark(sign: str, content: str) -> str:
    return "\n".join(sign + line for line in content.removesuffix("\n").split("\n")) if content else ""


def requote(line: Line) -> Iterator[Line]:
    yield Line(line.text.replace("'", '"').replace("    ", "  "), line.author)


def split_call(line: Line) -> Iterator[Line]:
    """One call becomes several lines, as formatters do with long ones."""
    head, opened, rest = line.text.partition("(")
    if not opened or not rest.endswith(")"):
        yield line
        return
    indent = line.text[: len(line.text) - len(line.text.lstrip())]
    yield Line(f"{head}(", line.author)
    yield Line(f"{indent}    {rest[:-1]},", line.author)
    yield Line(f"{indent})", line.author)
