"""A program gets what it needs to live, what is its own, and nothing of ours."""

from __future__ import annotations

from fleetlore.process.environment import TURN_VARIABLE, has_turn_mark, scrub_environment

HOME_PATH = {
    "HOME": "/home/ada",
    "PATH": "/bin",
    "LC_ALL": "C",
    "XDG_CACHE_HOME": "/c",
    "https_proxy": "http://p",
    "NODE_EXTRA_CA_CERTS": "/ca.pem",
}


def test_what_it_needs_to_live_stays_and_all_else_goes() -> None:
    environ = {**HOME_PATH, "FLEETLORE_TOKEN": "ours", "GITHUB_TOKEN": "theirs", "OPENAI_API_KEY": "another's", "LD_PRELOAD": "x.so"}
    assert scrub_environment(environ, mark="t1") == {**HOME_PATH, TURN_VARIABLE: "t1"}


def test_what_is_its_own_stays_by_name_or_pattern() -> None:
    environ = {"CLAUDE_CONFIG_DIR": "/c", "CLAUDE": "no", "EDITOR": "ed", "claude_x": "no"}
    assert scrub_environment(environ, keep=("CLAUDE_*", "EDITOR"), mark="t1") == {
        "CLAUDE_CONFIG_DIR": "/c",
        "EDITOR": "ed",
        TURN_VARIABLE: "t1",
    }


def test_what_is_ours_goes_even_if_it_is_asked_for() -> None:
    assert scrub_environment({"FLEETLORE_PASSPHRASE": "hush"}, keep=("*",), mark="t1") == {TURN_VARIABLE: "t1"}


def test_a_turn_inside_a_turn_carries_both_marks() -> None:
    value = scrub_environment({TURN_VARIABLE: "outer"}, mark="inner")[TURN_VARIABLE]
    assert has_turn_mark(value, "outer")
    assert has_turn_mark(value, "inner")
    assert not has_turn_mark(value, "out")
    assert not has_turn_mark(value, "")
    assert not has_turn_mark("", "")
