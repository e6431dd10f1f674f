"""The fold of a session's events into facts, and its outcome record."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from fleetlore.events.envelope import Event, Origin
from fleetlore.views.outcomes import fold, session
from fleetlore.views.outcomes.record import Outcome, make_record
from fleetlore.views.outcomes.rules import default_rules
from fleetlore.views.outcomes.session import SessionState
from tests.strategies import events

START = datetime(2026, 11, 17, 9, 0, tzinfo=UTC)
RUN, AGENT = "0b5e1111-aaaa", "claude-code/0b5e1111"
LATER = START + timedelta(days=3)


class Script:
    """Writes the events of a session, a second apart."""

    def __init__(self) -> None:
        self.events: list[Event] = []
        self.seconds = 0
        self.add("session.started", data={"program": "claude-code", "cwd": "/Users/mira/src/shop", "project": "shop", "branch": "main"})

    def add(self, kind: str, *, agent: str = AGENT, seconds: int = 1, **fields: Any) -> Event:
        self.seconds += seconds
        origin = Origin(dialect="claude_code")
        at = fields.pop("at", START + timedelta(seconds=self.seconds))
        event = Event(id=f"e{len(self.events)}", kind=kind, agent=agent, run=RUN, at=at, origin=origin, **fields)
        self.events.append(event)
        return event

    def ask(self, text: str) -> Event:
        return self.add("prompt.submitted", text=text, data={"prompt": text, "row": f"row-{len(self.events)}"})

    def say(self, text: str, *, end: bool = True) -> None:
        usage = {"model": "claude-opus-4-8", "input": 100, "output": 20, "said": text, "row": f"row-{len(self.events)}"}
        self.add("model.replied", text=text, data=usage)
        if end:
            self.add("session.turn_ended", text=text)

    def call(self, tool: str, given: dict[str, Any], output: str = "", *, kind: str = "tool.returned", **data: Any) -> Event:
        number = len(self.events)
        where = data.pop("where", {})
        called = self.add("tool.called", data={"tool": tool, "call_id": f"call-{number}", "input": given}, **where)
        key = "output" if kind == "tool.returned" else "reason" if kind == "tool.denied" else "error"
        self.add(kind, cause=called.id, data={"tool": tool, "call_id": f"call-{number}", key: output} | data, **where)
        return called

    def run(self, command: str, output: str = "", **data: Any) -> Event:
        return self.call("Bash", {"command": command}, output, **data)

    def edit(self, path: str = "/Users/mira/src/shop/cart.py", new: str = "b\nc", **where: Any) -> Event:
        return self.call("Edit", {"file_path": path, "old_string": "a", "new_string": new}, "ok", where=where)

    @property
    def state(self) -> SessionState:
        return fold.fold_events(self.events, default_rules()).runs[RUN]

    def outcome(self, now: datetime = LATER) -> Outcome:
        return make_record(self.state, now)


@pytest.fixture
def script() -> Script:
    return Script()


def test_a_session_that_delivers(script: Script) -> None:
    asked = script.ask("Round the total of the cart to cents.")
    script.edit()
    tested = script.run("pytest -q", "12 passed in 0.5s")
    script.run("git commit -qam 'Round the total' && git log -1 --oneline", "1234567 Round the total")
    script.run("git push", "To github.com:acme/shop.git\n   1234567..89abcde  main -> main")
    script.say("Done. The total is rounded to cents now.")
    outcome = script.outcome()
    assert (outcome.session, outcome.person, outcome.repo, outcome.branch) == (RUN, "mira", "shop", "main")
    assert (outcome.status, outcome.waiting_for, outcome.question) == ("finished", None, None)
    assert outcome.asked == "Round the total of the cart to cents."
    assert outcome.evidence["asked"][0].source == asked.data["row"]
    assert outcome.delivered.pushed
    assert outcome.delivered.answer == "The total is rounded to cents now."
    assert (outcome.checks.tests.result, outcome.checks.lint.result) == ("pass", "not_run")
    assert outcome.checks.tests.evidence[0].source == tested.data["call_id"]
    assert [(file.path, file.added, file.removed) for file in outcome.files] == [("cart.py", 2, 1)]
    assert outcome.tokens == 120


def test_tasks_are_delivered_by_closing_them_or_by_commits_that_name_them(script: Script) -> None:
    script.add("prompt.submitted", task="SHOP-7", text="Round", data={"prompt": "Round the total"})
    script.run("bd close sh-12 sh-13 --reason 'done' && gh issue close 41", "closed")
    script.run("bd close sh-99", "error: not found", kind="tool.failed", exit_code=1)
    script.run("echo 'how to bd close things'", "")
    assert script.outcome().delivered.tasks == ["sh-12", "sh-13", "#41"]
    script.edit()
    script.run(
        "git commit -am 'SHOP-7: round the total' -m 'Fixes #9. Also UTF-8 and SHOP-70.'",
        "[main 1234567] SHOP-7: round the total\n 1 file changed",
    )
    script.say("Done.")
    assert script.outcome().delivered.tasks == ["sh-12", "sh-13", "#41", "#9", "SHOP-7"]


def test_commits_and_pull_requests_that_a_fleet_reports_as_events_are_delivered(script: Script) -> None:
    script.ask("Round the total of the cart to cents.")
    script.run("git commit -qam 'Round the total' && git log -1 --oneline", "1234567 Round the total")
    script.add("fleet.commit", text="Round the total", data={"sha": "1234567"})
    script.add("fleet.commit", text="Test the rounding\n\nAll of it.", data={"sha": "89abcde"})
    script.add("fleet.pr_open", text="PR #12: round the total", data={"number": 12, "url": "https://github.com/acme/shop/pull/12"})
    delivered = script.outcome().delivered
    assert [(one.subject, one.sha) for one in delivered.commits] == [("Round the total", "1234567"), ("Test the rounding", "89abcde")]
    assert [(opened.number, opened.title) for opened in delivered.pull_requests] == [("12", "round the total")]
    assert delivered.pushed
    assert delivered.unpushed == 0
    script.add("fleet.commit", text="Round the tax, too")
    assert script.outcome().delivered.unpushed == 1


def test_a_task_that_is_only_the_name_of_a_branch_is_not_delivered(script: Script) -> None:
    script.add("prompt.submitted", task="SHOP-7", text="Look", data={"prompt": "Look around"})
    script.say("It is fine.")
    assert script.outcome().delivered.tasks == []


def test_a_branch_is_not_a_task(script: Script) -> None:
    script.add("prompt.submitted", task="main", text="Fix", data={"prompt": "Fix the total"})
    script.edit()
    script.run("git commit -am 'Fix it on main'", "[main 1234567] Fix it on main\n 1 file changed")
    script.say("Done.")
    assert script.outcome().delivered.tasks == []


def test_a_thread_of_its_own_is_an_item_of_its_parent_and_no_row(script: Script) -> None:
    """Codex writes a sub-agent's thread into a file of its own, with a run of its own."""
    script.ask("Review it")
    script.add("agent.launched", child="codex/14d003cb", text="Review the change", data={"role": "review"})
    own: dict[str, Any] = {"agent": "codex/14d003cb", "run": "019f0000-14d003cb", "parent": AGENT}
    thread = [
        Event(id="t0", kind="session.started", at=START, **own),
        Event(id="t1", kind="prompt.submitted", at=START, text="Review", data={"prompt": "Review"}, **own),
        Event(id="t2", kind="session.turn_ended", at=START, text="No findings.", **own),
    ]
    script.add("agent.returned", child="codex/14d003cb", data={"status": "completed", "result": "No findings."})
    script.say("The review has no findings.")
    (outcome,) = fold.list_outcomes(fold.fold_events([*script.events, *thread], default_rules()), LATER)
    assert outcome.session == RUN
    (helper,) = outcome.helpers
    assert (helper.agent, helper.role, helper.status, helper.answer) == ("codex/14d003cb", "review", "finished", "No findings.")


