"""Paragraphs about tasks, goals, runs, missions and agents: the end state first, then what went wrong, then counts."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from datetime import datetime, tzinfo

from fleetlore.events.envelope import Event
from fleetlore.story.event_sentences import EventDescriber
from fleetlore.story.paragraphs import MOST_EVIDENCE, StoryParagraph, StorySentence
from fleetlore.story.phrases import count_things, fill_phrase, join_words, load_phrases
from fleetlore.story.threads import MOST_CITED, ThreadBook, ThreadDigest, iterate_kinds
from fleetlore.story.titles import name_agent, quote_inside, shorten_paths, shorten_text
from fleetlore.views.outcomes.facts import Source
from fleetlore.views.task_outcomes import TaskOutcome

MOST_TASKS = 12
"""More tasks than this are grouped into one paragraph."""
MOST_THREADS = 20
"""More threads than this are grouped by their day, month or year, and the rest into one paragraph."""
LEAST_QUIET = 3
"""Fewer signs of life are not worth a paragraph."""
MOST_COUNTED = 6
"""Kinds of events that a sentence counts."""
LONGEST_NAME = 100
LONGEST_QUOTE = 80
LONGEST_SENTENCE = 300

QUOTED_KINDS = frozenset(["fleet.commit", "fleet.pr_open", "fleet.pr_merge", "fleet.milestone"])
"""The newest texts of the most frequent of these kinds are quoted beside its count."""
TASK_KINDS = frozenset(
    ["fleet.dispatch", "town.task_assigned", "town.task_completed", "town.task_failed", "work.started", "work.reopened", "work.cancelled"]
)
"""Kinds that the outcome of a task covers."""
ENDS_OF_REQUESTS = {"merged": "fleet.pr_merge", "not_merged": "fleet.abandon"}
"""The kind that says how a pull request ended, which is told before the counts."""
FRAME_KINDS = frozenset(["driver.goal_started", "driver.goal_completed", "run.started", "run.finished"])
"""The beginning and the end of a goal or a run, which are not counted."""
_ending = re.compile(r"\[(?:(\w+)\|)?(\w+)\]")


class ThreadWriter:
    """Writes the paragraphs of threads. `name_of` gives an agent's display name."""

    def __init__(self, describer: EventDescriber, zone: tzinfo, name_of: Callable[[str], str] = str, *, has_days: bool = False) -> None:
        self._describer, self._zone, self._name_of, self._has_days = describer, zone, name_of, has_days
        self._phrases = load_phrases("threads")

    # --- tasks

    def write_task(self, task: TaskOutcome | None, digest: ThreadDigest) -> StoryParagraph:
        """What became of one task."""
        name = digest.key.partition(":")[2]
        title = (task.title if task is not None else "") or digest.title
        facts = [name if title else "", *self._name_agents(digest, 3), self._name_times(digest)]
        ends = [*(self._write_task(task) if task is not None else self._write_end(digest))]
        sentences = [*ends, *self._write_details(digest, ends, task)]
        return self._paragraph(digest, shorten_text(title or f"Task {name}", LONGEST_NAME), facts, sentences)

    def _write_task(self, task: TaskOutcome) -> Iterator[StorySentence]:
        values = {
            "reason": quote_inside(shorten_text(task.reason, LONGEST_QUOTE * 2)).rstrip("."),
            "agent": self._name(task.agent),
            "agents": join_words([name for agent in task.agents[:4] if (name := self._name(agent))]),
            "given": task.given,
            "check": task.failed_check,
        }
        yield self._sentence("task", task.result, values, task.evidence[-1:])
        if task.given > 1:
            yield self._sentence("task", "repeated", values, task.evidence)
        if task.failed_check:
            yield self._sentence("task", "check_failed", values, task.evidence)

    # --- other threads

    def write_threads(self, book: ThreadBook) -> Iterator[StoryParagraph]:
        """The threads beside tasks; many of them are grouped."""
        found = book.list_others()
        quiet = [digest for _, digest in found if not digest.kinds]
        shown = [(bucket, digest) for bucket, digest in found if digest.kinds]
        rest: list[ThreadDigest] = []
        if len(shown) > MOST_THREADS:
            shown = merge_buckets(shown)
        if len(shown) > MOST_THREADS:
            ranked = sorted(shown, key=lambda pair: (-pair[1].troubles, -sum(pair[1].kinds.values()), pair[1].key))
            rest = [digest for _, digest in ranked[MOST_THREADS:]]
            shown = [pair for pair in shown if pair[1] not in rest]
        has_buckets = len({bucket for bucket, _ in shown if bucket}) > 1
        for bucket, digest in shown:
            yield self.write_thread(digest, bucket if has_buckets else "")
        if rest:
            yield self._write_rest(rest)
        if sum(digest.quiet for digest in quiet) >= LEAST_QUIET:
            yield self._write_quiet(quiet)

    def write_thread(self, digest: ThreadDigest, bucket: str = "") -> StoryParagraph:
        """What one thread did."""
        kind, _, name = digest.key.partition(":")
        title = digest.title or name
        if kind == "agent":
            title = self._name_of(name)
        elif kind in ("bucket", "town") and not name:
            title = self._phrases["title"]["town"]
        elif kind in self._phrases["title"]:
            title = self._fill("title", kind, {"title": title})
        agents = [] if kind == "agent" else self._name_agents(digest, 3) if kind != "bucket" else []
        facts = [bucket if kind != "bucket" else "", *agents, "" if bucket else self._name_times(digest)]
        ends = [*self._write_end(digest)]
        sentences = [*ends, *self._write_details(digest, ends)]
        if kind == "bucket":
            title = name
            sentences.append(self._write_who(digest))
        return self._paragraph(digest, shorten_text(title, LONGEST_NAME), facts, sentences)

    def _write_rest(self, rest: Sequence[ThreadDigest]) -> StoryParagraph:
        whole = ThreadDigest(key="others")
        for digest in rest:
            whole.merge(digest)
        values = {"threads": count_things(len(rest), "agent" if all(one.key.startswith("agent:") for one in rest) else "thread")}
        counts = self._sentence("thread", "rest", {**values, "counts": self._count(whole)}, _cite_counts(whole), most=MOST_CITED)
        return self._paragraph(whole, self._phrases["title"]["others"], [], [counts])

    def _write_quiet(self, quiet: Sequence[ThreadDigest]) -> StoryParagraph:
        whole = ThreadDigest(key="quiet")
        for digest in quiet:
            whole.merge(digest)
        evidence = [digest.newest.source for digest in quiet if digest.newest is not None]
        who = self._write_who(whole)
        text = self._fill("thread", "quiet", {"count": f"{whole.quiet:,}"})
        sentences = [StorySentence(text=text, evidence=evidence[:MOST_EVIDENCE])]
        if who.text:
            sentences.append(StorySentence(text=who.text, evidence=evidence[:MOST_EVIDENCE]))
        return self._paragraph(whole, self._phrases["title"]["quiet"], [], sentences)

    def count_beside(self, digest: ThreadDigest | None) -> str:
        """The same as counts only: `4 commits, 2 merges`."""
        return "" if digest is None else self._count(digest, with_quotes=False)

    def write_beside(self, digest: ThreadDigest) -> StorySentence | None:
        """What is on record about a session beside its record; `None` if it is only signs of life or a program's own bookkeeping."""
        unknown = [kind for kind, _ in iterate_kinds(digest) if kind not in self._phrases["counts"]]
        counts = self._count(digest, with_quotes=False, left_out=unknown)
        return self._sentence("thread", "beside", {"counts": counts}, _cite_counts(digest), most=MOST_CITED) if counts else None

    # --- sentences

    def _write_end(self, digest: ThreadDigest) -> Iterator[StorySentence]:
        found = digest.end or digest.newest
        if found is None:
            return
        kind = found.event.kind
        if digest.end is None and kind in QUOTED_KINDS and digest.kinds[kind] > 1:
            return  # quoted beside its count
        yield StorySentence(text=self._describe(found.event), evidence=[found.source])

    def _write_details(
        self, digest: ThreadDigest, ends: Sequence[StorySentence], task: TaskOutcome | None = None
    ) -> Iterator[StorySentence]:
        """What went wrong and how much there was of everything."""
        cited = {source.event for source in task.evidence} if task is not None and task.failed_check else ()
        troubles = [one for one in digest.newest_troubles if task is not None or one != digest.end]
        troubles = [one for one in troubles if one.event.id not in cited]
        count = digest.troubles - len(digest.newest_troubles) + len(troubles)
        if count == 1:
            values = {"time": self._format_time(troubles[-1].rank[0][0]), "text": self._describe(troubles[-1].event)}
            yield self._sentence("thread", "trouble", values, [troubles[-1].source])
        elif count:
            values = {"problems": count_things(count, "problem"), "time": self._format_time(troubles[-1].rank[0][0])}
            values["text"] = self._describe(troubles[-1].event)
            yield self._sentence("thread", "troubles", values, [one.source for one in troubles])
        left_out = FRAME_KINDS | TASK_KINDS | {ENDS_OF_REQUESTS.get(task.result, "")} if task is not None else FRAME_KINDS
        if sum(count for kind, count in digest.kinds.items() if kind not in left_out) > 1:
            counts = self._count(digest, left_out=left_out)
            yield self._sentence("thread", "counts" if ends else "only_counts", {"counts": counts}, _cite_counts(digest), most=MOST_CITED)

    def write_counts(self, digests: Iterable[ThreadDigest]) -> StorySentence | None:
        """How much there was in several tasks beside their assignments and ends."""
        whole = ThreadDigest(key="tasks")
        for digest in digests:
            whole.merge(digest)
        counts = self._count(whole, with_quotes=False, left_out=TASK_KINDS | FRAME_KINDS)
        return self._sentence("thread", "counts", {"counts": counts}, _cite_counts(whole), most=MOST_CITED) if counts else None

    def _write_who(self, digest: ThreadDigest) -> StorySentence:
        ranked = sorted(digest.agents.items(), key=lambda pair: (-pair[1], pair[0]))
        named = [f"{self._name_of(name)} ({count:,})" for name, count in ranked[:5]]
        values = {"agents": join_words(named) if len(ranked) <= 5 else ", ".join(named), "more": max(0, len(ranked) - 5)}
        return self._sentence("thread", "who", values, digest.cited, most=MOST_CITED) if named else StorySentence(text="")

    def _count(self, digest: ThreadDigest, *, with_quotes: bool = True, left_out: Collection[str] = ()) -> str:
        """`12 commits, the latest "a" and "b", 1 push`."""
        parts = []
        pairs = [pair for pair in iterate_kinds(digest) if pair[0] not in left_out]
        quoted = next((kind for kind, _ in pairs if kind in QUOTED_KINDS), "") if with_quotes else ""
        for kind, count in pairs[:MOST_COUNTED]:
            parts.append(self._count_kind(kind, count))
            if kind == quoted:
                quotes = list(dict.fromkeys(quote for one in reversed(digest.texts.get(kind, ())) if (quote := self._quote(one.event))))
                if quotes:
                    parts[-1] += f", the latest {join_words(quotes)}" if count > len(quotes) else f" ({join_words(quotes)})"
        if more := sum(count for _, count in pairs[MOST_COUNTED:]):
            parts.append(count_things(more, "other event"))
        return "; ".join(parts) if any('"' in part for part in parts) else ", ".join(parts)

    def _count_kind(self, kind: str, count: int) -> str:
        template = self._phrases["counts"].get(kind)
        if template is None:
            return f"{count:,} × {kind.partition('.')[2].replace('_', ' ').replace('.', ' ')}"
        return f"{count:,} " + _ending.sub(lambda found: (found[1] or "") if count == 1 else found[2], template)

    def _quote(self, event: Event) -> str:
        text = shorten_text((event.text or "").strip().partition("\n")[0], LONGEST_QUOTE)
        return f'"{quote_inside(text)}"' if text else ""

    def _describe(self, event: Event) -> str:
        text = shorten_text(shorten_paths(self._describer.describe(event)), LONGEST_SENTENCE)
        return text if text.endswith((".", "?", "!", "…")) else f"{text}."

    # --- names

    def _name(self, agent: str) -> str:
        return name_agent(self._name_of(agent)) if agent else ""

    def _name_agents(self, digest: ThreadDigest, most: int) -> list[str]:
        ranked = sorted(digest.agents, key=lambda name: (-digest.agents[name], name))
        named = list(dict.fromkeys(name for agent in ranked if (name := self._name(agent))))
        return [*named[:most], f"{len(named) - most} more"] if len(named) > most else named

    def _name_times(self, digest: ThreadDigest) -> str:
        if digest.first is None or digest.last is None:
            return ""
        start, end = digest.first.astimezone(self._zone), digest.last.astimezone(self._zone)
        form = "%Y-%m-%d %H:%M" if self._has_days or start.date() != end.date() else "%H:%M"
        if start.strftime(form) == end.strftime(form):
            return start.strftime(form)
        return f"{start.strftime(form)} to {end.strftime(form if start.date() != end.date() else '%H:%M')}"

    def _format_time(self, at: datetime) -> str:
        local = at.astimezone(self._zone)
        return local.strftime("%Y-%m-%d %H:%M" if self._has_days else "%H:%M")

    def _fill(self, section: str, phrase: str, values: Mapping[str, object]) -> str:
        return fill_phrase(self._phrases[section][phrase], values)

    def _sentence(
        self, section: str, phrase: str, values: Mapping[str, object], evidence: Iterable[Source], most: int = MOST_EVIDENCE
    ) -> StorySentence:
        return StorySentence(text=self._fill(section, phrase, values), evidence=list(dict.fromkeys(evidence))[:most])

    def _paragraph(self, digest: ThreadDigest, title: str, facts: Sequence[str], sentences: Sequence[StorySentence]) -> StoryParagraph:
        shown = ", ".join(part for part in facts if part)
        heading = f"{title.rstrip('.')} ({shown})" if shown else title
        return StoryParagraph(
            title=heading, thread=digest.key, started=digest.first, ended=digest.last, sentences=[one for one in sentences if one.text]
        )


def _cite_counts(digest: ThreadDigest) -> list[Source]:
    """The events that are quoted beside a count, then the first of all."""
    return [*(one.source for kind in sorted(digest.texts) if kind in QUOTED_KINDS for one in digest.texts[kind]), *digest.cited]


def merge_buckets(found: Sequence[tuple[str, ThreadDigest]]) -> list[tuple[str, ThreadDigest]]:
    """The agents of one day, month or year as one thread, if there are several of these."""
    if len({bucket for bucket, _ in found if bucket}) <= 1:
        return list(found)
    merged: dict[str, ThreadDigest] = {}
    kept = []
    for bucket, digest in found:
        if bucket:
            merged.setdefault(bucket, ThreadDigest(key=f"bucket:{bucket}")).merge(digest)
        else:
            kept.append((bucket, digest))
    return [*kept, *sorted(merged.items())]
