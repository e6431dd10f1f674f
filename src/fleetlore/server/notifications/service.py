"""Notices, by rules: each rule walks the log behind a cursor of its own, in a thread of its own, and tells whoever it is to tell.

Once for each rule and occasion. A notice has an id that follows from both; before it is sent the log is asked whether the
`notify.sent` with that id is there, and once it is sent, or given up, that event is stored and the cursor moves on.
Only one notifier of a town is at work at a time: it holds the lease `notify`. docs/notifications.md walks through the crashes.
"""

from __future__ import annotations

import os
import random
import socket
import time
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from threading import Event as Flag
from threading import Thread
from time import monotonic

from fleetlore import clock
from fleetlore.chronicle.naming import Naming
from fleetlore.errors import FleetloreError, LeaseLost
from fleetlore.log.coordination import Coordination, Lease
from fleetlore.log.recorder import BlockingRecorder
from fleetlore.server.notifications.bodies import Message
from fleetlore.server.notifications.rules import Rule, Target
from fleetlore.server.notifications.runner import Means, Pace, Stopped, Walk
from fleetlore.server.notifications.send import Outcome, deliver

LEASE = "notify"

OpenLog = Callable[[], AbstractContextManager[BlockingRecorder]]
OpenShared = Callable[[], AbstractContextManager[Coordination]]
Deliver = Callable[[Target, Message], Outcome]
"""One try to send."""


PACE = Pace()


class Notifier:
    """Runs rules until it is told to stop. Opens the log by itself, and again whenever it was lost.

    `naming` tells what agents are called, where somebody keeps that warm; `url` is the address of the pages, without a token.
    """

    def __init__(
        self,
        open_log: OpenLog,
        open_shared: OpenShared,
        rules: Sequence[Rule],
        *,
        naming: Callable[[], Naming] | None = None,
        url: str | None = None,
        on_trouble: Callable[[str], None] = lambda trouble: None,
        now: clock.Clock = clock.now,
        pace: Pace = PACE,
        send: Deliver = deliver,
        chance: Callable[[], float] = random.random,
    ) -> None:
        self._rules, self._naming, self._url, self._now, self._pace = tuple(rules), naming, url, now, pace
        self._open_log, self._open_shared = open_log, open_shared
        self._tell, self._deliver, self._chance = on_trouble, send, chance
        self._holder = f"{socket.gethostname()[:60]}/{os.getpid()}/{clock.uuid7()}"
        self._held_until = 0.0

    def run(self, stop: Flag) -> None:
        """Notify until `stop` is set. Trouble with the log is told once, and tried again for ever."""
        told = ""
        while self._rules and not stop.is_set():
            try:
                with self._open_log() as log, self._open_shared() as shared:
                    if (lease := self._take(shared, stop)) is not None:
                        told = ""
                        self._work(log, shared, lease, stop)
            except (FleetloreError, OSError) as error:
                if str(error) != told:
                    self._tell(f"notices wait: {error}")
                told = str(error)
            stop.wait(self._pace.again)

    def _take(self, shared: Coordination, stop: Flag) -> Lease | None:
        """The right to notify, once nobody else has it."""
        while not stop.is_set():
            asked = _since_start()
            lease = shared.take(LEASE, self._holder, self._pace.lease)
            if lease is not None:
                self._held_until = asked + self._pace.lease
                return lease
            stop.wait(self._pace.again)
        return None

    def _work(self, log: BlockingRecorder, shared: Coordination, lease: Lease, stop: Flag) -> None:
        """All rules side by side, as long as the right lasts and nothing breaks."""
        over, troubles = Flag(), list[Exception]()
        means = Means(
            log=log,
            shared=shared,
            send=lambda rule, message: self._send(rule, message, over),
            is_ours=self._is_ours,
            naming=self._naming,
            url=self._url,
            now=self._now,
            pace=self._pace,
        )
        threads = [
            Thread(target=self._walk, args=(Walk(rule, means, over), over, troubles), name=f"fleetlore-notify-{rule.name}", daemon=True)
            for rule in self._rules
        ]
        for thread in threads:
            thread.start()
        try:
            self._hold(shared, lease, over, stop)
        finally:
            over.set()
            until = monotonic() + self._pace.end
            for thread in threads:
                thread.join(max(0.0, until - monotonic()))
            if not any(thread.is_alive() for thread in threads):
                shared.release(lease)  # else somebody might send what is being sent just now; the lease ends by itself
        if troubles:
            raise troubles[0]

    def _hold(self, shared: Coordination, lease: Lease, over: Flag, stop: Flag) -> None:
        """Renew the lease until the end."""
        renew_at = _since_start() + self._pace.lease / 3
        while not over.is_set() and not stop.wait(self._pace.beat):
            if _since_start() < renew_at:
                continue
            asked = _since_start()
            try:
                lease = shared.renew(lease)
            except LeaseLost:
                self._held_until = 0.0
                self._tell("another notifier took over; this one waits")
                return
            self._held_until, renew_at = asked + self._pace.lease, asked + self._pace.lease / 3

    def _walk(self, walk: Walk, over: Flag, troubles: list[Exception]) -> None:
        """One rule's thread. Trouble with the log ends all of them; any other leaves the others be."""
        try:
            walk.run()
        except (FleetloreError, OSError) as error:
            if not over.is_set():
                troubles.append(error)
                over.set()
        except Exception as error:  # noqa: BLE001  # a rule that breaks must not take the others with it; its words may hold secrets
            self._tell(f"the rule {walk.rule.name!r} broke ({type(error).__name__}) and rests until the next start")

    def _is_ours(self) -> bool:
        """Whether the lease is still here."""
        return _since_start() < self._held_until

    def _send(self, rule: Rule, message: Message, over: Flag) -> tuple[Outcome, int]:
        """Try until it arrives or there is no use in trying; answers how it ended, and after how many tries."""
        pace, pause = self._pace, self._pace.pause
        for attempt in range(1, pace.tries + 1):
            if over.is_set() or not self._is_ours():
                raise Stopped
            outcome = self._deliver(rule.target, message)
            if outcome.error is None or outcome.is_final or attempt == pace.tries:
                break
            if over.wait(min(outcome.wait or pause * (0.5 + self._chance() / 2), pace.longest)):
                raise Stopped
            pause *= pace.growth
        return outcome, attempt


def _since_start() -> float:
    """Seconds since the machine was started; on Linux the usual clock stands still while it sleeps, and a lease does not."""
    return time.clock_gettime(getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC))