def test_a_return_without_a_launch_has_its_role(script: Script) -> None:
    script.ask("Review it")
    script.add("agent.returned", child="a1b2c3d", data={"role": "org:review:security-check", "result": "Two findings."})
    script.say("Done.")
    assert [(helper.role, helper.status) for helper in script.outcome().helpers] == [("security-check", "finished")]


def test_the_last_run_after_the_last_edit_counts(script: Script) -> None:
    script.ask("Fix it")
    script.edit()
    script.run("pytest", "== 3 passed in 1s ==")
    script.edit()
    script.say("Done.")
    tests = script.outcome().checks.tests
    assert (tests.result, tests.earlier) == ("not_run", "pass")


def test_a_run_that_could_not_start_does_not_hide_a_result(script: Script) -> None:
    script.ask("Fix it")
    script.edit()
    script.run("pytest", "== 3 passed in 1s ==")
    script.run("pytest tests/no_such.py", "ERROR: file or directory not found: tests/no_such.py", kind="tool.failed", exit_code=4)
    script.say("Done.")
    assert script.outcome().checks.tests.result == "pass"


def test_commits_that_a_rebase_made_again_are_not_delivered(script: Script) -> None:
    script.ask("Rebase on main")
    script.edit()
    script.run("git commit -am 'Round the total'", "[topic 1234567] Round the total\n 1 file changed")
    script.run(
        "git rebase --continue", "[detached HEAD 89abcde] Older work\n 1 file changed\nSuccessfully rebased and updated refs/heads/x."
    )
    script.say("Rebased.")
    assert [commit.subject for commit in script.outcome().delivered.commits] == ["Round the total"]


def test_commits_that_a_reset_took_back_are_not_delivered(script: Script) -> None:
    script.ask("Rename it in one commit")
    script.edit()
    script.run("git commit -am 'wip one'", "[main 1111aaa] wip one\n 1 file changed")
    script.run("git commit -am 'wip two'", "[main 2222bbb] wip two\n 1 file changed")
    script.run("git reset --soft HEAD~2")
    assert script.outcome().delivered.commits == []
    script.run("git commit -qF - <<'EOF'\nRename the cart\n\nMore.\nEOF\ngit log --oneline -1", "3333ccc (HEAD -> main) Rename the cart")
    script.say("Done.")
    assert [(commit.sha, commit.subject) for commit in script.outcome().delivered.commits] == [("3333ccc", "Rename the cart")]


def test_evidence_names_different_calls_first(script: Script) -> None:
    script.ask("Fix it")
    calls = []
    for number in range(4):
        script.edit()
        calls.append(script.run("pytest -q", f"{number + 1} failed, 2 passed in 0.1s", kind="tool.failed", exit_code=1))
    (trouble,) = script.outcome().troubles
    assert len(trouble.evidence) == 5
    assert {source.source for source in trouble.evidence} == {call.data["call_id"] for call in calls}


def test_only_selected_tests_are_called_so(script: Script) -> None:
    script.ask("Fix it")
    script.edit()
    script.run("pytest -q tests/test_cart.py", "2 passed in 0.1s")
    script.say("Fixed.")
    assert script.outcome().checks.tests.selected
    assert "selected tests passed" in script.outcome().outcome
    script.run("pytest -q", "20 passed in 0.1s")
    assert not script.outcome().checks.tests.selected


def test_tests_of_a_push_hook_are_not_called_a_selection(script: Script) -> None:
    script.ask("Fix it")
    script.edit()
    script.run("git commit -am 'Fix'", "[main 1234567] Fix\n 1 file changed")
    hook = "Typecheck......................Passed\nTest...........................Passed\n"
    script.run("git push origin main", f"{hook}To github.com:acme/shop.git\n   1234567..89abcde  main -> main")
    script.say("Fixed.")
    found = script.outcome()
    assert (found.checks.tests.result, found.checks.tests.selected) == ("pass", False)


def test_a_result_of_ci_is_cited(script: Script) -> None:
    script.ask("Fix it")
    script.edit()
    script.run("git commit -am 'Fix' && git push", "[main 1234567] Fix\nTo github.com:acme/shop.git\n   1234567..89abcde  main -> main")
    looked = script.run("gh pr checks 7", "integration-tests\tfail\t2m\thttps://ci", kind="tool.failed")
    script.say("Pushed.")
    found = script.outcome()
    assert "CI failed" in found.headline
    assert [source.source for source in found.evidence["ci"]] == [looked.data["call_id"]]


def test_a_failing_ci_contradicts_a_claim_about_all_tests(script: Script) -> None:
    script.ask("Fix it")
    script.edit()
    script.run("pytest", "== 3 passed in 1s ==")
    script.run("git commit -am 'Fix' && git push", "[main 1234567] Fix\nTo github.com:acme/shop.git\n   1234567..89abcde  main -> main")
    script.say("All tests pass, and I pushed it.")
    looked = script.run("gh pr checks 7", "integration-tests\tfail\t2m\thttps://ci\nlint\tpass\t1m\thttps://ci", kind="tool.failed")
    (claim,) = (claim for claim in script.outcome().claims if claim.kind == "tests_pass")
    assert claim.verdict == "contradicted"
    assert looked.data["call_id"] in [source.source for source in claim.evidence]


