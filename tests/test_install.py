"""What a stranger gets: a wheel, installed into an empty environment on a machine without Node, and all of it works."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tarfile
import tomllib
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.request import Request, urlopen

import pytest

from fleetlore import __version__
from fleetlore.cli import doctor
from fleetlore.redact import secret_word_search
from fleetlore.server import pages
from tests.patience import PATIENCE

ROOT = Path(__file__).parents[1]
compiled = secret_word_search() is not None
UV = Path(sys.executable).parent / "uv"
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
NEEDS = (
    (("--log", "redis://127.0.0.1:6379", "events"), "redis"),
    (("--log", "nats://127.0.0.1:4222", "events"), "nats"),
    (("stage", "run", "night-train", "--mind", "openai:x"), "openai"),
    (("stage", "run", "night-train", "--mind", "anthropic:x"), "anthropic"),
    (("mcp",), "mcp"),
)
"""What cannot be done by a bare installation, and the extra that has to be named."""


class Machine:
    """A folder with a new environment in it, a home, and a path on which there are git and a shell, neither Node nor a compiler."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        programs = folder / "programs"
        programs.mkdir()
        for name in ("git", "sh"):
            if found := shutil.which(name):
                (programs / name).symlink_to(found)
        self.path = f"{folder / 'venv/bin'}:{programs}"

    def install(self, what: str) -> None:
        """Into an empty environment; packages come from wherever this machine gets them."""
        self._uv("venv", "--python", sys.executable, str(self.folder / "venv"))
        self._uv("pip", "install", "--python", self._python, what)

    def resolve(self, what: str) -> None:
        """See whether all that it wants can be had together."""
        self._uv("pip", "install", "--dry-run", "--python", self._python, what)

    def build(self, source: Path) -> Path:
        """A source archive of a folder, and a wheel of the archive; answers where they are."""
        self._uv("build", "--python", sys.executable, "--out-dir", str(self.folder / "dist"), str(source))
        return self.folder / "dist"

    def build_compiled(self, source: Path) -> Path:
        """A wheel of a folder, made where there is a compiler."""
        self._uv(
            "build", "--wheel", "--python", sys.executable, "--out-dir", str(self.folder / "dist"), str(source), path=os.environ["PATH"]
        )
        [wheel] = (self.folder / "dist").glob("*.whl")
        return wheel

    def _uv(self, *argv: str, path: str | None = None) -> None:
        environment = os.environ | {"PATH": path or self.path}
        done = subprocess.run([UV, *argv, "--quiet"], env=environment, cwd=self.folder, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr

    def environment(self) -> dict[str, str]:
        home = self.folder / "home"
        home.mkdir(exist_ok=True)
        return {"PATH": self.path, "HOME": str(home), "LANG": "C.UTF-8"}

    def lore(self, *argv: str) -> str:
        done = self._run(*argv)
        assert done.returncode == 0, (argv, done.stdout, done.stderr)
        return done.stdout

    def refusal(self, *argv: str) -> str:
        done = self._run(*argv)
        assert done.returncode == 1, (argv, done.stdout, done.stderr)
        return done.stderr

    def _run(self, *argv: str) -> subprocess.CompletedProcess[str]:
        environment = self.environment() | {"OPENAI_API_KEY": "none", "ANTHROPIC_API_KEY": "none"}
        return subprocess.run([self._lore, *argv], env=environment, cwd=self.folder, capture_output=True, text=True, timeout=PATIENCE)

    @property
    def _lore(self) -> str:
        return str(self.folder / "venv/bin/lore")

    @property
    def _python(self) -> str:
        return str(self.folder / "venv/bin/python")

    @contextmanager
    def up(self, *argv: str) -> Iterator[tuple[str, list[str]]]:
        """`lore up` at any free port: its address, and what else it said."""
        process = subprocess.Popen(
            [self._lore, "up", "--port", "0", *argv], env=self.environment(), cwd=self.folder, stdout=subprocess.PIPE, text=True
        )
        try:
            assert process.stdout is not None
            said: list[str] = []
            for line in process.stdout:
                said.append(line)
                if line.startswith("Ctrl-C"):
                    break
            found = re.search(r"http://\S+?/", said[0])
            assert found is not None, said
            yield found[0], said
        finally:
            process.send_signal(signal.SIGINT)
            process.communicate(timeout=PATIENCE)
        assert process.returncode == 0


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    if not UV.exists():
        pytest.skip("this copy was not installed with make, which brings uv")
    assert shutil.which("node", path=str(tmp_path)) is None
    return Machine(tmp_path)


def get(url: str, said: list[str] | None = None) -> str:
    """What is there; with the token from the file that `lore up` named, if what it said is given."""
    found = re.search(r" is in (\S+)", "".join(said or ()))
    headers = {"authorization": f"Bearer {Path(found[1]).read_text().strip()}"} if found else {}
    with urlopen(Request(url, headers=headers), timeout=PATIENCE) as answer:
        return str(answer.read().decode())


@pytest.mark.slow
@pytest.mark.timeout(900)  # packages may have to be fetched
@pytest.mark.skipif(not pages.are_built(), reason="the pages are not built; `make test` builds them first")
def test_the_wheel_has_everything_and_works_without_node(machine: Machine) -> None:
    """It is made of the source archive, which therefore has everything as well."""
    dist = machine.build(ROOT)
    [wheel], [archive] = dist.glob("*.whl"), dist.glob("*.tar.gz")
    check_wheel(wheel)
    check_archive(archive)
    machine.install(str(wheel))
    assert machine.lore("--version") == f"lore {__version__}\n"
    assert "every day" in machine.lore("--help")
    machine.lore("demo", "--no-serve", "--speed", "0", "--log", "sqlite:demo.db")
    assert "pages        inside" in (well := machine.lore("doctor", "--log", "sqlite:demo.db"))
    assert "compiled     nothing" in well
    assert "wh-1" in machine.lore("tell", "--all", "--log", "sqlite:demo.db")
    assert "ada" in machine.lore("status", "--log", "sqlite:demo.db")
    with machine.up("--log", "sqlite:demo.db") as (address, said):
        page = get(address)
        assets = re.findall(r'(?:src|href)="/?(assets/[^"]+)"', page)
        assert "Fleetlore" in page
        assert len(assets) >= 2
        assert all(get(address + asset) for asset in assets)
        assert '"ada"' in get(f"{address}api/fleet", said)


@pytest.mark.slow
@pytest.mark.timeout(900)  # packages may have to be fetched
@pytest.mark.skipif(not compiled, reason="this copy was installed without a compiler")
def test_where_there_is_a_compiler_the_wheel_brings_its_part_along(machine: Machine) -> None:
    wheel = machine.build_compiled(checkout(machine.folder / "source"))
    assert not wheel.name.endswith("-none-any.whl")
    with zipfile.ZipFile(wheel) as opened:
        assert [name for name in opened.namelist() if re.fullmatch(r"fleetlore/_quick\..+\.so", name)]
    machine.install(str(wheel))
    assert "compiled     what is done for every event" in machine.lore("doctor")


def check_wheel(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as opened:
        names = opened.namelist()
        described = opened.read(f"fleetlore-{__version__}.dist-info/METADATA").decode()
    tops = {name.partition("/")[0] for name in names}
    assert tops == {"fleetlore", f"fleetlore-{__version__}.dist-info"}
    assert {"fleetlore/py.typed", "fleetlore/server/static/index.html", f"fleetlore-{__version__}.dist-info/licenses/LICENSE"} <= set(names)
    assert [name for name in names if re.search(r"__pycache__|\.pyc$|\.db\b|/tests?/|node_modules|\.map$", name)] == []
    assert set(re.findall(r"^Provides-Extra: (.+)$", described, re.MULTILINE)) == set(PROJECT["optional-dependencies"])


def check_archive(archive: Path) -> None:
    with tarfile.open(archive) as opened:
        names = {name.partition("/")[2] for name in opened.getnames()}
    tops = {name.partition("/")[0] for name in names}
    wanted = {"src", "tests", "docs", "examples", "README.md", "CHANGELOG.md", "ARCHITECTURE.md", "LICENSE", "pyproject.toml"}
    assert tops == wanted | {"hatch_build.py", "PKG-INFO", ".gitignore"}
    assert not any("__pycache__" in name for name in names)


def checkout(folder: Path) -> Path:
    """What git has of this project, without pages or anything else that was made."""
    wanted = ("src", "pyproject.toml", "hatch_build.py", "README.md", "LICENSE")
    listed = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard", *wanted],
        cwd=ROOT, check=True, capture_output=True, text=True,
    )  # fmt: skip
    for name in filter(None, listed.stdout.split("\0")):
        if (ROOT / name).exists():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(ROOT / name, folder / name)
    return folder


@pytest.mark.slow
@pytest.mark.timeout(900)  # packages may have to be fetched
def test_a_checkout_without_pages_installs_and_says_what_is_missing(machine: Machine) -> None:
    source = checkout(machine.folder / "source")
    machine.install(str(source))
    machine.resolve(f"{source}[all]")
    assert "pages        not built" in machine.lore("doctor")
    assert not any(json.loads(machine.lore("doctor", "--json"))["extras"].values())
    assert {extra for argv, extra in NEEDS if f"pip install 'fleetlore[{extra}]'" not in machine.refusal(*argv)} == set()
    machine.lore("emit", "fleet.idle", "--agent", "ada")
    with machine.up() as (address, said):
        assert "not built, so only the API is served" in "".join(said)
        assert "make web" in get(address)
        assert '"ada"' in get(f"{address}api/fleet", said)


# --- extras


def hints() -> dict[str, set[str]]:
    """The extras that some text tells people to install → the files that say so."""
    found: dict[str, set[str]] = {}
    for path in [ROOT / "README.md", *(ROOT / "docs").rglob("*.md"), *(ROOT / "src").rglob("*.py")]:
        for names in re.findall(r"pip install '?[\w.]*\[([^\]]+)\]", path.read_text(encoding="utf-8")):
            for name in names.split(","):
                found.setdefault(name.strip(), set()).add(path.name)
    return found


def test_every_hint_to_install_an_extra_names_one_that_exists() -> None:
    recorded = hints()
    assert recorded.pop("{name}") == {"connect.py", "open.py"}  # those are tried out above
    recorded.pop("NAME")
    assert {"redis", "nats", "otlp", "mcp", "sql", "embeddings"} <= recorded.keys()
    assert recorded.keys() <= PROJECT["optional-dependencies"].keys()


def test_all_is_every_extra_but_the_large_one() -> None:
    gathered = PROJECT["optional-dependencies"]
    [names] = re.findall(r"fleetlore\[(.+)\]", gathered["all"][0])
    assert set(names.split(",")) == gathered.keys() - {"all", "embeddings", "openai", "anthropic"}
    assert gathered["models"] == ["fleetlore[openai,anthropic]"]


def test_the_doctor_knows_which_extras_are_here() -> None:
    here = doctor.find_installed_extras()
    assert here["redis"] is True
    assert set(here) == PROJECT["optional-dependencies"].keys() - {"all", "models"}


def test_the_changelog_mentions_this_version() -> None:
    number, _, is_development = __version__.partition(".0.dev")
    heading = rf"{re.escape(number)} \(unreleased\)" if is_development else rf"{re.escape(__version__)} \(\d{{4}}-\d\d-\d\d\)"
    assert re.search(rf"^## {heading}$", (ROOT / "CHANGELOG.md").read_text(), re.MULTILINE)
