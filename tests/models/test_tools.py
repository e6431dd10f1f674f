"""The tools of a model: what they do in a workspace, and that no path leads out of it."""

from __future__ import annotations

import asyncio
import os
import shutil
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from itertools import count
from pathlib import Path
from time import monotonic
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from fleetlore.goal.model_tools.commands import ToolPrograms
from fleetlore.goal.model_tools.folder import ConfinedFolder, ToolError
from fleetlore.goal.model_tools.text import ToolResult
from fleetlore.goal.model_tools.tools import MAX_RESULT_CHARS, TOOLS, WorkspaceToolRunner, find_call_error, run_in_thread
from fleetlore.process.tree import Process, end_leftovers
from fleetlore.prompts.text_safety import truncate_middle

SECRET = "the crown jewels"


class Place:
    """A workspace full of links, and files outside it that must not be touched."""

    def __init__(self, base: Path) -> None:
        self.root, self.outside = base / "work", base / "outside"
        (self.root / "src" / "deep").mkdir(parents=True)
        self.outside.mkdir()
        (self.outside / "jewels.txt").write_text(SECRET)
        (self.root / "src" / "a.py").write_text("import os\nprint('one')\n")
        (self.root / "src" / "deep" / "b.txt").write_text("two\n")
        links: dict[str, str | Path] = {
            "out": self.outside,
            "jewels": self.outside / "jewels.txt",
            "up": "..",
            "far": "../../../../../../../../etc",
            "src/back": "../../outside",
            "loop": "loop",
            "inner": "src/deep",
            "src/absolute": self.root / "src" / "a.py",
            "dangling": "src/new.txt",
            "via": "inner/../../out",
        }
        for name, target in links.items():
            (self.root / name).symlink_to(target)
        self.held = os.open(self.outside, os.O_RDONLY)
        (self.root / "fd").symlink_to(f"/proc/self/fd/{self.held}")
        os.mkfifo(self.root / "pipe")

    def is_untouched(self) -> bool:
        """Whether everything outside is unchanged."""
        return sorted(os.listdir(self.outside)) == ["jewels.txt"] and (self.outside / "jewels.txt").read_text() == SECRET


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Place]:
    place = Place(tmp_path)
    yield place
    os.close(place.held)


async def yes(process: Process) -> bool:
    return True


def bench(place: Place, *, search_seconds: float = 10.0, environ: dict[str, str] | None = None) -> WorkspaceToolRunner:
    programs = ToolPrograms(
        str(place.root),
        mark="turn-of-a-test",
        on_start=yes,
        time_left=lambda: 30.0,
        environ=os.environ if environ is None else environ,
        search_seconds=search_seconds,
        grace=0.2,
    )
    return WorkspaceToolRunner(str(place.root), programs)


async def use(place: Place, tool: str, **args: Any) -> ToolResult:
    return await bench(place).call_tool(tool, args)


async def test_a_file_is_read_whole_or_in_part(place: Place) -> None:
    assert (await use(place, "read", path="src/a.py")).text == "import os\nprint('one')\n"
    assert (await use(place, "read", path="src/a.py", **{"from": 2})).text == "print('one')\n\n[lines 2 to 2 of 2; give `from` to go on]"
    assert "only 2 lines" in (await use(place, "read", path="src/a.py", **{"from": 9})).text


async def test_a_long_file_is_cut_and_says_how_to_go_on(place: Place) -> None:
    (place.root / "long.txt").write_text("".join(f"line {number}\n" for number in range(1, 10_001)))
    recorded = await use(place, "read", path="long.txt")
    assert len(recorded.text) <= MAX_RESULT_CHARS
    last = int(recorded.text.split("[lines 1 to ")[1].split()[0])
    assert (await use(place, "read", path="long.txt", **{"from": last + 1})).text.startswith(f"line {last + 1}\n")


async def test_what_is_no_text_is_not_read(place: Place) -> None:
    (place.root / "picture").write_bytes(b"\x89PNG\0\0\1")
    recorded = await use(place, "read", path="picture")
    assert recorded.failed
    assert "no text" in recorded.text


async def test_a_file_is_written_with_its_folders_and_keeps_its_mode(place: Place) -> None:
    recorded = await use(place, "write", path="new/folder/x.sh", content="echo é\n")
    assert recorded.paths == ("new/folder/x.sh",)
    (place.root / "new/folder/x.sh").chmod(0o755)
    await use(place, "write", path=str(place.root / "new/folder/x.sh"), content="echo two\n")
    assert (place.root / "new/folder/x.sh").read_text() == "echo two\n"
    assert (place.root / "new/folder/x.sh").stat().st_mode & 0o777 == 0o755
    assert os.listdir(place.root / "new/folder") == ["x.sh"]


async def test_an_edit_wants_its_piece_exactly_once(place: Place) -> None:
    (place.root / "aaa.txt").write_text("aaa bbb")
    for old, why in (("c", "not in the file"), ("aa", "more than once"), ("b", "more than once"), ("a b", "")):
        recorded = await use(place, "edit", path="aaa.txt", old=old, new="-")
        assert recorded.failed == bool(why)
        assert why in recorded.text
    assert (place.root / "aaa.txt").read_text() == "aa-bb"