def test_the_last_text_of_a_turn_that_was_cut_off_is_judged(script: Script) -> None:
    script.ask("Fix it")
    script.edit()
    script.run("pytest", "== 3 passed in 1s ==")
    script.say("All tests pass. Now let me commit.", end=False)
    assert [claim.verdict for claim in script.outcome().claims if claim.kind == "tests_pass"] == ["supported"]
    assert script.outcome(START + timedelta(minutes=1)).claims == []


def test_an_end_that_repeats_the_answer_is_not_another_answer(script: Script) -> None:
    script.ask("Fix it")
    script.say("The total is rounded to cents now.")
    script.add("session.turn_ended", text="The total is rounded…")
    assert len(script.state.answers) == 1


@pytest.mark.parametrize(
    ("asked", "answers", "headline"),
    [
        ("Can you round the total of the cart to cents?", ["Done."],
         "Asked: Round the total of the cart to cents; cart.py changed, not committed"),
        ("Can you round the total of the cart to cents?", ["The totals could not be rounded: two tests fail."],
         "Asked: Round the total of the cart to cents; cart.py changed, not committed"),
        ("why is it slow?", ["Now when you run `shop list`:\n\n    total", "The cart is cached per customer now."],
         "The cart is cached per customer now; cart.py changed, not committed"),
        ("look at the cart", ["All 12 tests pass.\n\n- `cart.py`: Added a cache for the totals"],
         "Asked: Look at the cart; cart.py changed, not committed"),
        ("Make the cart faster for big orders", ["The totals are cached per customer now.", "Removed the second query of the prices."],
         "Make the cart faster for big orders: Removed the second query of the prices; cart.py changed, not committed"),
        ("Make the totals of the cart strict", ["- Removed an old comment\n- Added a strict check of the totals\n- Renamed two helpers of"
         " prices"],
         "Asked: Make the totals of the cart strict; cart.py changed, not committed"),
        ("fix it", ["With the cache: 12 ms. I've removed the second query of the cart."],
         "Removed the second query of the cart; cart.py changed, not committed"),
        ("Implement the following plan:\n\n# Plan: Round the total to cents\n\nIt is wrong.", ["Changed one line of the cart."],
         "Round the total to cents; cart.py changed, not committed"),
        ("Implement the following plan:\n\n# Cart Rounding Implementation Plan\n\nIt is wrong.", ["Changed one line of the cart."],
         "Cart Rounding; cart.py changed, not committed"),
        ("fix it", ["The cart is rounded when an order is changed.", "Should the cart be changed now?"],
         'Asked: "fix it"; cart.py changed, not committed'),
    ],
)  # fmt: skip
def test_the_headline_without_a_commit(script: Script, asked: str, answers: list[str], headline: str) -> None:
    script.ask(asked)
    for answer in answers:
        script.edit()
        script.say(answer)
        script.ask("go on")
    script.say("Nothing else to do here.")
    assert script.outcome().headline == headline


def test_the_headline_names_the_most_informative_commit_and_its_state(script: Script) -> None:
    script.ask("Round the total")
    script.edit()
    script.run("git commit -am 'chore: tidy'", "[main 1234567] chore: tidy\n 1 file changed")
    script.run("git commit -am 'Round the total'", "[main 1234568] Round the total\n 1 file changed")
    script.say("Done.")
    assert script.outcome().headline == "Round the total (+1 commit); committed, not pushed"
    script.edit()
    script.say("Changed one more.")
    assert script.outcome().headline.endswith("committed, not pushed; later edits of cart.py not committed")


@pytest.mark.parametrize(
    ("answer", "is_unknown"),
    [
        ("Committed and published as PR #75; hosted checks are running.", True),
        ("Committed and pushed successfully. No PR created, since you asked for commit and push only.", True),
        ("Committed. I have not pushed yet.", False),
        ("No commit, push, or PR was created on the remote.", False),
        ("Committed the rounding of the total.", False),
    ],
)
def test_commits_are_not_called_unpushed_if_the_agent_speaks_of_a_push_that_is_not_recorded(
    script: Script, answer: str, is_unknown: bool
) -> None:
    script.ask("Round the total")
    script.edit()
    script.run("git commit -am 'Round the total'", "[main 1234567] Round the total\n 1 file changed")
    script.run("./scripts/publish", "done")  # nothing shows what it does
    script.say(answer)
    assert script.outcome().delivered.push_unknown is is_unknown
    assert ("not pushed" in script.outcome().headline) is not is_unknown


def test_files_outside_of_a_repository_are_not_said_to_be_uncommitted(script: Script) -> None:
    script.ask("Set up the editor")
    script.edit("/Users/mira/.config/editor.toml")
    script.say("Added the new theme to the editor.")
    assert script.outcome().headline == "Set up the editor: Added the new theme to the editor; editor.toml changed"


def test_the_headline_tells_the_largest_request_and_counts_the_others(script: Script) -> None:
    for asked, lines, answer in (
        ("Add a cache for the totals of the cart", 60, "The totals of the cart come from a cache now."),
        ("Rename the helper of the prices", 2, "Renamed the helper of the prices to price_of."),
        ("Show the shipping costs below the total", 20, "The shipping costs are shown below the total now."),
    ):
        script.ask(asked)
        script.edit("cart.py", new="line\n" * lines)
        script.say(answer)
    script.ask("Looks good, run the tests")
    script.run("pytest", "== 3 passed in 1s ==")
    script.say("All tests pass.")
    expected = "The totals of the cart come from a cache now (+2 more requests)"
    assert script.outcome().result == expected


def test_requests_without_a_report_are_listed(script: Script) -> None:
    for asked in (
        "Run the shop in the background",
        "Why does the checkout answer with 502?",
        "The total of the cart still has three digits",
    ):
        script.ask(asked)
        script.run("cat cart.py")
        script.say("Done.")
    expected = "Asked: Run the shop in the background; Why does the checkout answer with 502? (+1 more request)"
    assert script.outcome().result == expected


