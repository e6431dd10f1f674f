"""Short names for what a session was about and what came of it, from its outcome record."""

from __future__ import annotations

import re

from fleetlore.story.phrases import count_things
from fleetlore.views.outcomes.closing import ASKED, LAST_PLAN_REFUSED, PLAN_REFUSED, STOPPED
from fleetlore.views.outcomes.headline import ALSO_ASKED
from fleetlore.views.outcomes.landed import drop_trailer
from fleetlore.views.outcomes.output_text import MAX_CAUSE
from fleetlore.views.outcomes.record import Outcome, Trouble
from fleetlore.views.outcomes.request_text import capitalise_text as capitalise_text
from fleetlore.views.outcomes.words import drop_courtesy, is_unfinished

_polite = re.compile(
    r"(?i)^(?:(?:ok(?:ay)?|hi|hey|hello|so|now|please|great|thanks|yes|and)[,.!]? +)*"
    r"(?:(?:can|could|would|will) (?:you|we) (?:please |also |just |maybe )?"
    r"|i(?:'d| would) like (?:you )?to |i (?:want|need) (?:you )?to |we (?:want|need) to |let'?s |(?:plan|task|goal): +)?"
)
_command = re.compile(r"^/[\w:.-]+\s+")
_url = re.compile(r"\(?https?://\S+")
_path = re.compile(r"(?<![\w.@~/-])(?:[\w.@~-]{0,100}/){1,40}([\w.@-]{0,100}\.\w{1,20})(?=[:\s,;)]|$)")
_column = re.compile(r"(\.\w+:\d+):\d+\b")
_generated_agent = re.compile(r"[\w.-]+[/:]?[0-9a-f]{6,}(?:-[0-9a-f-]+)?|[0-9a-f-]{8,}")
LEAST_TOPIC_ROOM = 30
"""Characters of a topic that say something."""


def shorten_text(text: str, longest: int) -> str:
    """The text on one line, cut at a word."""
    text = " ".join(text.split())
    if len(text) <= longest:
        return text
    cut = text[: longest - 1]
    return (cut.rsplit(" ", 1)[0] if " " in cut else cut).rstrip(" ,;:.-(") + "…"


