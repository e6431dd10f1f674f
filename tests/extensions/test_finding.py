"""Extensions are found by what their packages say, and one that cannot be used never stands in the way of the others."""

from __future__ import annotations

import logging
import sys
from pathlib import Path
from typing import Any

import pytest

from fleetlore.errors import BrokenExtension
from fleetlore.plugins import Extension, ExtensionPoint, find_extensions
from tests.extensions.packages import put

GROUP = "fleetlore.things"


def number(name: str, thing: Any) -> int:
    """What the things of these tests have to be."""
    if not isinstance(thing, int):
        raise TypeError(f"a number is needed, not {type(thing).__name__}")
    return thing


def point(*offers: Extension, **options: Any) -> ExtensionPoint[int]:
    return ExtensionPoint(GROUP, number, installed=lambda: offers, **options)


def offer(name: str, value: str, package: str = "alpha") -> Extension:
    return Extension(GROUP, name, value, package, "1.0")


MAXSIZE, PATH, MISSING = offer("big", "sys:maxsize"), offer("path", "sys:path"), offer("gone", "no_such_module_here:x")


def test_packages_say_what_they_offer(tmp_path: Path) -> None:
    put(tmp_path, "alpha_beta", {GROUP: {"b": "m:x", "a": "m:y.z"}, "console_scripts": {"c": "m:z"}}, version="2.1")
    put(tmp_path, "other", {"console_scripts": {"fleetlore": "fleetlore.cli:main"}})
    assert find_extensions([str(tmp_path)]) == [
        Extension(GROUP, "a", "m:y.z", "alpha-beta", "2.1"),
        Extension(GROUP, "b", "m:x", "alpha-beta", "2.1"),
    ]


def test_of_a_package_that_is_there_twice_the_first_counts(tmp_path: Path) -> None:
    put(tmp_path / "first", "alpha", {GROUP: {"a": "m:new"}}, version="2")
    put(tmp_path / "second", "Alpha", {GROUP: {"a": "m:old"}}, version="1")
    found = find_extensions([str(tmp_path / "first"), str(tmp_path / "second"), str(tmp_path / "first"), str(tmp_path / "nowhere")])
    assert [(each.value, each.version) for each in found] == [("m:new", "2")]


@pytest.mark.parametrize(
    "text", ["[fleetlore.things", "[fleetlore.things]\nnothing", "[fleetlore.things]\n# a = b\n; c = d\n", "\xff[fleetlore."]
)
def test_a_damaged_file_of_entry_points_offers_nothing(tmp_path: Path, text: str) -> None:
    put(tmp_path, "alpha", {})
    (tmp_path / "alpha-1.0.dist-info" / "entry_points.txt").write_bytes(text.encode("latin-1"))
    assert find_extensions([str(tmp_path)]) == []


def test_a_thing_is_loaded_by_its_name() -> None:
    things = point(MAXSIZE, PATH)
    assert things.find_by_name("big") == sys.maxsize
    assert things.find_by_name("other") is None


def test_names_are_known_without_loading_anything() -> None:
    assert point(MAXSIZE, MISSING).list_names() == ["big", "gone"]


@pytest.mark.parametrize(("broken", "reason"), [(PATH, "TypeError: a number is needed, not list"), (MISSING, "No module named")])
def test_a_broken_one_names_its_package_and_says_what_to_do(broken: Extension, reason: str) -> None:
    with pytest.raises(BrokenExtension) as caught:
        point(broken).find_by_name(broken.name)
    assert f"{broken.name!r} of alpha 1.0" in str(caught.value)
    assert reason in str(caught.value)
    assert "uninstall" in str(caught.value)


def test_code_that_ends_the_program_is_only_broken(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "quits_at_once.py").write_text("raise SystemExit(3)")
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(BrokenExtension, match="SystemExit: 3"):
        point(offer("quits", "quits_at_once:x")).find_by_name("quits")


def test_a_broken_one_is_left_out_and_said_once(caplog: pytest.LogCaptureFixture) -> None:
    things = point(MISSING, MAXSIZE, PATH)
    with caplog.at_level(logging.WARNING):
        assert things.load_all() == things.load_all() == [sys.maxsize]
    assert len(caplog.messages) == 2
    assert caplog.messages[0].startswith("the extension 'gone' of alpha 1.0 is left out: ModuleNotFoundError")


def test_a_name_of_ours_is_refused_and_said_once(caplog: pytest.LogCaptureFixture) -> None:
    things = point(MAXSIZE, offer("other", "sys:maxunicode"), builtin_names=("big",))
    assert things.list_names() == things.list_names() == ["other"]
    assert things.find_by_name("big") is None
    assert caplog.messages == [
        "the extension 'big' of alpha 1.0 is left out: the name 'big' is taken by Fleetlore, whose extension is used; "
        "the package must use another name"
    ]


def test_of_two_packages_with_one_name_the_first_is_used() -> None:
    things = point(MAXSIZE, offer("big", "sys:maxunicode", "beta"))
    assert things.find_by_name("big") == sys.maxsize
    assert [problem is None for _, problem in things.check_all()] == [True, False]


def test_two_packages_cannot_claim_the_same_thing() -> None:
    things = point(MAXSIZE, offer("large", "sys:maxsize", "beta"), claims=lambda thing: [f"number {thing}"])
    first, second = things.check_all()
    assert first.problem is None
    assert (second.problem or "").startswith(f"the name 'number {sys.maxsize}' is taken by alpha")
    assert things.load_all() == [sys.maxsize]
