"""Sanitises text for prompts, so that no text can start a heading, end its block, or hide a part of itself.

A prompt is read like Markdown. Ours has headings (`## …`) and records, whose lines start with `> `. Text from the log
is always quoted as a record. Text of the people who set the agent up is not quoted, but Markdown syntax in it is
escaped with a backslash.
"""

from __future__ import annotations

import re

RECORD_MARK = "> "
"""Starts every line of a record."""
LINE_BREAK_MARK = " / "
"""Replaces line breaks in one-line text."""
MAX_NAME_CHARS = 60

# Control characters, bidirectional marks, invisible fillers and tags, and lone surrogates.
# Line breaks are handled before. The joiners U+200C and U+200D and the emoji selectors U+FE0E and U+FE0F are part of words.
_INVISIBLE_CHARS = re.compile(
    "[\x00-\x08\x0e-\x1b\x1f\x7f-\x84\x86-\x9f\xad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180e\u200b\u200e\u200f\u202a-\u202e"
    "\u2060-\u206f\u3164\ufe00-\ufe0d\ufeff\uffa0\ufff9-\ufffb\U0001d173-\U0001d17a\U000e0000-\U000e0fff\ud800-\udfff]"
)
# A joiner or emoji selector after one of these characters is part of no word: it only hides a control token.
# A selector before U+20E3 is a keycap emoji.
_HIDING_JOINERS = re.compile("(?<=[\x00-\x7f｜▁])[\u200c\u200d\ufe0e\ufe0f]+(?!\u20e3)")
CONTROL_TAGS = {
    "Llama 2": "s",
    "Gemma": "start_of_turn end_of_turn start_of_image end_of_image bos eos pad unk mask",
    "Qwen and Hermes": "tool_call tool_response tools think",
    "GLM and MiniMax": "sop eop arg_key arg_value minimax:tool_call",
    "Baichuan, InternLM, Nemotron, T5": "reserved_[0-9]+ extra_id_[0-9]+ special_[0-9]+ tokens_unused_[0-9]+ eoh eoa eos_token",
    "Seed and Gemma 4": "seed:[a-z_:]+ start_function_call end_function_call start_function_response end_function_response",
    "code completion": "fim_prefix fim_middle fim_suffix fim_pad repo_name file_sep pre mid suf eot",
    "Anthropic": "antml:[a-z_]+ system-reminder system function_calls function_results function invoke parameter tool_use "
    "tool_result thinking command-name command-message command-args task-notification local-command-stdout local-command-stderr "
    "local-command-caveat user-prompt-submit-hook bash-stdout bash-stderr bash-input",
    "other harnesses": "user_instructions environment_context permissions instructions developer assistant user human tool_code "
    "tool_output tool_outputs session_context user_query environment_details execute_command attempt_completion feedback turn_aborted "
    "user_shell_command ephemeral_message additional_data execute_bash execute_ipython_cell scratch_pad read_file write_to_file "
    "ask_followup_question antThinking antArtifact",
    "vision": "box_start box_end object_ref_start object_ref_end",
}
"""Names of tags that model servers and harnesses may take for their own, by family. `<|…|>` and DeepSeek's `<｜…｜>` are always theirs."""
CONTROL_BRACKETS = {
    "Llama 2": "[INST] [/INST]",
    "Mistral": "[SYSTEM_PROMPT] [/SYSTEM_PROMPT] [AVAILABLE_TOOLS] [/AVAILABLE_TOOLS] [TOOL_CALLS] [/TOOL_CALLS] [TOOL_RESULTS] "
    "[/TOOL_RESULTS] [TOOL_CONTENT] [MODEL_SETTINGS] [/MODEL_SETTINGS] [ARGS] [CALL_ID] [THINK] [/THINK] [PREFIX] [MIDDLE] [SUFFIX] "
    "[IMG] [IMG_END] [IMG_BREAK] [AUDIO]",
    "EXAONE": "[|system|] [|user|] [|assistant|] [|tool|] [|endofturn|]",
    "GLM and MiniMax": "[gMASK] [sMASK] ]~b] ]~!b[ [e~[",
}
"""The same, without a tag."""
_BARS = "|｜¦∣‖￨│┃"
_ANY_WIDTH = {"[": r"[\[［]", "]": r"[\]］]", "<": "[<＜]"}
_CONTROL_TOKENS = re.compile(
    # `<<SYS>>` of Llama 2 is a tag after another `<`. Signs of other widths look the same to a model, so they count, too.
    rf"[<＜﹤](?=[{_BARS}])|(?<=[{_BARS}])[>＞﹥]"
    rf"|[<＜﹤](?=[/／]?(?:{'|'.join(sorted(' '.join(CONTROL_TAGS.values()).split(), reverse=True))})[\s>＞﹥/=\"'])|<(?=</?sys>)|"
    + "|".join(
        f"{_ANY_WIDTH.get(token[0], token[0])}(?={''.join(_ANY_WIDTH.get(char, re.escape(char)) for char in token[1:])})"
        for token in " ".join(CONTROL_BRACKETS.values()).split()
    ),
    re.IGNORECASE,
)
_TOKEN_STARTS = frozenset("<[]|")
_TOKEN_REPLACEMENTS = {
    "<": "< ",
    ">": " >",
    "[": "[ ",
    "]": "] ",
    "＜": "＜ ",
    "﹤": "﹤ ",
    "＞": " ＞",
    "﹥": " ﹥",
    "［": "［ ",
    "］": "］ ",
}
_MARKDOWN_SYNTAX = re.compile(r"[#＃﹟>]|(?:=+|-{2,}|\*{3,}|_{3,})\s*$")
_CODE_FENCE = re.compile(r"\s*(?:```|~~~)")
_RESERVED_NAMES = frozenset(("you", "the scene", "a visitor"))


