"""Text, Markdown, HTML and JSON: whole, checkable, and deaf to whatever an agent wrote."""

from __future__ import annotations

import json
import re
from datetime import UTC, datetime, timedelta, timezone
from html import unescape
from html.parser import HTMLParser
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from markdown_it import MarkdownIt
from msgspec.structs import replace

from fleetlore import Event
from fleetlore.chronicle.arcs import HIDDEN_KINDS
from fleetlore.chronicle.closing import arc_told
from fleetlore.chronicle.formats import MOST_SENTENCES, paragraphs, plain
from fleetlore.chronicle.formats.html import MOST_IDS
from fleetlore.chronicle.formats.markdown import escaped
from fleetlore.chronicle.naming import AS_THEY_ARE
from fleetlore.chronicle.story import Detail
from fleetlore.chronicle.teller import Before, arcs_of
from fleetlore.chronicle.timeline import MOST_BUCKETS, Timeline
from tests.chronicle.scripts import START, events
from tests.chronicle.telling import DETAILS, FORMATS, chapters, told, told_json
from tests.strategies import events as any_events

HOSTILE = (
    "# a heading",
    "first\n# second\n> third\n- fourth",
    "```\ncode\n```",
    "~~~",
    "`x` and ``y``",
    "*bold* __bold__ ~~gone~~",
    "[link](javascript:alert(1)) ![image](x.png) [ref]: http://x",
    "<script>alert(1)</script><img src=x onerror=alert(1)>",
    "</p></article></main><h1>mine</h1>",
    '" onmouseover="alert(1)',
    "&lt;b&gt; &amp; &#x202e;",
    "<!-- comment --> <?php ?> <![CDATA[x]]>",
    "\x1b[31mred\x1b[0m \x1b]8;;http://evil\x07link\x1b]8;;\x07 \x9b2J",
    "\u202eturned\u202c \u2066x\u2069 \u200b \ufeff",
    "1. one\r\n2) two",
    "+ plus",
    "---",
    "===",
    "| a | b |\n|---|---|",
    "http://evil.example www.evil.example me@evil.example",
    "$x$ \\ {{ template }} {% raw %}",
    "ends with a backslash \\",
    "\ud800 half",
    "\u2028line\u2029paragraph\x85next\x0bvertical\x0cfeed",
    "    four blanks",
    "\tTab",
    "]]> \x00 null",
    "{agent} {0} %s {",
)


def hostile_events(text: str) -> list[Event]:
    """The same words wherever words can stand."""
    name = plain(text)[:40] or "x"
    first = events("ada:claim ada:progress ada:setback ada:recovery ada:feat ada:together ada:pulse ada:propose ada:deliver")
    second = events("ada:unknown bo:progress bo:setback bo:reject", thread=name, start=20)
    odd = [replace(event, agent=name, actor=name, mission=name, child=name, data={"reason": text, "title": text}) for event in second]
    return [replace(event, text=text) for event in (*first, *odd)]


every_format = pytest.mark.parametrize("name", FORMATS)
every_detail = pytest.mark.parametrize("detail", DETAILS)
lists_of_events = st.lists(any_events(), max_size=8, unique_by=lambda event: event.id)


@settings(deadline=None, max_examples=60)
@given(lists_of_events, st.sampled_from(DETAILS), st.sampled_from([UTC, ZoneInfo("Asia/Tokyo"), timezone(timedelta(hours=-12))]))
@example([Event(id="0" * 8, at=datetime.min.replace(tzinfo=UTC), kind="a.b", actor="x")], "full", timezone(timedelta(hours=-23)))
@example([Event(id="0" * 8, at=datetime.max.replace(tzinfo=UTC), kind="a.b", actor="x")], "full", timezone(timedelta(hours=23)))
@example([Event(kind="a.b")], "full", UTC)
def test_no_stored_event_makes_a_telling_fail(found: list[Event], detail: Detail, zone: Any) -> None:
    for name in FORMATS:
        assert told(found, name, detail, zone=zone) == told(found, name, detail, zone=zone)
    json.loads(told(found, "json", detail, zone=zone))