async def test_an_edit_leaves_bytes_alone_that_are_no_text(place: Place) -> None:
    (place.root / "latin.txt").write_bytes(b"caf\xe9 one\r\nend\r\n")
    assert not (await use(place, "edit", path="latin.txt", old="one", new="zwö")).failed
    assert (place.root / "latin.txt").read_bytes() == b"caf\xe9 zw\xc3\xb6\r\nend\r\n"
    assert "\\r\\n" in (await use(place, "edit", path="latin.txt", old="zwö\nend", new="")).text


async def test_a_folder_is_listed_and_links_are_not_entered(place: Place) -> None:
    recorded = (await use(place, "list", depth=5)).text.splitlines()
    assert "src/deep/b.txt" in recorded
    assert "out@" in recorded
    assert not any("jewels.txt" in line for line in recorded)


async def test_lines_are_found_by_text_and_by_expression(place: Place) -> None:
    assert (await use(place, "search", text="print('one')")).text == "src/a.py:2: print('one')"
    assert (await use(place, "search", regex=r"^t\w+$", path="src/deep")).text == "src/deep/b.txt:1: two"
    assert (await use(place, "search", text="two", path="inner")).text == "src/deep/b.txt:1: two"
    assert (await use(place, "search", text="two", glob="*.py")).text == "nothing was found"
    assert (await use(place, "search", text=SECRET)).text == "nothing was found"
    assert (await use(place, "search", regex="(")).failed
    assert (
        find_call_error("search", {}) == find_call_error("search", {"text": "a", "regex": "b"}) == "search wants either `text` or `regex`"
    )


async def test_an_expression_without_an_end_is_ended(place: Place) -> None:
    (place.root / "evil.txt").write_text("a" * 60 + "b\n")
    start = monotonic()
    recorded = await bench(place, search_seconds=0.5).call_tool("search", {"regex": "(a+)+$", "path": "evil.txt"})
    assert "no time" in recorded.text
    assert monotonic() - start < 5


async def test_a_command_shows_both_outputs_in_order_and_its_exit_code(place: Place) -> None:
    recorded = await use(place, "shell", command="echo one; echo two >&2; pwd; exit 3")
    assert recorded.text == f"one\ntwo\n{place.root}\n[exit code 3]"
    assert (recorded.failed, recorded.exit_code) == (True, 3)


async def test_a_command_sees_no_keys_and_carries_the_mark(place: Place) -> None:
    environ = {"PATH": os.environ["PATH"], "OPENAI_API_KEY": "k", "ANTHROPIC_API_KEY": "k", "FLEETLORE_LOG": "sqlite:x"}
    recorded = await bench(place, environ=environ).call_tool("shell", {"command": "env"})
    assert "LORE_TURN=turn-of-a-test" in recorded.text
    assert "KEY" not in recorded.text
    assert "FLEETLORE" not in recorded.text


async def test_a_flood_is_reported_by_its_beginning_and_its_end(place: Place) -> None:
    recorded = await use(
        place,
        "shell",
        command="echo first; yes a flood of words that nobody has asked for, and nobody will read | head -c 5000000; echo; echo last",
    )
    assert len(recorded.text) <= MAX_RESULT_CHARS
    assert recorded.text.startswith("first\n")
    assert recorded.text.endswith("last")
    assert "left out" in recorded.text


async def test_a_command_has_an_end_with_everything_that_it_started(place: Place) -> None:
    recorded = await use(place, "shell", command="sh -c 'trap \"\" TERM; sleep 60' & sleep 60", seconds=1)
    assert "ended after 1 s" in recorded.text
    assert recorded.failed


async def test_a_cancelled_command_leaves_nothing(place: Place) -> None:
    started = asyncio.Event()

    async def note(process: Process) -> bool:
        started.set()
        return True

    programs = ToolPrograms(str(place.root), mark="cancelled-turn", on_start=note, time_left=lambda: 60.0, grace=0.2)
    running = asyncio.create_task(programs.run_shell("sleep 60 & sleep 60"))
    await started.wait()
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    assert end_leftovers("cancelled-turn", [], grace=0.1) == 0


HOSTILE = [
    "../outside/jewels.txt",
    "src/../../outside/jewels.txt",
    "/etc/passwd",
    "//etc/passwd",
    "/proc/self/environ",
    "/proc/self/cwd/../outside/jewels.txt",
    "/dev/stdin",
    "out/jewels.txt",
    "jewels",
    "up/outside/jewels.txt",
    "far/passwd",
    "src/back/jewels.txt",
    "via/jewels.txt",
    "fd/jewels.txt",
    "loop",
    "loop/x",
    "pipe",
    ".",
    "",
    "src",
    "src/",
    "src/a.py/",
    "src/a.py/x",
    "nothing",
    "a\0b",
    "x" * 300,
    "x/" * 3000,
    "\udc80\ud800",
]


