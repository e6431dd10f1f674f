"""The tools `sessions` and `session`: what is cut is announced, and text says what the structured response says."""

from __future__ import annotations

from fleetlore.server.mcp.outcomes import MAX_ITEMS, _clean_lines, _list_claims, _render_session_row
from fleetlore.server.mcp.responses import SessionRow
from fleetlore.views.outcomes.record import JudgedClaim


def test_a_list_that_is_cut_says_so() -> None:
    lines = _clean_lines(f"line {n}" for n in range(MAX_ITEMS + 5))
    assert lines[MAX_ITEMS - 1 :] == [f"line {MAX_ITEMS - 1}", "… and 5 more"]
    assert _clean_lines(["one"] * MAX_ITEMS) == ["one"] * MAX_ITEMS


def test_contradicted_claims_come_first() -> None:
    claims = [JudgedClaim(text=f"claim {n}", kind="tests", where="answer", verdict="supported") for n in range(MAX_ITEMS)]
    claims.append(JudgedClaim(text="tests pass", kind="tests", where="answer", verdict="contradicted", why="they failed"))
    assert _list_claims(claims)[0] == "contradicted: tests pass (they failed)"


def test_a_question_that_the_headline_leaves_out_is_shown_once() -> None:
    row = SessionRow(session="ada-1", status="running", waiting_for="permission", headline="Fix it", question="May I push?")
    assert _render_session_row(row).endswith("Fix it · question: May I push?")
    row = SessionRow(session="ada-1", status="finished", waiting_for="person", headline="Fix it; asks: May I push?", question="May I push?")
    assert _render_session_row(row).count("May I push?") == 1


def test_a_row_counts_in_good_english() -> None:
    row = SessionRow(session="ada-1", status="finished", headline="Fixed it", contradicted=1)
    assert "1 contradicted claim ·" in _render_session_row(row)