def test_requests_that_the_commits_do_not_answer_are_counted(script: Script) -> None:
    script.ask("Compare our settings with those of the warehouse")
    script.run("cat settings.toml")
    script.say("They differ in two places.")
    script.ask("Round the total")
    for _ in range(4):
        script.edit()
    script.run("git commit -am 'Round the total'", "[main 1234568] Round the total\n 1 file changed")
    script.say("Done.")
    assert script.outcome().result == "Round the total (+1 more request)"


def test_a_commit_whose_subject_says_nothing_is_not_the_headline(script: Script) -> None:
    script.ask("Round the total of the cart")
    script.edit()
    script.run("git commit -am wip && git push", "[main 1234568] wip\n 1 file changed")
    script.say("The total of the cart is rounded to two digits now.")
    assert script.outcome().result == "The total of the cart is rounded to two digits now"


def test_a_merge_of_an_older_pull_request_is_told(script: Script) -> None:
    script.ask("Merge the pull request of the cart")
    script.run("gh pr merge 31 --squash", "Merged pull request #31")
    script.say("Merged.")
    assert "pull request #31 merged" in script.outcome().headline


def test_an_answer_in_json_is_told_by_its_texts(script: Script) -> None:
    script.ask("Rate the change of the cart")
    script.run("git diff")
    script.say('{"verdict": "neutral", "summary": "The change of the cart only renames two helpers.", "next": ["none"]}')
    assert script.outcome().result == '"Rate the change of the cart": The change of the cart only renames two helpers'


def test_a_review_that_ends_without_findings_has_no_points(script: Script) -> None:
    script.ask("Review this change for security problems")
    script.run("git diff")
    script.say("1. The cart reads the price.\n2. The page shows the total.\n\nNo security problems were found in this change.")
    assert script.outcome().result == "Review this change for security problems: No security problems were found in this change"


def test_a_request_stands_for_a_detail_of_its_result(script: Script) -> None:
    script.ask("Make the parser of the settings strict")
    script.edit()
    script.say("- Removed an old comment\n- `load` now uses a decoder\n- Renamed two helpers of it")
    assert script.outcome().result == "Asked: Make the parser of the settings strict"


def test_a_request_is_no_result_if_the_agent_reports_that_it_failed(script: Script) -> None:
    script.ask("Make the parser of the settings strict")
    script.edit()
    script.say("I was not able to make it strict: two callers pass unknown keys.")
    assert script.outcome().result == "Asked: Make the parser of the settings strict"


def test_the_commits_with_the_most_changed_lines_come_first(script: Script) -> None:
    script.ask("go on with the list")
    for number, lines in enumerate((1, 40, 20, 30)):
        script.edit(f"part{number}.py", new="line\n" * lines)
        script.run(f"git commit -am 'Write part {number}'", f"[main 123456{number}] Write part {number}\n 1 file changed")
    assert script.outcome().result == "Write part 1; Write part 3; Write part 2 (+1 commit)"


def test_an_answer_with_yes_has_its_question(script: Script) -> None:
    script.ask("Does rsync still work with the new proxy?")
    script.say("No, rsync will not work through the proxy because it only forwards web traffic.")
    expected = "Does rsync still work with the new proxy? No, rsync will not work through the proxy because it only forwards web traffic"
    assert script.outcome().result == expected


def test_a_short_answer_is_quoted(script: Script) -> None:
    script.ask("Reply with exactly one word")
    script.say("OK")
    assert script.outcome().headline == 'Asked: Reply with exactly one word; answered "OK", nothing changed'


def test_documents_that_are_most_of_the_work_are_named_by_their_headings(script: Script) -> None:
    script.ask("/write-story")
    for name, heading in (("story-1.md", "Story 1: Round the totals"), ("story-2.md", "Story 2: Show the costs")):
        script.call("Write", {"file_path": name, "content": f"# {heading}\n\n" + "line\n" * 9}, "File created")
    script.edit("status.yaml")
    script.say("Story context created.")
    expected = 'Wrote "Story 1: Round the totals" (story-1.md) and "Story 2: Show the costs" (story-2.md)'
    assert script.outcome().result == expected


def test_the_work_of_a_command_without_a_report_is_named_by_files_and_command(script: Script) -> None:
    script.ask("/sync-status")
    script.edit("status.yaml")
    script.say("Here is where you stand:")
    assert script.outcome().headline == 'Asked: "/sync-status"; status.yaml changed, not committed'


def test_an_address_of_a_pull_request_is_named_by_its_number(script: Script) -> None:
    script.ask("Review this PR: https://github.com/shop/cart/pull/736")
    script.call("Read", {"file_path": "plan.md"}, "Cart")
    script.say("The main risk is that the totals are cached per customer.")
    assert script.outcome().result == "Review pull request #736: The main risk is that the totals are cached per customer"


def test_the_headline_of_a_review_has_its_finding(script: Script) -> None:
    script.ask("Review the plan for the new cart")
    script.call("Read", {"file_path": "plan.md"}, "Cart")
    script.say("I've finished the pass. The main risk is that the totals are cached per customer. It may also be slow.")
    expected = "Review the plan for the new cart: The main risk is that the totals are cached per customer; nothing changed"
    assert script.outcome().headline == expected


def test_an_empty_commit_is_not_the_result(script: Script) -> None:
    script.ask("Hide the changes of the closed pull request")
    script.run("git commit --allow-empty -m hidden", "[main 1234567] hidden")
    script.run("git push -f", "To github.com:shop/cart.git\n + 1111111...2222222 main -> main (forced update)")
    script.say("GitHub keeps the changes because the pull request was closed.")
    expected = "Hide the changes of the closed pull request: GitHub keeps the changes because the pull request was closed; pushed"
    assert script.outcome().headline == expected


def test_commits_about_something_else_do_not_hide_what_came_of_the_request(script: Script) -> None:
    script.ask("Find out why the checkout answers with status 502")
    script.run("ssh shop nginx -t", "ok")
    script.say("It works again. Fix: Added the missing upstream of the checkout to nginx.conf.")
    script.ask("Write that down")
    script.edit("README.md")
    script.run("git commit -am 'docs: name the proxy'", "[main 1234567] docs: name the proxy\n 1 file changed")
    script.say("Done.")
    expected = "docs: name the proxy; also asked: Find out why the checkout answers with status 502; committed, not pushed"
    assert script.outcome().headline == expected


def test_a_refused_plan_is_how_a_session_ended(script: Script) -> None:
    script.ask("Round the total of the cart")
    script.call("ExitPlanMode", {"plan": "# Round"}, "no", kind="tool.denied", by="user")
    script.add("session.turn_ended", data={"reason": "interrupted"})
    assert script.outcome().headline == "Asked: Round the total of the cart; nothing changed; its plan was refused"


