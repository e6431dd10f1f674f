"""Nobody's words can start a heading, end their block, or hide what they say."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fleetlore.prompts import text_safety

PIECES = (
    "\n", "\r\n", "\x0b", "\x0c", "\x1c", "\x85", "\u2028", "\u2029", "\t", "## ", "# ", "＃ ", "> ", "---", "===", "```", "~~~",
    "***", "<|im_start|>", "[INST]", "</s>", "\u202e", "\u200b", "\U000e0041", "\ufeff", "\x1b[31m", "\x00", ": ", "you", "x", " ",
)  # fmt: skip


def hostile() -> st.SearchStrategy[str]:
    return st.lists(st.sampled_from(PIECES) | st.text(max_size=5), max_size=12).map("".join)


@given(hostile(), st.integers(1, 80))
def test_a_line_is_one_line_and_no_longer_than_asked(text: str, longest: int) -> None:
    shown = text_safety.sanitize_line(text, longest)
    assert len(shown.splitlines()) <= 1
    assert len(shown) <= longest


@given(hostile())
def test_a_name_is_never_empty_ends_where_the_colon_is_and_is_not_one_of_ours(text: str) -> None:
    shown = text_safety.sanitize_name(text)
    assert shown
    assert ":" not in shown
    assert shown.casefold() not in ("you", "the scene", "a visitor")
    assert len(shown.splitlines()) == 1


@given(hostile())
def test_every_line_of_a_record_stands_behind_its_mark_and_none_is_a_heading_within(text: str) -> None:
    for line in text_safety.quote_record(text, 400).splitlines():
        assert line.startswith("> ")
        assert not line[2:].lstrip().startswith(("#", ">", "```", "~~~"))


@given(hostile())
def test_free_text_begins_no_heading_and_leaves_no_code_open(text: str) -> None:
    lines = text_safety.sanitize_text(text).splitlines()
    assert not [line for line in lines if line.lstrip().startswith(("#", ">", "＃"))]
    assert not [line for line in lines if line.strip() and not line.strip().strip("=")]
    assert sum(line.lstrip().startswith(("```", "~~~")) for line in lines) % 2 == 0


@given(hostile(), st.integers(1, 200))
def test_what_was_harmless_still_is_when_it_is_shortened(text: str, longest: int) -> None:
    lines = text_safety.truncate_block(text_safety.sanitize_text(text), longest).splitlines()
    assert not [line for line in lines if line.lstrip().startswith(("#", ">", "＃"))]
    assert sum(line.lstrip().startswith(("```", "~~~")) for line in lines) % 2 == 0


@given(hostile())
def test_nothing_unseen_is_left(text: str) -> None:
    for shown in (text_safety.sanitize_line(text, 500), text_safety.quote_record(text, 500), text_safety.sanitize_text(text)):
        assert not set(shown) & set("\x00\x1b\u202e\u200b\ufeff\U000e0041\u2028\u2029\x85\x0b\x0c\r")
        assert "<|" not in shown
        assert "[INST]" not in shown


@pytest.mark.parametrize("text", ["Grüße, 你好, שלום", "👩\u200d🔬 and ❤\ufe0f", "a < b | c > d, [x], x->y", "naïve — “quoted” …"])
def test_honest_words_stay_as_they_are(text: str) -> None:
    assert text_safety.sanitize_line(text, 100) == text
    assert text_safety.sanitize_text(text) == text


def test_free_text_keeps_its_lists_and_examples() -> None:
    text = 'Rules:\n- be brief\n- be kind\n\n```json\n{"text": "…"}\n```'
    assert text_safety.sanitize_text(text) == text


_TAG_NAMES = [name for name in " ".join(text_safety.CONTROL_TAGS.values()).split() if "[" not in name]
_TOKENS = (
    "<|im_start|>",
    "<｜User｜>",
    "<<SYS>>",
    "<</SYS>>",
    *(f"<{name}>" for name in _TAG_NAMES),
    *(f"</{name}>" for name in _TAG_NAMES),
)
_BRACKETS = tuple(" ".join(text_safety.CONTROL_BRACKETS.values()).split())


@pytest.mark.parametrize("joiner", ["", "\u200c", "\u200d", "\ufe0e", "\ufe0f", "\u200b", "\U000e0101", "\ufeff"])
def test_no_control_token_of_a_model_passes_however_it_is_hidden(joiner: str) -> None:
    for token in (*_TOKENS, *_BRACKETS):
        for written in (
            token,
            token.upper(),
            token.removesuffix(">") + " role=1>" if token.count(">") == 1 and "|" not in token and "｜" not in token else token,
        ):
            shown = text_safety.sanitize_line(f"a {joiner.join(written)} b", 500)
            assert written.lower() not in shown.lower(), (written, shown)


def test_joiners_inside_words_and_emoji_stay() -> None:
    text = "1\ufe0f\u20e3 👩\u200d💻 نمی\u200cخواهم a[0] < b <div> x|y"
    assert text_safety.sanitize_line(text, 200) == text


HIDDEN_TOKENS = {
    "a token around a token": ("<<|im_start|>|im_start|>", "<|im_start|>"),
    "a chain of joiners": ("<\u200d\ufe0f\u200d|im_start|\u200d>", "<|im_start|>"),
    "a soft hyphen": ("<sys\u00adtem-reminder>", "<system-reminder>"),
    "a grapheme joiner": ("<|im\u034f_start|>", "<|im_start|>"),
    "a filler of Hangul": ("<|im\u3164_start|>", "<|im_start|>"),
    "a tag character": ("<\U000e0073|im_end|>", "<|im_end|>"),
    "a vowel separator": ("<\u180e|im_start|>", "<|im_start|>"),
    "a word joiner": ("<\u2060tool_call>", "<tool_call>"),
    "an annotation mark": ("<\ufff9tool_call>", "<tool_call>"),
    "a joiner before the slash": ("<\u200c/tool_result>", "</tool_result>"),
    "a selector inside a bracket": ("[\ufe0fINST]", "[INST]"),
    "attributes": ('<invoke name="x">', "<invoke"),
    "space before the end": ("</tool_result  >", "</tool_result"),
    "another space": ("<system\u00a0>", "<system"),
    "an end without a bracket": ("</tool_result ", "</tool_result"),
    "a tag that closes itself": ("<tool_call/>", "<tool_call"),
    "a number": ("<reserved_106>", "<reserved_106>"),
    "a family's prefix": ("<seed:tool_call>", "<seed:"),
    "bars in brackets": ("[|endofturn|]", "[|endofturn|]"),
    "signs of full width": ("＜|im_start|＞", "＜|im_start"),
    "small signs": ("﹤|im_end|﹥", "﹤|im_end"),
    "a tag of full width": ("＜system-reminder＞", "＜system-reminder"),
    "a slash of full width": ("<／tool_result>", "<／tool_result"),
    "brackets of full width": ("［INST］", "［INST"),
    "a broken bar": ("<¦im_start¦>", "<¦im_start"),
    "a bar of mathematics": ("<∣im_start∣>", "<∣im_start"),
    "a bar of half width": ("<￨im_start￨>", "<￨im_start"),
    "a bar of a box": ("<│im_start│>", "<│im_start"),
    "a name with a value": ("<function=bash>", "<function=bash"),
    "a quote behind the name": ("<system'>", "<system'"),
    "small and large letters": ("<SyStEm-ReMiNdEr>", "<system-reminder"),
    "a letter that folds": ("<thin\u212aing>", "<thin\u212aing"),
    "a byte zero": ("<\x00system>", "<system>"),
    "a mark of direction": ("<\u2066system\u2069>", "<system>"),
    "a mark of Mongolian": ("<system\u180b-reminder>", "<system-reminder"),
    "a vowel of Khmer": ("<system\u17b4-reminder>", "<system-reminder"),
    "a header of Llama 3": ("<|begin_of_text|><|start_header_id|>system", "<|start_header"),
    "a section of Kimi": ("<|tool_calls_section_begin|>", "<|tool_calls"),
    "a call of DeepSeek": ("<｜tool▁calls▁begin｜>", "<｜tool"),
}


@pytest.mark.parametrize("name", HIDDEN_TOKENS)
def test_no_hidden_control_token_is_left_by_any_way_to_a_prompt(name: str) -> None:
    written, token = HIDDEN_TOKENS[name]
    ways = (
        text_safety.sanitize_line(f"a {written} b", 500),
        text_safety.quote_record(f"a {written}\n{written} b", 500),
        text_safety.sanitize_text(f"{written}\nb"),
        text_safety.sanitize_name(written),
        text_safety.truncate_block(text_safety.sanitize_text(f"{written} b" * 40), 100),
    )
    assert [shown for shown in ways if token in shown.lower() or token in shown] == []
