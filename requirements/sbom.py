"""Prints a bill of materials as CycloneDX 1.6 JSON: every Python package of requirements/ and every package of web/package-lock.json.

The same inputs give the same output. Versions and hashes are those of the lock files; nothing is fetched.
"""

from __future__ import annotations

import json
import re
import sys
from base64 import b64decode
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

ROOT = Path(__file__).parent.parent
_PINNED = re.compile(r"^([A-Za-z0-9_.-]+)==([^\s;\\]+)((?:.*\\\n)*.*)", re.MULTILINE)
_HASH = re.compile(r"--hash=sha256:([0-9a-f]{64})")


def main() -> None:
    """Print the bill."""
    components = {component["bom-ref"]: component for component in (*_python_packages(), *_web_packages())}
    bill = {
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "version": 1,
        "metadata": {"component": {"type": "application", "name": "fleetlore", "version": _own_version()}},
        "components": [components[name] for name in sorted(components)],
    }
    json.dump(bill, sys.stdout, indent=1, sort_keys=True)
    sys.stdout.write("\n")


def _own_version() -> str:
    found = re.search(r'__version__ = "([^"]+)"', (ROOT / "src" / "fleetlore" / "__init__.py").read_text(encoding="utf-8"))
    return found[1] if found else "0"


def _python_packages() -> Iterator[dict[str, Any]]:
    for path in sorted((ROOT / "requirements").glob("*.txt")):
        scope = "required" if path.stem == "build" else "optional"
        for name, version, rest in _PINNED.findall(path.read_text(encoding="utf-8")):
            url = f"pkg:pypi/{name.lower().replace('_', '-')}@{version}"
            hashes = [{"alg": "SHA-256", "content": digest} for digest in _HASH.findall(rest)]
            component = {"type": "library", "bom-ref": url, "purl": url, "name": name, "version": version, "scope": scope}
            yield component | ({"externalReferences": [_distribution(url, hashes)]} if hashes else {})


def _distribution(url: str, hashes: list[dict[str, str]]) -> dict[str, Any]:
    """The files of a release: any of these hashes may be installed."""
    return {"type": "distribution", "url": url, "hashes": hashes}


def _web_packages() -> Iterator[dict[str, Any]]:
    lock = json.loads((ROOT / "web" / "package-lock.json").read_text(encoding="utf-8"))
    for path, package in lock["packages"].items():
        if not path or package.get("link"):
            continue
        name = package.get("name") or path.rpartition("node_modules/")[2]
        url = f"pkg:npm/{quote(name, safe='/')}@{package['version']}"
        scope = "optional" if package.get("dev") else "required"
        component = {"type": "library", "bom-ref": url, "purl": url, "name": name, "version": package["version"], "scope": scope}
        algorithm, _, digest = package.get("integrity", "").partition("-")
        if algorithm == "sha512":
            component["hashes"] = [{"alg": "SHA-512", "content": b64decode(digest).hex()}]
        yield component


if __name__ == "__main__":
    main()