def sanitize_line(text: str, max_chars: int) -> str:
    """Any text as one line of at most `max_chars`."""
    lines = (" ".join(line.split()) for line in _remove_unsafe_chars(text[: 8 * max_chars]).splitlines())
    return truncate_text(LINE_BREAK_MARK.join(filter(None, lines)), max_chars)


def sanitize_name(text: str) -> str:
    """A speaker's name: one line without a colon, which would end it, and never one of our own labels."""
    name = sanitize_line(text, MAX_NAME_CHARS).replace(":", "·") or "someone"
    return f"“{name}”" if name.casefold() in _RESERVED_NAMES else name


def quote_record(text: str, max_chars: int) -> str:
    """Text from the log, with every line marked as a record; empty lines are dropped."""
    lines = (line.rstrip() for line in truncate_text(_remove_unsafe_chars(text), max_chars).splitlines())
    return "\n".join(f"{RECORD_MARK}{_escape_markdown(line.expandtabs(4), has_open_fence=True)}" for line in lines if line.strip())


def sanitize_text(text: str) -> str:
    """Text of the people who set the agent up, with a backslash before lines that would be a heading, a record or a rule."""
    lines = [line.rstrip() for line in _remove_unsafe_chars(text).splitlines()]
    has_open_fence = sum(1 for line in lines if _CODE_FENCE.match(line)) % 2 == 1
    return "\n".join(_escape_markdown(line, has_open_fence=has_open_fence) for line in lines).strip("\n")


def truncate_text(text: str, max_chars: int) -> str:
    """The beginning of a text, with an ellipsis if something is missing."""
    return text if len(text) <= max_chars else f"{text[: max(0, max_chars - 1)].rstrip()}…"


def truncate_middle(text: str, max_chars: int) -> str:
    """The beginning and the end of a text, with a note how much was left out. Replaces what cannot be encoded."""
    text = text.encode("utf-8", "replace").decode("utf-8", "replace")
    if len(text) <= max_chars:
        return text
    note = f"\n… {len(text) - max_chars:,} characters left out …\n"
    kept = max(0, max_chars - len(note))
    return text[: kept - kept // 2] + note + text[len(text) - kept // 2 :]


def truncate_block(text: str, max_chars: int) -> str:
    """The beginning of a sanitised text, which stays safe: an open code block is closed."""
    shortened = truncate_text(text, max_chars)
    has_open_fence = sum(1 for line in shortened.splitlines() if _CODE_FENCE.match(line)) % 2 == 1
    return f"{shortened}\n```" if has_open_fence else shortened


def _escape_markdown(line: str, *, has_open_fence: bool) -> str:
    """Also escapes code fences if one is never closed, as it would swallow what follows."""
    stripped = line.lstrip()
    if _MARKDOWN_SYNTAX.match(stripped) or (has_open_fence and _CODE_FENCE.match(stripped)):
        return f"{line[: len(line) - len(stripped)]}\\{stripped}"
    return line


def _remove_unsafe_chars(text: str) -> str:
    if text.isascii() and text.isprintable() and not _TOKEN_STARTS.intersection(text):
        return text
    visible = _HIDING_JOINERS.sub("", _INVISIBLE_CHARS.sub("", text))
    return _CONTROL_TOKENS.sub(lambda match: _TOKEN_REPLACEMENTS[match[0]], visible)