def shorten_result(text: str, longest: int) -> str:
    """The text on one line, cut where a part of it ends; at a word only if no part fits."""
    text = " ".join(text.split())
    if len(text) <= longest:
        return text
    cuts = [place for mark in ("; ", ", ", " (") if (place := text.rfind(mark, longest // 2, longest)) > 0]
    cuts = [place for place in cuts if text.count("(", 0, place) <= text.count(")", 0, place)]
    return text[: max(cuts)].rstrip(" ,;:.-") if cuts else shorten_text(text, longest)


def shorten_paths(text: str) -> str:
    """Without folders of paths, columns and web addresses: `cmd/cli/hooks.go:48:15` becomes `hooks.go:48`."""
    return " ".join(_column.sub(r"\1", _path.sub(r"\1", _url.sub("", text))).split())


_no_news = re.compile(
    r"(?i)(?:edit|search|reading a file|write stdin|read|todo\w*|(?:echo|printf|cat|cd|sleep|test|true)\b[^:]{0,40}) failed"
)
"""What an agent repairs by itself: the text to replace was not found, a wait ran out."""
_no_name = re.compile(r"[^:]{0,60}[`'\"$<>|{}]")
"""Words of a text that was taken for a command."""
_empty_cause = re.compile(
    r"(?i)\W*(?:error: )?(?:script \S+ exited with code \d+|exit(?:ed with)?(?: code| status)? \d+|found \d+ errors?|item \d+ failed"
    r"|test suite failed to run|tests?(?: suites)?:(?:,? +\d+ \w+)+|process completed with exit code \d+|command failed[^:]{0,60}"
    r"|husky - .*|[\w ./-]{1,40} v?\d+\.\d+[\w.-]{0,30}(?: \(.{1,40}\))?|\S+ \(?[\d.]+m?s\)?|\d+ ?\|.*|\{.*|\[\{.*|\W*)\W*"
)
"""A cause that does not say what is wrong."""
_no_failure = re.compile(r" \((?:(?!fail|error|issue|problem|finding|[✖×])[^()]|\(\d+\))+\)", re.IGNORECASE)
"""Counts of a failed run that has only successes: what failed is not a test."""
_no_cause = re.compile(r"[\w ]{1,30} could not run(?: \d+ times)?")
"""A check that did not run for an unknown reason: neither a success nor a failure."""
_bare_failure = re.compile(r'"[^"]{1,60}" failed')
"""A command that failed once, nobody knows why."""
_error_of_outcome = re.compile(r"(?:^F|; f)ailed: (.{1,400})$")
_times_failed = re.compile(r" \d+ times(?:, (?:first|last))?$")
_shell_marks = re.compile(
    r"^(?:\(eval\):\d+: |(?:/\S{1,60}/)?(?:ba|z|da)?sh: (?:-c: )?(?:line \d+: )?|ERR_[A-Z_]{3,60} |[^\w\s\"'`(\[./<@$~-]+ +)"
)
_tool_marks = re.compile(r"^(?:CONFLICT \([\w/ ]{1,30}\): |\[[A-Z]\] [^\w\s] +|(?:Error|error|fatal): (?=\w))")
_ci_row = re.compile(r"^X \S{1,100} (.{1,100}?) [\w.-]{1,60}/[\w.-]{1,60}#\d+ · \d+$")
"""The heading of a CI run in GitHub's command line: its branch, workflow, pull request and number."""
_one_of = re.compile(r"\(1 (issue|problem|error|warning|failure|finding)s\)")
_hook_marks = re.compile(r"(?:\.? Did you mean| \[Context):?.{0,300}$|,? see:? {0,3}(?:\(.{0,300})?$|\[(?:FAILED|STARTED|COMPLETED)\]|^❯ ")
_api_message = re.compile(r'^(.{0,60}?)\s*\{.{0,200}?"message":\s*"([^"]{4,200})".*$')


def list_notable_troubles(one: Outcome) -> list[Trouble]:
    """The troubles of a session that a reader wants to know of, and whose name is that of a command or a check."""
    found = [trouble for trouble in one.troubles if not _no_news.match(trouble.what) and not _no_name.match(trouble.what)]
    told = [(trouble, describe_trouble(trouble, MAX_CAUSE)) for trouble in found]
    found = [trouble for trouble, words in told if not (_no_cause.fullmatch(words) or _bare_failure.fullmatch(words))]
    error = find_error(one)
    return [trouble for trouble in found if not (error and trouble.cause and trouble.cause[:ENOUGH_OF_CAUSE] in error)]


def find_error(one: Outcome) -> str:
    """The error that ended the session, as its outcome says."""
    found = _error_of_outcome.search(one.outcome) if one.status == "failed" else None
    return found[1].rstrip(".") if found else ""


ENOUGH_OF_CAUSE = 60
"""Characters by which a cause is found in the name of a trouble, which may be cut."""
_named_trouble = re.compile(
    r"(?i)(?:tests|lint|type check|build|ci|commit|push|pull request|merge|rebase|cherry-pick|pull|revert|stash|edits?|search|the|a)\b"
)


def _name_trouble(what: str) -> str:
    """`Tests failed`; of a command or another tool `"git pull" failed`."""
    command, found, rest = what.partition(" failed")
    return what if not found or _named_trouble.match(what) else f'"{quote_inside(command)}" failed{rest}'


def describe_trouble(trouble: Trouble, longest: int) -> str:
    """`Lint failed 2 times: hooks.go:48 unused variable`: the cause only if it says something."""
    what, _, cause = trouble.what.partition(": ")
    if trouble.cause and (at := trouble.what.find(trouble.cause[:ENOUGH_OF_CAUSE])) > 0:
        what, cause = trouble.what[:at].rstrip(": "), trouble.cause
    what = _one_of.sub(r"(1 \1)", _no_failure.sub("", what))
    if what.startswith("CI "):  # a failed run may be looked at several times
        what = _times_failed.sub("", what)
    what = _name_trouble(what.replace(".)", ")"))
    cause = clean_cause(cause, max(40, longest - len(what)))
    return f"{what}: {cause}" if cause else re.sub(r", (?:first|last)$", "", what)


def clean_cause(cause: str, longest: int) -> str:
    """Why something failed, without the marks of tools; empty if the text does not say it."""
    if len(cause) >= MAX_CAUSE or cause.count("`") % 2:  # the record has only the beginning
        cause = f"{cause.rstrip('…. ')}…" if cause.count("`") % 2 else f"{cause.rpartition(' ')[0]}…"
    text = _api_message.sub(r"\1 \2", " ".join(_hook_marks.sub(" ", shorten_paths(cause)).split()))
    text = _ci_row.sub(r"\1", _tool_marks.sub("", _shell_marks.sub("", text)))
    return "" if _empty_cause.fullmatch(text) else shorten_text(text, longest).rstrip(".:! ")


def mark_open_end(text: str) -> str:
    """The text with a mark that it goes on, if its last word cannot be its end."""
    return f"{text}…" if is_unfinished(text) else text


def quote_inside(text: str) -> str:
    """The text for a place between double quotes."""
    return text.replace('"', "'")


def name_request(one: Outcome, longest: int) -> str:
    """What was asked, in short form: without a greeting, a slash command or an address in front."""
    asked = _url.sub("", _command.sub("", one.asked)).strip()
    text = drop_courtesy(_polite.sub("", asked, count=1)).strip(" \"'`") or one.asked or one.name
    if len(text) < len(asked):  # "can you fix the build?" is a request
        text = text.rstrip("?")
    if text.count("(") > text.count(")"):  # the rest of the parenthesis was an address, or is cut off
        text = text.rpartition("(")[0].rstrip() or text
    first = text.partition(" ")[0]
    if first.isalpha() and first.islower():  # not the name of a file or a function
        text = text[:1].upper() + text[1:]
    return shorten_text(mark_open_end(text.rstrip(" :.")), longest)


def name_topic(one: Outcome, longest: int) -> str:
    """What the session is about: its title or its largest requests, else what was asked."""
    topic = one.about or one.title
    return shorten_text(topic, longest).rstrip(".") if topic else name_request(one, longest)


def has_result(one: Outcome) -> bool:
    """Whether the headline says more than what was asked."""
    return bool(one.result) and not one.result.startswith(ASKED)


def name_result(one: Outcome, longest: int) -> str:
    """What came of the session, as its headline says; what it is about if nothing is known to have come of it."""
    if not has_result(one):
        return name_topic(one, longest)
    text = one.result if len(one.result) <= longest else _count_also_asked(one.result)
    if len(text) > longest and one.said and text.endswith(f": {one.said}"):  # what it is about is told before, and less important
        room = longest - len(one.said) - 2
        topic = text[: -len(one.said) - 2]
        text = f"{shorten_text(topic, room)}: {one.said}" if room >= LEAST_TOPIC_ROOM else one.said
    return shorten_list(text, longest, "commit" if one.delivered.commits else "more request").rstrip(".")


def _count_also_asked(result: str) -> str:
    """The result with a number instead of the request that what landed does not answer."""
    landed, found, asked = result.partition(ALSO_ASKED)
    if not found:
        return result
    parts, count, _ = _split_list(landed)
    requests = count_more_requests(1 + int((_split_list(asked)[2] or "+0").split()[0]))
    return "; ".join(parts) + _count_left(count, "commit", requests)


_count = re.compile(r" \((?:\+(?P<things>\d+) (?:commit|more)s?)?(?:, )?(?P<requests>\+\d+ more requests?)?\)$")


def shorten_list(text: str, longest: int, thing: str) -> str:
    """A result of several parts, cut after a whole part; it says how many things were left out."""
    text = " ".join(text.split())
    if len(text) <= longest:
        return text
    parts, count, requests = _split_list(text)
    kept = len(parts)
    while kept > 1 and len("; ".join(parts[:kept])) + COUNT_ROOM > longest:
        kept -= 1
    left = count + len(parts) - kept
    if thing == "more request":
        left, requests = 0, count_more_requests(left + int(requests.split()[0] if requests else 0))
    if not left and not requests:
        return shorten_result(text, longest)
    return shorten_result("; ".join(parts[:kept]), longest - COUNT_ROOM) + _count_left(left, thing, requests)


def _split_list(text: str) -> tuple[list[str], int, str]:
    """The parts of a result, how many more things it counts, and how many more requests: `+2 more requests`."""
    found = _count.search(text)
    if found is None:
        return text.split("; "), 0, ""
    return text[: found.start()].split("; "), int(found["things"] or 0), found["requests"] or ""


def _count_left(count: int, thing: str, requests: str) -> str:
    things = f"+{count} more" if thing == "more" else f"+{count_things(count, thing)}"
    counts = [each for each in (things if count else "", requests) if each]
    return f" ({', '.join(counts)})" if counts else ""


def count_more_requests(count: int) -> str:
    """`+2 more requests`; nothing for none."""
    return f"+{count_things(count, 'more request')}" if count else ""


COUNT_ROOM = 19
"""Characters of " (+12 more requests)"."""


def find_part(one: Outcome, *starts: str) -> str:
    """The last part of the headline that begins so."""
    return next((part for part in reversed(one.headline.split("; ")) if part.startswith(starts)), "")


def describe_end(one: Outcome) -> str:
    """How a session that is not finished ended, as its headline says: `stopped during "please push"`."""
    return find_part(one, STOPPED, PLAN_REFUSED, LAST_PLAN_REFUSED)


def title_delivery(one: Outcome, longest: int) -> str:
    """What a session with commits or pull requests delivered: as many of its commits as there is room for."""
    text = name_result(one, longest)
    text, also, asked = text.partition(ALSO_ASKED)
    if also:
        return f"{text}{also}{asked}"
    parts, left, requests = _split_list(text)
    if not left or len(one.delivered.commits) <= 1:
        return text
    shown = "; ".join(parts)
    for commit in one.delivered.commits:
        other = shorten_text(drop_trailer(commit.subject), 120).rstrip(". ")
        if left and other and other not in shown and len(shown) + len(other) + COUNT_ROOM <= longest:
            shown, left = f"{shown}; {other}", left - 1
    return shown + _count_left(left, "commit", requests)


def has_discarded(one: Outcome) -> bool:
    """Whether some changes were thrown away."""
    return any(flag.executed and flag.what.startswith("uncommitted changes discarded") for flag in one.flags)


def name_agent(agent: str) -> str:
    """The last part of an agent's name; nothing for a name that a program made up."""
    short = agent.rstrip("/").rpartition("/")[2]
    return "" if _generated_agent.fullmatch(agent) or _generated_agent.fullmatch(short) else short


def name_repo(one: Outcome) -> str:
    """The repository without its owner; nothing for a person's home folder."""
    name = (one.repo or "").rpartition("/")[2]
    return "" if name == one.person else name


def format_usd(usd: float | None) -> str:
    """`$12.30`; nothing for an unknown price."""
    return "" if not usd else f"${usd:,.2f}" if usd >= 0.005 else "under $0.01"