def test_the_headline_has_a_short_question(script: Script) -> None:
    script.ask("Round the total")
    script.edit()
    script.say("The total is rounded to cents now. Should I commit it?")
    assert script.outcome().headline == "The total is rounded to cents now; cart.py changed, not committed; asks: Should I commit it?"


def test_edits_after_the_last_commit_are_named(script: Script) -> None:
    script.ask("Round the total")
    script.edit()
    script.run("git commit -am 'Round the total'", "[main 1234568] Round the total\n 1 file changed")
    script.say("Done.")
    script.ask("It still shows three digits")
    script.edit()
    script.say("The display is rounded to two digits now.")
    expected = 'Round the total; also asked: "It still shows three digits"; committed, not pushed; later edits of cart.py not committed'
    assert script.outcome().headline == expected


@pytest.mark.parametrize(
    ("said", "waits"),
    [
        ("Está pronto. Pode aprovar as edições?", "person"),
        ("Everything runs. Ready to start whenever you say go.", "person"),
        ("Two ways are possible. Let me know which one you prefer.", "person"),
        ("The cart is rounded. Can I help you with anything else?", None),
        ("The cart is rounded. Let me know if something is wrong.", None),
    ],
)
def test_an_answer_that_asks_for_a_decision_waits_for_the_person(script: Script, said: str, waits: str | None) -> None:
    script.ask("Round the total")
    script.say(said)
    assert script.outcome().waiting_for == waits


def test_a_call_that_was_not_permitted_waits_for_a_permission_unless_work_went_on(script: Script) -> None:
    script.ask("Round the total")
    script.call("Edit", {"file_path": "cart.py"}, "Permission to write is needed", kind="tool.denied")
    script.say("The cart cannot be written.")
    outcome = script.outcome()
    assert outcome.waiting_for == "permission"
    assert outcome.headline.endswith("no permission to edit cart.py; waits for your permission")
    script.ask("Go on")
    script.call("Edit", {"file_path": "cart.py"}, "Permission to write is needed", kind="tool.denied")
    script.edit()
    script.say("The cart is rounded now.")
    assert script.outcome().waiting_for is None


def test_a_call_that_the_person_refused_waits_for_nobody(script: Script) -> None:
    script.ask("Round the total")
    script.call("Edit", {"file_path": "cart.py"}, "Not this file", kind="tool.denied", by="user")
    script.say("The cart is left as it was.")
    assert script.outcome().waiting_for is None


def test_instructions_of_a_program_are_not_the_request(script: Script) -> None:
    script.ask("<system_instruction>\nYou are working inside an app.\n</system_instruction>\n\nRound the total of the cart.")
    script.say("Done.")
    assert script.outcome().asked == "Round the total of the cart."


@pytest.mark.parametrize("reply", ["y", "proceed", "3", "1. but on this branch", "I don't have anything to add"])
def test_a_reply_is_not_what_a_session_is_about(script: Script, reply: str) -> None:
    script.ask("/create-architecture")
    script.say("What are the constraints?")
    script.ask(reply)
    script.edit("architecture.md")
    script.say("Which database do you prefer?")
    assert script.outcome().asked == "/create-architecture"


def test_a_proposal_is_no_report(script: Script) -> None:
    script.ask("Break the epic into stories")
    script.edit("epics.md")
    script.say("Proposed breakdown:\n\n**Story 1**\nSet up the reactive store layer for the price.\n\nDoes this work?")
    assert "Set up" not in script.outcome().headline


def test_a_headline_is_short(script: Script) -> None:
    script.ask("why?")
    script.edit()
    script.say("The cart, " + "which is long and winding, " * 20 + "is cached.")
    assert len(script.outcome().headline.split()) <= 30


def test_nothing_edited(script: Script) -> None:
    script.ask("Why is it slow?")
    script.say("The cache is cold after each deployment.")
    outcome = script.outcome()
    assert outcome.checks.tests.result == "no_edit"
    assert outcome.headline == 'Asked: "Why is it slow?"; answered "The cache is cold after each deployment", nothing changed'


@pytest.mark.parametrize(
    ("age", "expected"), [(timedelta(minutes=5), ("running", None)), (timedelta(days=2), ("interrupted", None))], ids=["recent", "old"]
)
def test_a_turn_without_an_end(script: Script, age: timedelta, expected: tuple[str, str | None]) -> None:
    script.ask("Fix it")
    script.edit()
    outcome = script.outcome(START + timedelta(seconds=script.seconds) + age)
    assert (outcome.status, outcome.waiting_for) == expected


def test_an_interrupted_and_a_failed_turn(script: Script) -> None:
    script.ask("Fix it")
    script.add("session.turn_ended", data={"reason": "interrupted"})
    assert script.outcome().status == "interrupted"
    script.ask("Go on")
    script.add("session.turn_ended", text="API Error: 529 overloaded", data={"reason": "failed"})
    outcome = script.outcome()
    assert outcome.status == "failed"
    assert "529" in outcome.outcome


def test_a_permission_and_a_question(script: Script) -> None:
    script.ask("Remove the old tables")
    script.add("session.waiting", data={"why": "permission"})
    outcome = script.outcome(START + timedelta(minutes=2))
    assert (outcome.status, outcome.waiting_for) == ("running", "permission")
    script.say("The tables are in use. Should I remove them anyway?")
    outcome = script.outcome()
    assert (outcome.status, outcome.waiting_for, outcome.question) == ("finished", "person", "Should I remove them anyway?")


def test_helpers_in_the_background(script: Script) -> None:
    script.ask("Review it")
    script.add("agent.launched", child="a17", text="Review security", data={"role": "acme:review:security", "background": True})
    script.say("The review is running.")
    outcome = script.outcome(START + timedelta(minutes=2))
    assert (outcome.status, outcome.waiting_for) == ("running", "helpers")
    script.add("agent.returned", child="a17", text="No issues", data={"result": "No issues found in the login."})
    outcome = script.outcome()
    assert outcome.status == "finished"
    assert [(helper.role, helper.answer, helper.status) for helper in outcome.helpers] == [
        ("security", "No issues found in the login.", "finished")
    ]


