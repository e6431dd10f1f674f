"""Dependencies are pinned with hashes, the bill of materials is complete and stable, and the same sources give the same wheel."""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
PINNED = re.compile(r"^([A-Za-z0-9_.-]+)==", re.MULTILINE)


@pytest.mark.parametrize("name", ["dev", "bench", "build", "torture", "uv"])
def test_every_requirement_has_a_hash_and_no_address(name: str) -> None:
    text = (ROOT / "requirements" / f"{name}.txt").read_text()
    packages = re.split(r"\n(?=[A-Za-z])", text.strip())
    assert [package.splitlines()[0] for package in packages if PINNED.match(package) and "--hash=sha256:" not in package] == []
    assert "://" not in text
    assert "--index-url" not in text


def test_build_tools_are_pinned_to_the_same_versions() -> None:
    wanted = re.findall(r'"([a-z]+==[^"]+)"', re.search(r"^requires = .*$", (ROOT / "pyproject.toml").read_text(), re.MULTILINE)[0])  # type: ignore[index]
    build = (ROOT / "requirements" / "build.txt").read_text()
    assert wanted
    assert all(spec in build for spec in wanted)


def test_make_installs_nothing_without_hashes() -> None:
    installs = [line for line in (ROOT / "Makefile").read_text().splitlines() if "-r requirements/" in line]
    assert len(installs) >= 5
    assert [line for line in installs if "$(HASHED)" not in line] == []


def test_the_build_tools_are_pinned_with_all_that_they_need() -> None:
    pinned = {name.lower() for name in PINNED.findall((ROOT / "requirements" / "build.txt").read_text())}
    packages = re.split(r"\n(?=[A-Za-z])", (ROOT / "requirements" / "dev.txt").read_text())
    # A package that hatchling needs says so in the locked list: "# via hatchling", alone or as one of several.
    wanted = {package.split("==")[0].lower() for package in packages if re.search(r"^    # (?:via|  ) +hatchling$", package, re.MULTILINE)}
    assert wanted
    assert wanted <= pinned


def test_make_says_what_it_installs_on_the_system_and_why() -> None:
    lines = [line for line in (ROOT / "Makefile").read_text().splitlines() if "apt-get" in line and not line.startswith("apt = ")]
    assert [line for line in lines if not line.lstrip().startswith("#")] == []


def test_the_bill_of_materials_names_every_package_once_and_is_stable() -> None:
    bills = [subprocess.run([sys.executable, ROOT / "requirements" / "sbom.py"], capture_output=True, check=True).stdout for _ in range(2)]
    assert bills[0] == bills[1]
    bill = json.loads(bills[0])
    assert (bill["bomFormat"], bill["specVersion"]) == ("CycloneDX", "1.6")
    urls = [component["purl"] for component in bill["components"]]
    assert len(urls) == len(set(urls))
    pinned = {name.lower() for name in PINNED.findall((ROOT / "requirements" / "dev.txt").read_text())}
    assert pinned <= {component["name"].lower() for component in bill["components"]}
    assert any(url.startswith("pkg:npm/") for url in urls)


@pytest.mark.slow
@pytest.mark.parametrize("pure", ["1", ""], ids=["pure", "compiled"])
def test_the_same_sources_give_the_same_wheel(tmp_path: Path, pure: str) -> None:
    pytest.importorskip("hatchling")
    digests = []
    for number, place in enumerate(("a", "somewhere/else")):
        copy = tmp_path / place
        shutil.copytree(ROOT / "src", copy / "src", ignore=shutil.ignore_patterns("__pycache__", "*.so"))
        for name in ("pyproject.toml", "hatch_build.py", "README.md", "LICENSE", "CHANGELOG.md"):
            shutil.copy(ROOT / name, copy / name)
        for path in copy.rglob("*"):
            os.utime(path, (1_700_000_000 + 1000 * number,) * 2)
        environ = os.environ | {"FLEETLORE_PURE": pure, "SOURCE_DATE_EPOCH": "1700000000", "TZ": ["UTC", "Asia/Tokyo"][number]}
        command = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(tmp_path / f"out{number}")]
        done = subprocess.run(command, cwd=copy, env=environ, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        [wheel] = (tmp_path / f"out{number}").iterdir()
        digests.append((wheel.name, hashlib.sha256(wheel.read_bytes()).hexdigest()))
    assert digests[0] == digests[1]
