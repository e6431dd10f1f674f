"""The prompt of one turn, in short and long logs: `python -m benchmarks.context [--quick]`, or `make bench`.

Each log is a generated fleet log with the same stage run at its end. Measured is the time before a model is asked: recall what an agent
may know, and build its prompt. *Kept open* is one turn after another with a line appended in between; *begun anew* is what `lore context`
does, which continues from the stored fold and text index. The peer, up to a hundred thousand events, reads and folds every event at each
turn.
"""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import islice
from pathlib import Path
from statistics import median
from time import perf_counter

from benchmarks import fleet_story
from benchmarks.foundation import real_disk
from benchmarks.measure import Row, print_table, progress
from fleetlore import Event, connect
from fleetlore.log.recorder import BlockingRecorder
from fleetlore.projections import search
from fleetlore.projections.store import ProjectionStore
from fleetlore.prompts.agent_context import MAX_RECENT_EVENTS, ContextRequest, Recall, build_stage_context
from fleetlore.prompts.build import BuiltPrompt, build_prompt
from fleetlore.views import stage

SIZES = (1_000, 10_000, 100_000, 1_000_000)
LONGEST_SCAN = 100_000
RUN = 320
CAST = ("mara", "tomas", "edda", "wenzel")
ROUNDS = 60
TARGET = 1.5


@dataclass
class PreparedLog:
    """One log, opened, with its store."""

    size: int
    log: BlockingRecorder
    store: ProjectionStore
    recall: Recall
    turn: int = RUN

    def append_line(self) -> None:
        """One more line, as a turn ends with it."""
        self.turn += 1
        speaker = CAST[self.turn % len(CAST)]
        self.log.append([_line(self.turn, speaker)])

    def open_reader(self) -> BuiltPrompt:
        return build_prompt(self.recall.turn("mara", run="bench"))

    def begun_anew(self) -> BuiltPrompt:
        return build_prompt(Recall(self.log, store=self.store).turn("mara", run="bench"))

    def scanned(self) -> BuiltPrompt:
        """What one would do without any of it."""
        state, newest = stage.initial(), []
        for event in self.log.read():
            state = stage.apply(state, event)
            if event.run == "bench":
                newest.append(event)
        return build_prompt(
            build_stage_context(state.runs["bench"], ContextRequest(agent="mara"), newest[-MAX_RECENT_EVENTS:], state.position)
        )


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.context", description="The prompt of one turn, in short logs and long ones."
    )
    parser.add_argument("--quick", action="store_true", help="no log longer than 100,000 events, fewer rounds")
    parser.add_argument("--dir", type=Path, help="where to put the logs (else the system's place for temporary files)")
    options = parser.parse_args(argv)
    sizes = SIZES[:-1] if options.quick else SIZES
    rounds = ROUNDS // 3 if options.quick else ROUNDS
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="fleetlore-bench-", dir=real_disk(options.dir))))
        prepared_logs = [_prepare_log(stack, folder, size) for size in sizes]
        rows = _grown(prepared_logs, rounds) + _against_scanning(prepared_logs, rounds)
    print_table(rows)
    return 0


def _prepare_log(stack: ExitStack, folder: Path, size: int) -> PreparedLog:
    log = stack.enter_context(connect(f"sqlite:{folder / f'{size}.db'}?sync=off").blocking())
    start = perf_counter()
    log.append_all(_events(size))
    built = perf_counter()
    store = stack.enter_context(ProjectionStore(str(folder / f"{size}.store")))
    recall = Recall(log, store=store)
    recall.turn("mara", run="bench")
    folded = perf_counter()
    store.sync_with_log(log)
    search.update_index(log, store)
    times = f"stored in {built - start:.0f} s, folded in {folded - built:.1f} s, indexed in {perf_counter() - folded:.0f} s"
    progress(f"{size:,} events: {times}", end=True)
    return PreparedLog(size, log, store, recall)


def _events(size: int) -> Iterator[Event]:
    yield from islice(fleet_story.events(size), size - RUN)
    cast = {name: {"role": "worker", "persona": f"You are {name}."} for name in CAST}
    yield Event(kind="run.started", actor="conductor", run="bench", at=_at(0), data={"goal": "Find the starter.", "cast": cast})
    yield Event(kind="world.observed", actor="world", run="bench", at=_at(1), text="The shelf by the oven is empty, the back door ajar.")
    for number in range(2, RUN):
        yield _line(number, CAST[number % len(CAST)])


def _line(number: int, speaker: str) -> Event:
    texts = (
        "the oven was cold at {}",
        "flour on the step, {} grains of it",
        "who had the key on day {}",
        "the shelf holds {} jars",
        "the door of house {} stands ajar",
    )
    text = texts[number % len(texts)].format(number)
    thought = {"thought": f"they lie, {number} times"}
    return Event(kind="agent.spoke", actor=speaker, agent=speaker, run="bench", at=_at(number), text=text, data={"turn": number} | thought)


def _at(number: int) -> datetime:
    return fleet_story.START + timedelta(days=400, seconds=number)


# --- measuring


def _timed(work: Callable[[], BuiltPrompt]) -> float:
    start = perf_counter()
    prompt = work()
    took = perf_counter() - start
    assert "## Discussion so far" in prompt.text
    return took * 1000


def _grown(prepared_logs: list[PreparedLog], rounds: int) -> list[Row]:
    kept: dict[int, list[float]] = {prepared.size: [] for prepared in prepared_logs}
    anew: dict[int, list[float]] = {prepared.size: [] for prepared in prepared_logs}
    for number in range(rounds):
        for prepared in prepared_logs[number % len(prepared_logs) :] + prepared_logs[: number % len(prepared_logs)]:
            prepared.append_line()
            kept[prepared.size].append(_timed(prepared.open_reader))
            anew[prepared.size].append(_timed(prepared.begun_anew))
    rows = []
    for name, times in (("kept open", kept), ("begun anew", anew)):
        least = median(times[prepared_logs[0].size])
        for prepared in prepared_logs:
            is_judged = prepared is prepared_logs[-1]
            row = Row(
                f"a prompt at {prepared.size:,} events, {name}, against 1,000",
                "ms",
                median(times[prepared.size]),
                least,
                median(times[prepared.size]) / least,
            )
            rows.append(Row(**{**vars(row), "target": TARGET if is_judged else None, "sense": "≤"}))
    return rows


def _against_scanning(prepared_logs: list[PreparedLog], rounds: int) -> list[Row]:
    rows = []
    for prepared in prepared_logs:
        if prepared.size > LONGEST_SCAN:
            continue
        ours, theirs = [], []
        for _ in range(max(3, min(rounds, 300_000 // prepared.size))):
            prepared.append_line()
            ours.append(_timed(prepared.open_reader))
            theirs.append(_timed(prepared.scanned))
        ratio = median(their / our for our, their in zip(ours, theirs, strict=True))
        rows.append(
            Row(
                f"a prompt at {prepared.size:,} events: scanning all takes so many times as long", "ms", median(ours), median(theirs), ratio
            )
        )
    return rows


if __name__ == "__main__":
    raise SystemExit(main())
