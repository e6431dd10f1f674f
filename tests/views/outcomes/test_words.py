"""Short texts: the first sentence with content, and open questions."""

from __future__ import annotations

import pytest

from fleetlore.views.outcomes.reports import find_answer, find_change, is_whole, list_content_words
from fleetlore.views.outcomes.request_text import name_request
from fleetlore.views.outcomes.words import first_sentence, is_announcement, last_question


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Fix the parser. It fails on tabs.", "Fix the parser."),
        ("Implement the following plan:\n\n# Move the cache to disk\n\n## Context\nIt is slow.", "Move the cache to disk"),
        ("```\nTypeError: x\n```\nWhy does this fail?", "Why does this fail?"),
        ("```\nTypeError: x\n```", "TypeError: x"),
        ("Please address the following:\n- the timeout of the client is ignored", "the timeout of the client is ignored"),
        ("use **bold** and [a link](https://example.com/x) in `code`", "use bold and a link in code"),
        ("", ""),
        ("---\n\n", ""),
    ],
)
def test_a_request_is_quoted_by_its_first_content(text: str, expected: str) -> None:
    assert first_sentence(text) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Done. The client now retries twice.", "The client now retries twice."),
        ("Perfect! All tests pass. The login page shows an error now.", "The login page shows an error now."),
        (
            "All tests pass and lint is clean. Here's a summary:\n\n## Changes\n\n- Added a timeout to the client",
            "Added a timeout to the client",
        ),
        ("Here's what I did:\n\n1. **Cache** - entries expire after an hour", "Cache - entries expire after an hour"),
        ("Both requests now have a timeout of two minutes:\n```go\nx\n```", "Both requests now have a timeout of two minutes"),
        ("Done.", "Done."),
        ("All tests pass.", "All tests pass."),
    ],
)
def test_an_answer_is_quoted_by_what_was_done(text: str, expected: str) -> None:
    assert first_sentence(text, is_answer=True) == expected


def test_a_long_sentence_is_cut_at_a_word() -> None:
    assert first_sentence("word " * 100, limit=20) == "word word word…"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Changed two files. Ready to commit?", "Ready to commit?"),
        ("Which one do you want?\n1. the first\n2. the second", "Which one do you want?"),
        ("Why did it fail? The cache was empty.", ""),
        ("Done.", ""),
        ("", ""),
        ("Built it. Let me know what you think of the new design!", ""),
        ("Built it. Let me know what you would like to tackle next!", ""),
        ("Two ways. Let me know which one to build.", "Let me know which one to build."),
    ],
)
def test_an_open_question_stands_at_the_end(text: str, expected: str) -> None:
    assert last_question(text) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("The fix works. Let me verify that all tests pass.", True),
        ("Now I'll update the other caller:", True),
        ("Done. Let me know if you want more.", False),
        ("The tests pass now.", False),
        ("Should I go on?", False),
        ("", False),
    ],
)
def test_an_announcement_is_no_answer(text: str, expected: bool) -> None:
    assert is_announcement(text) is expected


def test_hostile_text_takes_little_time() -> None:
    for text in ("(" * 50_000, "a: " * 50_000, "all the " * 20_000, "**" * 50_000, "? " * 50_000, "[x](" * 20_000, "1. " * 50_000):
        first_sentence(text, is_answer=True)
        last_question(text)
        is_announcement(text)


@pytest.mark.parametrize(
    ("prompt", "expected"),
    [
        ("Just noticed these two jobs failing. Can you open a draft PR fixing them?", "Can you open a draft PR fixing them?"),
        ("Fix the parser. Can you also add a test?", "Fix the parser."),
        ("Why is the cart slow? Please look at the log.", "Why is the cart slow?"),
        ("The cart is slow.", "The cart is slow."),
        ("<system_instruction>You are working inside an app.</system_instruction>\nFix the parser.", "Fix the parser."),
        ("You are the cache agent. You work in shop/. Add a cache to the cart.", "Add a cache to the cart."),
    ],
)
def test_a_request_is_the_sentence_that_asks(prompt: str, expected: str) -> None:
    assert first_sentence(prompt) == expected


def test_the_second_sentence_of_a_prompt_may_ask() -> None:
    prompt = "ok the bot has many comments, most can be ignored. The other ones look valid and should be addressed."
    assert first_sentence(prompt) == "The other ones look valid and should be addressed."


@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        ("All 104 tests pass. The selected pairs are now forwarded to the agents.", "The selected pairs are now forwarded to the agents"),
        ("Done. I've removed the second query of the agents' pairs.", "Removed the second query of the agents' pairs"),
        (
            "Implemented it. Forwarding of the selected pairs no longer drops an agent.",
            "Forwarding of the selected pairs no longer drops an agent",
        ),
        # Not understood alone, or not about the request.
        ("Added a cache for the prices.", ""),
        ("The fix now forwards the selected pairs to the agents.", ""),
        ("This now forwards the selected pairs to the agents.", ""),
        ("Removed:\n- **Pairs** - Added nested links of pairs to the agents", ""),
        ("Added a prompt for agents that tells the selected pairs to:\n- use the tools", ""),
        ("The selected pairs of the agents are now pushed to the branch.", ""),
        # Not done, or only wished.
        ("I would have removed the selected pairs of the agents.", ""),
        ("The selected pairs are now forwarded, but not to the agents.", ""),
        ("Should the selected pairs be removed from the agents?", ""),
        ("I've updated them so that the selected pairs reach the agents.", ""),
    ],
)
def test_a_report_of_a_change_stands_alone_and_has_words_of_the_request(answer: str, expected: str) -> None:
    assert find_change(answer, list_content_words("Forward the selected pairs to all agents")) == expected


@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        ("The cache is cold after each deployment. It is filled by requests.", "The cache is cold after each deployment"),
        ("No, it keeps its entries.", "No, it keeps its entries"),
        (
            "I read the code.\n\n**Root cause:** the key of the cache has the time in it.",
            "Root cause: The key of the cache has the time in it",
        ),
        ("Two options for the cache, from simple to proper:\n\n1. Drop it", ""),
        ("This is what happens with the cache of the shop.", ""),
        ("Let me look at the cache first.", ""),
        ("- the cache is cold\n- the cache is small", ""),
        ("The weather is fine in the north.", ""),
    ],
)
def test_an_answer_is_a_whole_sentence_about_the_question(answer: str, expected: str) -> None:
    assert find_answer(answer, list_content_words("why is the cache so slow?")) == expected


@pytest.mark.parametrize(
    ("prompt", "expected"),
    [
        ("can you fix the build of the shop?", "Fix the build of the shop"),
        ("Why does the checkout answer with 502?", "Why does the checkout answer with 502?"),
        ("Review this PR: https://github.com/shop/cart/pull/736", "Review pull request #736"),
        ("https://github.com/shop/cart/pull/9 address the feedback of ada", "Address the feedback of ada (pull request #9)"),
        ("/plan:new write the docs of the cart", "Write the docs of the cart"),
        ("the total of the cart has three digits", "The total of the cart has three digits"),
        ("fix that", ""),
        ("continue", ""),
    ],
)
def test_a_request_is_named_in_the_words_of_the_person(prompt: str, expected: str) -> None:
    assert name_request(prompt) == expected


@pytest.mark.parametrize("sentence", ["With the cache (12 ms", 'It says "no', "Done", "Here's what changed in the cart", "word " * 40])
def test_a_part_of_a_sentence_is_not_whole(sentence: str) -> None:
    assert not is_whole(sentence)