@pytest.mark.parametrize("path", HOSTILE)
@pytest.mark.parametrize("tool", ["read", "edit"])
async def test_a_hostile_path_is_refused_with_advice(place: Place, tool: str, path: str) -> None:
    args = {"path": path} if tool == "read" else {"path": path, "old": "o", "new": "0"}
    recorded = await use(place, tool, **args)
    assert recorded.failed
    assert recorded.text
    assert SECRET not in recorded.text
    assert place.is_untouched()


@pytest.mark.parametrize("path", [path for path in HOSTILE if path not in ("nothing", "x/" * 3000)])
async def test_nothing_is_written_by_a_hostile_path(place: Place, path: str) -> None:
    assert (await use(place, "write", path=path, content="mine")).failed
    assert place.is_untouched()


async def test_links_within_the_workspace_are_followed(place: Place) -> None:
    assert (await use(place, "read", path="inner/b.txt")).text == "two\n"
    assert (await use(place, "read", path="src/absolute")).text.startswith("import os")
    assert (await use(place, "write", path="dangling", content="there")).paths == ("src/new.txt",)
    assert (place.root / "src/new.txt").read_text() == "there"
    assert (place.root / "dangling").is_symlink()


STEPS = [
    "..",
    ".",
    "",
    "src",
    "out",
    "up",
    "far",
    "back",
    "inner",
    "via",
    "fd",
    "loop",
    "deep",
    "jewels.txt",
    "jewels",
    "a.py",
    "outside",
    "work",
    "new",
]


@settings(max_examples=3 * settings().max_examples // 2, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    steps=st.lists(st.sampled_from(STEPS) | st.text(max_size=3), max_size=8),
    start=st.sampled_from(["", "/", "root", "outside", "/proc/self/cwd", "/proc/self/root"]),
    write=st.booleans(),
)
def test_no_path_leads_out(place: Place, steps: list[str], start: str, write: bool) -> None:
    """Whatever a path is made of, it is in the workspace, or it is refused."""
    before = {"root": f"{place.root}/", "outside": f"{place.outside}/"}.get(start, start)
    path, fence = before + "/".join(steps), ConfinedFolder(str(place.root))
    try:
        if write:
            assert (place.root / fence.write(path, b"mine")).resolve().is_relative_to(place.root)
        else:
            assert SECRET.encode() not in fence.read(path, 1000)[0]
            with fence.open_folder(path) as folder:
                assert "jewels.txt" not in os.listdir(folder)
    except ToolError:
        pass
    assert place.is_untouched()


@contextmanager
def shuffled(what: Path, outside: Path, trash: Path) -> Iterator[None]:
    """For the duration of the block, a path alternates between itself and a link to the outside."""
    stop = threading.Event()
    copy: Callable[[Path, Path], object] = shutil.copytree if what.is_dir() else shutil.copy
    real = trash / "real"
    copy(what, real)

    def shuffle() -> None:
        for number in count():
            if stop.is_set():
                return
            with suppress(OSError, shutil.Error):  # it is in use at this moment
                what.rename(trash / f"{number}-away")
                what.symlink_to(outside)
                what.rename(trash / f"{number}-link")
                copy(real, what)

    shuffler = threading.Thread(target=shuffle)
    shuffler.start()
    try:
        yield
    finally:
        stop.set()
        shuffler.join()


@pytest.mark.parametrize("what", ["shift", "shift/jewels.txt"])
def test_what_becomes_a_link_meanwhile_leads_nowhere(place: Place, what: str, tmp_path_factory: pytest.TempPathFactory) -> None:
    (place.root / "shift").mkdir()
    (place.root / "shift" / "jewels.txt").write_text("glass")
    target = place.outside if what == "shift" else place.outside / "jewels.txt"
    fence, read = ConfinedFolder(str(place.root)), 0
    with shuffled(place.root / what, target, tmp_path_factory.mktemp("trash")):
        for _ in range(1000):
            with suppress(ToolError):
                fence.write("shift/jewels.txt", b"glass")
            with suppress(ToolError):
                assert fence.read("shift/jewels.txt", 100)[0] in (b"glass", b"")
                read += 1
    assert place.is_untouched()
    assert read


async def test_cancelled_work_on_files_is_waited_for() -> None:
    """Nothing is written behind the back of who cancelled it."""
    begun, go_on, written = threading.Event(), threading.Event(), []

    def work() -> None:
        begun.set()
        go_on.wait()
        written.append(1)

    task = asyncio.create_task(run_in_thread(work))
    await asyncio.to_thread(begun.wait)
    try:
        for _ in range(3):
            task.cancel()
            await asyncio.wait((task,), timeout=0.01)
        assert not task.done()
    finally:
        go_on.set()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert written == [1]


@given(st.text(max_size=400), st.integers(40, 200))
def test_what_is_clipped_fits_and_says_so(text: str, most: int) -> None:
    short = truncate_middle(text, most)
    assert len(short) <= most
    assert short == text or "left out" in short


@given(
    st.sampled_from(list(TOOLS)),
    st.dictionaries(st.sampled_from(["path", "content", "old", "regex", "command", "x"]), st.none() | st.integers()),
)
def test_arguments_that_do_not_fit_are_reported(tool: str, args: dict[str, Any]) -> None:
    assert find_call_error(tool, args) or not args