@settings(deadline=None, max_examples=60)
@given(lists_of_events)
def test_every_sentence_is_proved_and_a_full_telling_leaves_nothing_out(found: list[Event]) -> None:
    ids = sorted(event.id or "" for event in found)
    for detail in DETAILS:
        cited = [id for chapter in told_json(found, detail)["chapters"] for sentence in chapter["sentences"] for id in sentence["evidence"]]
        assert all(sentence["evidence"] for chapter in told_json(found, detail)["chapters"] for sentence in chapter["sentences"])
        assert len(cited) == len(set(cited))
        assert set(cited) <= set(ids)
    assert sorted(cited) == ids


def test_nothing_is_dropped_from_long_and_mixed_runs() -> None:
    story = events("ada:claim " + "ada:pulse ada:progress bo:pulse ada:rest " * 50 + "ada:deliver ada:pulse")
    cited = [id for chapter in chapters(story, "full") for sentence in chapter.sentences for id in sentence.evidence]
    assert sorted(cited) == [event.id for event in story]


# --- hostile words


@every_detail
@pytest.mark.parametrize("text", HOSTILE)
def test_no_words_can_move_a_cursor_or_break_a_line_of_text(text: str, detail: Detail) -> None:
    shown = told(hostile_events(text), "text", detail)
    assert all(line.isprintable() for line in shown.split("\n"))
    for chapter in chapters(hostile_events(text), detail):
        for sentence in chapter.sentences:
            assert plain(sentence.text) in shown


def parsed(markdown: str) -> list[Any]:
    return MarkdownIt("commonmark").enable(["table", "strikethrough"]).parse(markdown)


def shown_lines(markdown: str) -> list[str]:
    """What a reader of the rendered Markdown sees, a line a line."""
    lines: list[str] = []
    for token in parsed(markdown):
        if token.type == "inline":
            line = ""
            for child in token.children or ():
                assert child.type in ("text", "softbreak", "strong_open", "strong_close", "code_inline"), (child.type, child.content)
                if child.type == "code_inline":
                    assert child.content.startswith("lore ")
                if child.type == "softbreak":
                    lines.append(line)
                    line = ""
                else:
                    line += child.content
            lines.append(line)
    return lines


@every_detail
@pytest.mark.parametrize("text", HOSTILE)
def test_markdown_shows_every_word_as_it_is(text: str, detail: Detail) -> None:
    found = hostile_events(text)
    markdown = told(found, "markdown", detail)
    lines = shown_lines(markdown)
    allowed = {"heading", "paragraph", "blockquote", "bullet_list", "list_item", "inline", "hr"}
    assert {token.type.removesuffix("_open").removesuffix("_close") for token in parsed(markdown)} <= allowed
    assert sum(token.type == "heading_open" for token in parsed(markdown)) == 1 + len(chapters(found, detail))
    assert sum(token.type == "hr" for token in parsed(markdown)) == 1
    for chapter in chapters(found, detail):
        assert plain(chapter.title) in lines
        for sentence in chapter.sentences:
            label, said = plain(AS_THEY_ARE.title(sentence.thread)), plain(sentence.text)
            assert (f"{label}: {said}" if detail == "headline" and not said.lower().startswith(label.lower()) else said) in lines


@given(st.text(st.characters(exclude_categories=["Cs"])) | st.text("#*_`[]()<>!-+=.1:&\\|~ \n\tab@w/", max_size=30))
def test_escaped_markdown_reads_back_as_it_was(text: str) -> None:
    words = plain(text)
    for before in ("", "> ", "- "):
        lines = shown_lines(f"{before}{escaped(text)}\n")
        assert lines == ([words] if words else [])