def test_work_of_a_helper_counts_at_its_time_although_its_file_is_read_later(script: Script) -> None:
    script.ask("Fix it")
    early = START + timedelta(seconds=script.seconds, milliseconds=100)
    script.run("pytest", "== 3 passed in 1s ==")
    script.say("Done.")
    script.edit(agent="a17", parent=AGENT, at=early)
    script.add("model.replied", at=early, data={"said": "an older text"})
    outcome = script.outcome()
    assert outcome.status == "finished"
    assert outcome.checks.tests.result == "pass"
    assert outcome.delivered.answer == "Done."


def test_a_background_command_counts_when_its_output_is_read(script: Script) -> None:
    script.ask("Fix it")
    script.edit()
    script.call("Bash", {"command": "pytest", "run_in_background": True}, "Command running in background with ID: b1. Output is in a file.")
    assert script.outcome().checks.tests.result == "not_run"
    shown = script.call(
        "BashOutput", {"bash_id": "b1"}, "<status>completed</status><exit_code>1</exit_code><stdout>== 1 failed in 1s ==</stdout>"
    )
    assert script.outcome().checks.tests.result == "fail"
    assert shown.data["call_id"] in [source.source for source in script.outcome().checks.tests.evidence]


def test_a_pull_request_counts_when_its_address_is_read_later(script: Script) -> None:
    script.ask("Open it")
    started = "Command running in background with ID: b1. Output is in a file."
    script.call("Bash", {"command": "gh pr create --title 'Round the total' --body x", "run_in_background": True}, started)
    assert not script.outcome().delivered.pull_requests
    printed = "<status>completed</status><exit_code>0</exit_code><stdout>https://github.com/acme/shop/pull/31</stdout>"
    script.call("BashOutput", {"bash_id": "b1"}, printed)
    (opened,) = script.outcome().delivered.pull_requests
    assert (opened.number, opened.title) == ("31", "Round the total")


@pytest.mark.parametrize(
    ("command", "output"),
    [("gh run watch 12 --exit-status", "✓ test in 10s (ID 12)"), ("./scripts/watch-ci.ps1 -Sha abc", "run 12 conclusion=success")],
)
def test_ci_that_is_watched_in_the_background_supports_a_claim(script: Script, command: str, output: str) -> None:
    script.ask("Push it")
    script.run("git commit -m Fix && git push", "[main 1234567] Fix\nTo x\n   1a2b3c4..1234567  main -> main")
    started = "Command running in background with ID: b1. Output is in a file."
    script.call("Bash", {"command": command, "run_in_background": True}, started)
    script.call("Read", {"file_path": "C:\\tmp\\tasks\\b1.output"}, output)
    script.say("CI is green.")
    assert [claim.verdict for claim in script.outcome().claims if claim.kind == "tests_pass"] == ["supported"]


def test_a_notice_ends_a_background_command_and_its_file_has_the_details(script: Script) -> None:
    script.ask("Fix it")
    script.edit()
    script.call("Bash", {"command": "pytest", "run_in_background": True}, "Command running in background with ID: b1. Output is in a file.")
    script.say("The tests are running.")
    script.add(
        "claude_code.task_notification", data={"task_id": "b1", "status": "completed", "summary": "Run tests completed (exit code 0)"}
    )
    assert script.outcome().checks.tests.result == "pass"
    script.call("Read", {"file_path": "/tmp/app/tasks/b1.output"}, "== 4 passed in 1s ==")
    script.say("Done.")
    tests = script.outcome().checks.tests
    assert (tests.result, tests.counts, tests.earlier) == ("pass", "4 passed", None)


def test_a_denied_edit_changes_nothing_and_its_reason_is_a_prompt(script: Script) -> None:
    script.ask("Fix it")
    script.call(
        "Edit", {"file_path": "/x/a.py", "old_string": "a", "new_string": "b"}, "no, use the other file", kind="tool.denied", by="user"
    )
    script.say("All right.")
    assert script.outcome().files == []
    assert [(prompt.text, prompt.refuses) for prompt in script.state.prompts] == [("Fix it", None), ("no, use the other file", "edit")]


def test_a_claim_is_judged_by_the_run_before_it(script: Script) -> None:
    script.ask("Fix it")
    script.edit()
    script.run("pytest", "== 1 failed, 2 passed in 1s ==", kind="tool.failed", exit_code=1)
    script.say("All tests pass now.")
    claims = {claim.kind: claim for claim in script.outcome().claims}
    assert claims["tests_pass"].verdict == "contradicted"


def test_commands_that_a_person_types_are_no_turns(script: Script) -> None:
    script.ask("!ls")
    assert not script.state.prompts


def test_the_branch_and_the_title_may_change(script: Script) -> None:
    script.ask("Make a branch")
    script.add("agent.named", data={"title": "Branch for the cart"})
    script.add("session.turn_ended", text="Done", data={"branch": "cart"})
    outcome = script.outcome()
    assert (outcome.branch, outcome.title, outcome.name) == ("cart", "Branch for the cart", "Branch for the cart")


@pytest.mark.parametrize(
    ("cwd", "repo"),
    [
        ("/home/ada/shop/.claude/worktrees/fix-cart", "shop"),
        ("/home/ada/shop-worktrees/fix-cart", "shop"),
        ("/home/ada/.worktrees/shop", "shop"),
        ("/home/ada/.cursor/worktrees/shop/x1", "shop"),
        ("/Users/ada/conductor/workspaces/shop/lisbon", "shop"),
        ("/Users/ada/src/worktrees-demo", "worktrees-demo"),
        ("/srv/shop", "shop"),
    ],
)
def test_the_repository_of_a_worktree(script: Script, cwd: str, repo: str) -> None:
    script.add("session.started", data={"cwd": cwd, "project": cwd.rpartition("/")[2]})
    script.ask("Fix it")
    assert script.outcome().repo == repo


def test_the_state_survives_a_checkpoint_at_every_event(script: Script) -> None:
    script.ask("Fix it")
    script.edit()
    script.run("pytest", "== 3 passed in 1s ==")
    script.say("Done. All tests pass.")
    decoder = msgspec.msgpack.Decoder(SessionState)
    state = session.begin_session(RUN)
    for event in script.events:
        state = decoder.decode(msgspec.msgpack.encode(session.apply(state, event, default_rules())))
    assert make_record(state, LATER) == script.outcome()


