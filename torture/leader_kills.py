"""Kills the leader of a town's stream in a NATS cluster of three, again and again, beside a plain nats-py client.

Both write an event every 20 ms to the same stream with three replicas, so that both wait for the same election: two streams elect
their leaders apart, and one may take 6 s and the other 13 s. The longest pause of each between two acknowledgements is compared.
"""

from __future__ import annotations

import asyncio
import sys
from itertools import pairwise
from pathlib import Path
from statistics import median
from threading import Event as Signal
from threading import Thread
from time import monotonic, sleep

sys.path.insert(0, str(Path(__file__).parents[1]))

import nats
import nats.errors
import nats.js.errors
from tests.servers import Nats, NatsCluster

from fleetlore import Event, connect
from fleetlore.log.nats.subjects import meta_subject, stream_name

EVERY_SECONDS = 0.02
SETTLE_SECONDS = 2.0
LONGEST_WAIT = 60.0
TOWN = "default"


class Acks:
    """When each write was acknowledged, and what went wrong."""

    def __init__(self) -> None:
        self.times: list[float] = []
        self.errors: list[str] = []
        self.written: list[str] = []

    def note(self, written: str) -> None:
        """Note an acknowledgement."""
        self.times.append(monotonic())
        self.written.append(written)

    def longest_pause(self, start: float) -> float:
        """The longest time between two acknowledgements since `start`."""
        times = [start, *(at for at in self.times if at >= start)]
        return max((later - earlier for earlier, later in pairwise(times)), default=0.0)


def write_ours(url: str, acks: Acks, enough: Signal) -> None:
    """Append one event after the other."""
    with connect(f"{url}?replicas=3&timeout=30").blocking() as log:
        number = 0
        while not enough.is_set():
            try:
                log.append([Event(kind="test.note", actor="ada", text=str(number))])
                acks.note(str(number))
            except Exception as error:  # noqa: BLE001  # counted
                acks.errors.append(repr(error))
            number += 1
            sleep(EVERY_SECONDS)


async def write_plain(url: str, acks: Acks, enough: Signal) -> None:
    """Publish one message after the other with nats-py, each until it is acknowledged, one second per try."""
    client = await nats.connect(url.split(","), max_reconnect_attempts=-1, reconnect_time_wait=0.1)
    jetstream = client.jetstream(timeout=1)
    number = 0
    while not enough.is_set():
        try:
            await jetstream.publish(meta_subject(TOWN, "plain"), str(number).encode(), headers={"Nats-Msg-Id": f"plain-{number}"})
        except (nats.errors.Error, nats.js.errors.Error, TimeoutError):
            continue
        acks.note(str(number))
        number += 1
        await asyncio.sleep(EVERY_SECONDS)
    await client.close()


def find_leader(cluster: NatsCluster) -> Nats:
    """Return the server that leads the town's stream, as soon as it has a leader."""
    while (leader := cluster.leader_of(stream_name(TOWN))) is None:
        sleep(0.3)
    return leader


def kill_leaders(folder: Path, kills: int) -> str:
    """Kill so many leaders; return a line for docs/benchmarks.md. Raises if anything was lost, doubled or failed."""
    with NatsCluster(folder) as cluster:
        ours, plain, enough = Acks(), Acks(), Signal()
        with connect(f"{cluster.url}?replicas=3").blocking():
            pass
        writers = [
            Thread(target=write_ours, args=(cluster.url, ours, enough), daemon=True),
            Thread(target=lambda: asyncio.run(write_plain(cluster.url, plain, enough)), daemon=True),
        ]
        for writer in writers:
            writer.start()
        pauses: list[tuple[float, float]] = []
        for _ in range(kills):
            leader = find_leader(cluster)
            sleep(SETTLE_SECONDS)
            start = monotonic()
            leader.kill()
            _wait_for_both(ours, plain, start)
            sleep(SETTLE_SECONDS)
            pauses.append((ours.longest_pause(start), plain.longest_pause(start)))
            leader.start()
            print(f"kill {len(pauses)}: ours {pauses[-1][0]:.2f} s, plain {pauses[-1][1]:.2f} s, errors {len(ours.errors)}", flush=True)
        enough.set()
        for writer in writers:
            writer.join()
        with connect(f"{cluster.url}?replicas=3").blocking() as log:
            texts = [event.text for event in log.read()]
    assert not ours.errors, ours.errors[:3]
    assert texts == ours.written, f"{len(texts)} stored, {len(ours.written)} acknowledged"
    ratio = sum(pause for pause, _ in pauses) / sum(pause for _, pause in pauses)
    return (
        f"{kills} leader kills, {len(texts):,} events: 0 exceptions, 0 lost, 0 doubled; pause {median(p for p, _ in pauses):.1f} s"
        f" (longest {max(p for p, _ in pauses):.1f}), plain nats-py {median(p for _, p in pauses):.1f} s"
        f" (longest {max(p for _, p in pauses):.1f}); sum of pauses {ratio:.2f} ×"
    )


def _wait_for_both(ours: Acks, plain: Acks, start: float) -> None:
    while monotonic() < start + LONGEST_WAIT:
        # Something acknowledged a good while after the kill: the stream has a leader again.
        if all(sum(at > start + 1.0 for at in acks.times[-50:]) >= 10 for acks in (ours, plain)):
            return
        sleep(0.05)
    raise AssertionError("the stream found no new leader in time")