class Page(HTMLParser):
    """What a browser would make of a page."""

    def __init__(self, source: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.attributes: list[tuple[str, str, str]] = []
        self.sentences: list[str] = []
        self.ids: list[str] = []
        self._open: list[str] = []
        self._in_sentence = False
        self.feed(source)
        self.close()
        assert self._open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.attributes += [(tag, name, value or "") for name, value in attrs]
        self.ids += [value or "" for name, value in attrs if name == "id"]
        if tag not in ("meta", "rect"):
            self._open.append(tag)
        if tag == "a" and ("class", "s") in [(name, (value or "").split()[0]) for name, value in attrs]:
            self._in_sentence = True
            self.sentences.append("")

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.handle_starttag(tag, attrs)

    def handle_endtag(self, tag: str) -> None:
        assert self._open.pop() == tag
        self._in_sentence = self._in_sentence and tag != "a"

    def handle_data(self, data: str) -> None:
        if self._in_sentence:
            self.sentences[-1] += data


KNOWN_TAGS = """
    html head meta title style body main header footer h1 h2 h3 p section article aside div figure figcaption svg rect span a b i
    small ul ol li details summary time code
"""
KNOWN_ATTRIBUTES = (
    "lang charset name content http-equiv class id href viewbox preserveaspectratio role aria-labelledby x y width height datetime"
)


@every_detail
@pytest.mark.parametrize("text", HOSTILE)
def test_html_shows_every_word_as_it_is_and_asks_nobody(text: str, detail: Detail) -> None:
    found = hostile_events(text)
    source = told(found, "html", detail)
    page = Page(source)
    assert set(page.tags) <= set(KNOWN_TAGS.split())
    assert {name for _, name, _ in page.attributes} <= set(KNOWN_ATTRIBUTES.split())
    assert all(value.startswith("#e-") for _, name, value in page.attributes if name == "href")
    assert page.sentences == [plain(sentence.text) for chapter in chapters(found, detail) for sentence in chapter.sentences]
    style = source[source.index("<style>") : source.index("</style>")]
    assert "url(" not in style
    assert "@import" not in style


# --- what each format is


def story() -> list[Event]:
    day = "ada:claim ada:progress ada:progress ada:setback ada:recovery bo:deliver"
    return [
        replace(event, text=f"{event.kind} {number}", mission="moon" if number % 2 else None)
        for number, event in enumerate([*events(day), *events(day, thread="t8", start=2000)])
    ]


def test_json_has_exactly_the_shape_that_is_promised() -> None:
    found = story()
    whole = told_json(found, before=Before(7, START - timedelta(days=3)))
    assert list(whole) == ["opening", "chapters", "arcs", "summary", "closing"]
    assert set(whole["chapters"][0]) == {"title", "sentences"}
    assert set(whole["chapters"][0]["sentences"][0]) == {"text", "thread", "evidence"}
    assert {tuple(arc) for arc in whole["arcs"]} == {("kind", "thread", "agents", "state", "first", "last", "evidence")}
    assert [(arc["kind"], arc["thread"]) for arc in whole["arcs"]][:1] == [("struggle_and_recovery", "task:t7")]
    assert whole["summary"]["events"] == len(found)
    assert whole["summary"]["agents"]["ada"]["events"] == 10
    assert whole["summary"]["agents"]["ada"]["kinds"]["fleet.commit"] == 4
    assert whole["summary"]["threads"] == 2
    assert whole["closing"]["before"] == {"events": 7, "since": "2026-11-12T09:00:00Z"}
    assert told_json([])["chapters"] == []


def test_costs_are_told_where_they_are_known() -> None:
    replies = [
        Event(id=f"{n}", at=START, kind="model.replied", actor="ada", data={"usd": usd, "input": 10, "output": 1})
        for n, usd in enumerate((0.1, 0.2, 0.3, 1e300, True, None))
    ]
    assert told_json(replies)["summary"]["usd"] == 0.6
    assert told_json(replies)["summary"]["tokens"] == 66
    assert told_json(replies)["summary"] == told_json(replies[::-1])["summary"]
    assert told_json(story())["summary"]["usd"] is None


def test_text_is_a_paragraph_a_thread_and_is_wrapped_only_to_a_width() -> None:
    wrapped, whole = told(story(), width=40), told(story())
    assert max(map(len, wrapped.splitlines())) <= 40
    assert " ".join(wrapped.split()) == " ".join(whole.split())
    assert "\ntask t7\n  At 09:00, " in whole
    assert len(re.findall(r"^task t", told(story(), detail="headline"), re.MULTILINE)) == 2


def test_the_last_line_says_what_lies_before() -> None:
    before = Before(1204, START, "Before this day: 1,204 events since 3 November 2026; `lore tell --all` tells them.")
    assert told(story(), before=before).splitlines()[-1] == before.text
    assert told(story(), "markdown", before=before).splitlines()[-1] == before.text
    assert "1,204 events since" in told(story(), "html", before=before)


def test_arcs_stand_with_their_thread() -> None:
    markdown, html = told(story(), "markdown"), told(story(), "html")
    assert len(re.findall(r"^> .*", markdown, re.MULTILINE)) == 2
    assert html.count('<aside class="struggle-and-recovery">') == 2


def _edit(agent: str, number: int) -> Event:
    return replace(events(f"{agent}:pulse", start=number)[0], kind="tool.returned", data={"tool": "Edit", "paths": ["app.py"]})


_FIRST_ERROR = events("ada:setback")[0]
HIDDEN = {
    "rescue": events("ada:setback bo:recovery bo:deliver"),
    "stall": events("ada:claim ada:progress"),
    "cascade": [_FIRST_ERROR, *events("bo:setback bo:setback", start=1, cause=_FIRST_ERROR.id)],
    "collision": [_edit("ada", 0), _edit("bo", 1)],
}


def _letters(text: str) -> str:
    """Without markup and line ends, so that a sentence is found in any format."""
    return re.sub(r"[^a-z0-9]+", " ", unescape(text).lower())


@pytest.mark.parametrize("form", FORMATS)
@pytest.mark.parametrize("detail", DETAILS)
@pytest.mark.parametrize("kind", sorted(HIDDEN_KINDS))
def test_hidden_patterns_are_in_no_story(kind: str, detail: Detail, form: str) -> None:
    now = START + timedelta(days=1)
    found = [arc for arc in arcs_of(HIDDEN[kind], now=now) if arc.kind == kind]
    assert found, f"these events make no {kind}, so this test would show nothing"
    whole = told(HIDDEN[kind], form, detail, now=now)
    assert f'"kind":"{kind}"' not in whole
    assert f'<aside class="{kind}">' not in whole
    for arc in found:
        assert _letters(arc_told(arc)) not in _letters(whole)
        assert _letters(arc_told(arc, again=True)) not in _letters(whole)


def test_each_sentence_of_a_page_leads_to_its_events() -> None:
    page = Page(told(story(), "html"))
    targets = [value[1:] for _, name, value in page.attributes if name == "href"]
    assert set(targets) <= set(page.ids)
    assert len(page.ids) == len(set(page.ids))


def test_a_page_stays_small_whatever_a_run_holds() -> None:
    source = told(events("ada:pulse " * 5000, minutes=0.1), "html", "full")
    assert source.count("<code ") == MOST_IDS
    assert "4,900 more" in source
    assert len(source) < 40_000


def test_the_picture_has_a_title_and_a_bounded_number_of_bars() -> None:
    page = told(events("ada:progress " * 3000), "html")
    assert re.search(r'<svg [^>]*role="img" aria-labelledby="when">\n<title id="when">3,000 events over time', page)
    assert 0 < page.count("<rect ") <= MOST_BUCKETS
    assert "<svg" not in told([], "html")


@given(st.lists(any_events(), max_size=20), st.randoms())
def test_the_picture_does_not_depend_on_the_order_of_seeing(found: list[Event], chance: Any) -> None:
    pictures = []
    for _ in range(2):
        timeline = Timeline()
        for event in found:
            timeline.see(event)
        pictures.append((timeline.seconds, timeline.columns()))
        chance.shuffle(found)
    assert pictures[0] == pictures[1]
    assert len(pictures[0][1]) <= MOST_BUCKETS


@every_format
def test_an_empty_log_is_told_too(name: str) -> None:
    assert "Nothing has been recorded yet." in told([], name)


def test_a_long_thread_is_told_in_paragraphs() -> None:
    """Another one begins after a pause, where work is taken up anew, and before one is too long; no sentence is lost."""
    steps = " ".join(["ada:setback ada:recovery"] * 6)
    pause = [replace(event, at=START + timedelta(hours=5)) for event in events("ada:deliver", start=40)]
    story = [*events(f"ada:claim {steps}"), *events("bo:claim bo:setback", start=13), *pause]
    [chapter] = chapters(story)
    cut = list(paragraphs(chapter.sentences))
    assert [sentence for paragraph in cut for sentence in paragraph] == list(chapter.sentences)
    assert [len(paragraph) for paragraph in cut] == [MOST_SENTENCES, 13 - MOST_SENTENCES, 2, 1]
    assert told(story).count("\n\n  ") == 3
    assert told(story, "html").count("<p>") >= 4