@pytest.mark.parametrize("kind", sorted(session.KINDS))
@pytest.mark.parametrize(
    "data", [{}, {"tool": 1, "input": [], "output": {}, "call_id": 2, "said": 3, "prompt": [], "reason": {}, "why": 0}]
)
def test_odd_events_never_raise(kind: str, data: dict[str, Any]) -> None:
    events = [Event(id="a", kind=kind, run=RUN, data=data), Event(kind=kind, run=RUN, data=data, child="x", agent="y", cause="a")]
    state = fold.fold_events(events, default_rules()).runs[RUN]
    make_record(state, LATER)


def test_a_sub_agent_with_a_session_of_its_own_is_no_row(script: Script) -> None:
    script.add("session.started", parent="codex/11111111")
    script.ask("Look for it")
    assert not fold.is_row(script.state)


@given(st.lists(events(), max_size=12))
def test_whatever_is_stored_it_folds_and_makes_records(recorded: list[Event]) -> None:
    sessions = fold.fold_events((replace(event, run=event.run or RUN) for event in recorded), default_rules())
    for state in sessions.runs.values():
        msgspec.json.encode(make_record(msgspec.msgpack.decode(msgspec.msgpack.encode(state), type=SessionState), LATER))


@pytest.mark.parametrize(("command", "is_shown"), [("pytest tests/test_cart.py", True), ("pytest tests/test_parser.py -k tabs", False)])
def test_a_problem_names_the_run_that_worked_later_only_if_it_is_the_same(script: Script, command: str, is_shown: bool) -> None:
    script.ask("Round the total")
    for _ in range(2):
        script.edit()
        script.run("pytest tests/test_cart.py", "FAILED tests/test_cart.py::test_total\n1 failed, 2 passed in 0.1s", kind="tool.failed")
    script.edit()
    script.run(command, "3 passed in 0.1s")
    script.say("Done.")
    [trouble] = script.outcome().troubles
    assert bool(trouble.fixed_by) == is_shown


@pytest.mark.parametrize(
    ("command", "is_shown"), [("mise run lint", True), ("gofmt -l cmd/", False), ("mise run lint:fix", False), ("write_stdin", False)]
)
def test_a_linter_that_passes_repairs_only_its_own_failure(script: Script, command: str, is_shown: bool) -> None:
    script.ask("Round the total")
    for _ in range(2):
        script.edit()
        script.run("mise run lint", "cart.go:3:1: unused variable (unused)\n1 issues:\n[lint] ERROR task failed", kind="tool.failed")
    script.edit()
    script.run(command, "0 issues." if "lint" in command else "")
    script.say("Done.")
    [trouble] = script.outcome().troubles
    assert bool(trouble.fixed_by) == is_shown


def test_a_check_behind_one_that_failed_was_not_run(script: Script) -> None:
    script.ask("Round the total")
    script.edit()
    script.run(
        "bun run lint 2>&1 && bun run typecheck 2>&1",
        '$ biome check\ncart.ts:3:1 lint/noEmptyBlock\n  × Empty block.\nFound 1 error.\nerror: script "lint" exited with code 1',
        kind="tool.failed",
    )
    script.say("Done.")
    checks = script.outcome().checks
    assert (checks.lint.result, checks.types.result) == ("fail", "not_run")


def test_a_poll_of_several_pull_requests_is_not_the_ci_of_the_session(script: Script) -> None:
    script.ask("Round the total")
    script.edit()
    script.run("git commit -am 'Round the total'", "[main 1234567] Round the total\n 1 file changed")
    script.run("git push", "To github.com:mira/shop.git\n   aaaaaaa..1234567  main -> main")
    shown = "PR 41\nTest\tpass\t1m\thttps://ci/1\nPR 42\nTest\tfail\t1m\thttps://ci/2\n"
    script.run('for pr in 41 42; do echo "PR $pr"; gh pr checks "$pr" 2>&1 | head; done', shown)
    script.say("Three are open.\n\n- #41 is ready. All checks pass.")
    record = script.outcome()
    assert record.troubles == []
    assert not [claim for claim in record.claims if claim.kind == "tests_pass"]


@pytest.mark.parametrize(("role", "is_unseen"), [("general-purpose", True), ("Explore", False)])
def test_a_helper_without_recorded_calls_may_have_edited_files(script: Script, role: str, is_unseen: bool) -> None:
    script.ask("Let an agent write a file with a color into docs")
    script.call(
        "Task", {"description": "Write a color file", "prompt": "Write docs/color.md", "subagent_type": role}, "I wrote docs/color.md"
    )
    script.add("agent.returned", child="a17", text="I wrote docs/color.md", data={"role": role, "status": "completed"})
    script.say("Done. The agent wrote docs/color.md.")
    headline = script.outcome().headline
    assert ("no files edited" in headline, "the work of its helpers is not recorded" in headline) == (not is_unseen, is_unseen)


def test_a_small_early_part_of_the_work_is_not_its_result(script: Script) -> None:
    script.ask("Write the screens of the profile")
    script.edit("strings.py")
    script.say("The strings are complete. Added 38 strings of the profile to strings.py.")
    script.ask("Go on with the screens of the profile")
    for name in ("list", "detail", "add", "switch", "remove"):
        script.edit(f"{name}_screen.py")
    script.say("Waiting for the next task.")
    assert "38 strings" not in script.outcome().headline


def test_the_last_detail_of_a_list_is_not_its_result(script: Script) -> None:
    script.ask("Suggest changes of the readme")
    script.edit("README.md")
    items = ["**Diagram** - shows the flow", "**Worktrees** - two sections", "**Table** - of strategies", "**Contents** - of the page"]
    script.say("Done:\n\n" + "".join(f"- {item}\n" for item in items) + "- Added nested links to the readme\n")
    assert "nested links" not in script.outcome().headline


def test_a_commit_that_failed_after_another_is_called_later(script: Script) -> None:
    script.ask("Round the total")
    script.edit()
    script.run("git commit -am 'Round the total'", "[main 1234567] Round the total\n 1 file changed")
    script.run(
        "git commit -am 'Test the total'", "error: gpg failed to sign the data\nfatal: failed to write commit object", kind="tool.failed"
    )
    script.say("The second commit could not be signed.")
    assert script.outcome().headline.startswith("Round the total; committed, not pushed; a later commit failed")


@pytest.mark.parametrize(("command", "pushed"), [("shopctl trail create --title 'Round'", True), ("cat trail.log", False)])
def test_a_tool_that_says_that_it_pushed_the_branch_has_pushed(script: Script, command: str, pushed: bool) -> None:
    script.ask("Round the total")
    script.edit()
    script.run("git commit -am 'Round the total'", "[main 1234567] Round the total\n 1 file changed")
    script.run(command, "Pushed branch round to origin\nCreated a trail for the branch round")
    script.say("Done.")
    assert script.outcome().delivered.pushed is pushed


