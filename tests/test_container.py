"""The container: its files say what docs/container.md promises, its start script serves, and it builds where a builder is."""

from __future__ import annotations

import os
import re
import shutil
import stat
import subprocess
import sys
from pathlib import Path
from typing import Any
from urllib.error import HTTPError
from urllib.request import Request, urlopen

import pytest
import yaml

from fleetlore.log.connect import resolve_url
from tests.patience import PATIENCE

ROOT = Path(__file__).parent.parent
DOCKERFILE = (ROOT / "container" / "Dockerfile").read_text()
COMPOSE: dict[str, Any] = yaml.safe_load((ROOT / "container" / "compose.yaml").read_text())


def instructions() -> list[tuple[str, str]]:
    """The instructions of the Dockerfile, continued lines joined."""
    joined = re.sub(r"\\\n\s*", "", DOCKERFILE)
    lines = [line for line in joined.splitlines() if line and not line.startswith("#")]
    return [(word, rest.strip()) for word, _, rest in (line.partition(" ") for line in lines)]


def final_stage() -> list[tuple[str, str]]:
    found = instructions()
    last = max(number for number, (word, _) in enumerate(found) if word == "FROM")
    return found[last:]


def test_the_image_is_small_and_runs_without_rights() -> None:
    stage = dict(final_stage())
    assert stage["FROM"] == "python:3.12-slim"
    assert stage["USER"] == "10001:10001"
    assert not any("gcc" in rest or "npm" in rest for _, rest in final_stage())
    words = [word for word, _ in final_stage()]
    assert words.index("USER") < words.index("ENTRYPOINT")
    assert {"HEALTHCHECK", "VOLUME", "EXPOSE"} <= set(words)


def test_everything_that_is_copied_exists_and_is_not_ignored() -> None:
    kept = [line[1:] for line in (ROOT / ".dockerignore").read_text().splitlines() if line.startswith("!")]
    for word, rest in instructions():
        if word == "COPY" and not rest.startswith("--from"):
            *sources, _ = [part for part in rest.split() if not part.startswith("--")]
            for source in sources:
                assert (ROOT / source).exists(), source
                assert any(source == one or source.startswith(f"{one}/") for one in kept), source


def test_extras_of_the_image_are_those_of_the_project() -> None:
    import tomllib

    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    for found in re.findall(r"\[([a-z,]+)\]\"", DOCKERFILE):
        assert set(found.split(",")) <= extras.keys()


@pytest.mark.parametrize(("profile", "server"), [("nats", "nats"), ("redis", "redis")])
def test_the_compose_file_has_a_log_server_and_its_control_room(profile: str, server: str) -> None:
    services = {name: service for name, service in COMPOSE["services"].items() if service["profiles"] == [profile]}
    assert set(services) == {f"lore-{profile}", server}
    lore = services[f"lore-{profile}"]
    assert lore["depends_on"][server]["condition"] == "service_healthy"
    assert services[server]["healthcheck"]["test"][0] == "CMD"
    assert "ports" not in services[server], "the log server is not published"
    assert all(port.startswith("127.0.0.1:") for port in lore["ports"])
    scheme, place, *_ = resolve_url(lore["environment"]["FLEETLORE_LOG"], None)
    assert (scheme, server in place) == (profile, True)
    volumes = {volume.partition(":")[0] for service in services.values() for volume in service["volumes"]}
    assert volumes <= COMPOSE["volumes"].keys()
    assert lore["build"]["dockerfile"] == "container/Dockerfile"
    assert lore["read_only"] is True


def test_no_file_names_a_host_of_images_or_packages() -> None:
    for image in re.findall(r"(?:FROM|image:)\s+(\S+)", DOCKERFILE + (ROOT / "container" / "compose.yaml").read_text()):
        assert "." not in image.partition("/")[0] or "/" not in image


def health_command() -> str:
    health = next(rest for word, rest in final_stage() if word == "HEALTHCHECK")
    code = re.search(r'"-c", "(.*)"\]', health)
    assert code is not None
    return code[1].replace('\\"', '"')


def test_the_start_script_serves_with_a_token_and_the_health_check_passes(tmp_path: Path) -> None:
    bin = Path(sys.executable).parent
    environ = {
        **{name: value for name, value in os.environ.items() if not name.startswith("FLEETLORE_")},
        "PATH": f"{bin}{os.pathsep}{os.environ['PATH']}",
        "HOME": str(tmp_path),
        "XDG_DATA_HOME": str(tmp_path / "data"),
        "XDG_CACHE_HOME": str(tmp_path / "cache"),
        "FLEETLORE_LOG": f"sqlite:{tmp_path}/fleet.db",
        "FLEETLORE_ALLOW_HOST": "lore.example.org",
        "PORT": "0",
    }
    (tmp_path / "data").mkdir()
    process = subprocess.Popen(
        ["/bin/sh", ROOT / "container" / "start.sh"], env=environ, cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    )
    try:
        assert process.stdout is not None
        shown = ""
        while (found := re.search(r"http://[^\s:]+:(\d+)", shown)) is None:
            line = process.stdout.readline()
            assert line, shown
            shown += line
        port = found[1]
        file = tmp_path / "data" / "first.token"
        token = file.read_text().strip()
        assert stat.S_IMODE(file.stat().st_mode) == 0o600
        assert token.startswith("lore_")
        assert token not in shown
        subprocess.run([sys.executable, "-c", health_command()], env=environ | {"PORT": port}, check=True, timeout=PATIENCE)
        meta = Request(f"http://127.0.0.1:{port}/api/meta", headers={"Authorization": f"Bearer {token}", "Host": "lore.example.org"})
        with urlopen(meta) as answer:
            assert answer.status == 200
        with pytest.raises(HTTPError):
            urlopen(Request(f"http://127.0.0.1:{port}/api/events", data=b"{}", headers={"Content-Type": "application/json"}))
    finally:
        process.terminate()
        process.communicate(timeout=PATIENCE)


def find_builder() -> str | None:
    """A builder whose service answers and has the images to build from; tests reach no network."""
    for name in ("docker", "podman"):
        program = shutil.which(name)
        if program is None or os.environ.get("FLEETLORE_BUILD_IMAGE") != "1":
            continue
        if subprocess.run([program, "info"], capture_output=True, check=False).returncode == 0:
            return program
    return None


@pytest.mark.slow
def test_the_image_builds_and_answers() -> None:
    builder = find_builder()
    if builder is None:
        pytest.skip("no builder here, or FLEETLORE_BUILD_IMAGE=1 is not set: building needs the network")
    subprocess.run([builder, "build", "-f", "container/Dockerfile", "-t", "fleetlore-test", "."], cwd=ROOT, check=True)
    out = subprocess.run([builder, "run", "--rm", "--entrypoint", "lore", "fleetlore-test", "--version"], check=True, capture_output=True)
    assert out.stdout.strip()