def test_the_cause_of_a_failed_linter_is_its_finding(script: Script) -> None:
    script.ask("Round the total")
    for _ in range(2):
        script.edit()
        shown = '$ biome check\n at src/cart.ts:3:1 lint/noEmptyBlock ━━━\n\n  × Empty block.\nerror: script "lint" exited with code 1'
        script.run("bun run lint", shown, kind="tool.failed")
    script.say("It fails.")
    [trouble] = script.outcome().troubles
    assert trouble.cause == "src/cart.ts:3:1 lint/noEmptyBlock"


def test_commits_after_the_last_push_are_counted(script: Script) -> None:
    script.ask("Round the total")
    script.edit()
    script.run("git commit -am 'Round the total'", "[main 1234567] Round the total\n 1 file changed")
    script.run("git push", "To github.com:mira/shop.git\n   aaaaaaa..1234567  main -> main")
    script.edit()
    script.run("git commit -am 'Test the total'", "[main 1234568] Test the total\n 1 file changed")
    script.say("Done.")
    record = script.outcome()
    assert (record.delivered.pushed, record.delivered.unpushed) == (True, 1)
    assert "pushed, but not the last commit" in record.headline


def test_a_review_in_points_is_quoted_and_not_counted(script: Script) -> None:
    script.ask("Review the changes of this branch")
    script.call("Read", {"file_path": "cart.py"}, "Cart")
    script.say("**Findings**\n\n1. [cart.py:3](cart.py) loses the cents of large totals. Add a test.\n\n2. The cache is never cleared.")
    said = "cart.py:3 loses the cents of large totals"
    expected = f'Asked: Review the changes of this branch; answered "{said}", nothing changed'
    assert script.outcome().headline == expected


def test_a_change_that_was_taken_back_is_not_the_result(script: Script) -> None:
    script.ask("Write a page about geese")
    script.edit("docs/geese.md")
    script.say("Created docs/geese.md with facts about geese.")
    script.ask("delete that page about geese")
    script.run("git status", "clean")
    script.say("Done - docs/geese.md has been deleted.")
    assert script.outcome().result == "Asked: Write a page about geese; Delete that page about geese"


def test_a_report_that_is_written_after_a_check_does_not_outdate_it(script: Script) -> None:
    script.ask("Validate the branch and write a report")
    script.run("pytest", "== 3 passed in 1s ==")
    script.edit("/Users/mira/src/shop/docs/report.md")
    script.say("Done.")
    assert script.outcome().checks.tests.result == "pass"
    script.edit()
    assert script.outcome().checks.tests.result == "not_run"


def test_the_outcome_says_the_same_as_the_headline_with_the_whole_question(script: Script) -> None:
    script.ask("Round the total of the cart to cents")
    script.edit()
    question = "Should I also round the prices of the single items, or would that change the invoices that were sent before this release?"
    script.say(f"The total of the cart is rounded to cents now. {question}")
    record = script.outcome()
    assert record.headline.startswith("The total of the cart is rounded to cents now; cart.py changed, not committed")
    assert record.outcome == (
        "The total of the cart is rounded to cents now; cart.py changed, not committed; tests not run after the last edit;"
        f" asks: {question}"
    )


@pytest.mark.parametrize(("command", "is_told"), [("grep -rn total src", True), ("./scripts/migrate.sh", False)])
def test_no_files_edited_is_said_only_if_no_command_may_have_written(script: Script, command: str, is_told: bool) -> None:
    script.ask("Find the totals of the cart")
    script.run(command, "src/cart.py:3")
    script.say("They are in two places.")
    assert ("no files edited" in script.outcome().headline) is is_told


def test_logs_and_folders_are_no_changed_files(script: Script) -> None:
    script.ask("Round the total of the cart to cents")
    script.edit()
    for path in ("server.log", "data/"):
        script.edit(f"/Users/mira/src/shop/{path}", new="line\n" * 50)
    script.say("Done.")
    assert "; cart.py changed, not committed" in script.outcome().headline


def test_what_is_left_to_do_is_kept(script: Script) -> None:
    script.ask("Rotate the key of the shop")
    script.edit()
    script.say("The code reads the key from the environment. You need to delete the old key by hand. Everything is tested.")
    assert script.outcome().left_to_do == "You need to delete the old key by hand"


def test_what_was_left_to_do_before_the_last_request_is_not(script: Script) -> None:
    script.ask("Rotate the key of the shop")
    script.edit()
    script.say("The fix is merged, but the issue with the proxy is still open.")
    script.ask("Close the issue")
    script.run("gh issue close 15", "Closed")
    assert script.outcome().left_to_do == ""


def test_a_page_to_open_is_not_left_to_do(script: Script) -> None:
    script.ask("Show the prices in a table")
    script.edit()
    script.say("The table is there. Open http://localhost:8080 and you should now see the prices.")
    assert script.outcome().left_to_do == ""


def test_an_answer_to_the_agent_s_question_is_no_request_of_its_own(script: Script) -> None:
    script.ask("Make a server that shows the prices of the shop")
    script.edit()
    script.say("The server runs. Do you want a bridge to the browser, or none?")
    script.ask("Preferably without the bridge")
    for number in range(9):
        script.edit(f"/Users/mira/src/shop/page{number}.py", new="line\n" * 30)
    script.say("Done.")
    assert "bridge" not in script.outcome().headline


def test_a_push_of_notes_pushes_no_commit(script: Script) -> None:
    script.ask("Round the total of the cart to cents")
    script.edit()
    script.run("git commit -am 'Round the total'", "[main 1234568] Round the total\n 1 file changed")
    script.run("git push origin refs/notes/ai", "To github.com:shop/cart.git\n * [new reference]   refs/notes/ai -> refs/notes/ai")
    script.say("Done.")
    assert script.outcome().headline == "Round the total; committed, not pushed"


def test_a_commit_whose_result_is_not_recorded_may_have_taken_the_changes(script: Script) -> None:
    script.ask("Round the total of the cart to cents")
    script.edit()
    assert "not committed" in script.outcome().headline
    script.add("tool.called", data={"tool": "Bash", "call_id": "last", "input": {"command": "git commit -am 'Round the total'"}})
    assert "not committed" not in script.outcome().headline
