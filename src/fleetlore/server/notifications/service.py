"""Runs the notification rules: each has its own cursor in the log and its own thread.

Every rule sends once per occasion. A notification's id is derived from both; before sending, the log is checked for a
`notify.sent` with that id, and after sending or giving up, that event is stored and the cursor committed. Only one
notifier per town works at a time: it holds the lease `notify`. docs/notifications.md discusses crashes.
"""

from __future__ import annotations

import os
import random
import socket
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from threading import Event as Flag
from threading import Thread
from time import monotonic

from fleetlore import clock
from fleetlore.errors import FleetloreError, LeaseLost
from fleetlore.log.base import Lease
from fleetlore.log.coordination import Coordination
from fleetlore.log.recorder import BlockingRecorder
from fleetlore.server.notifications.bodies import Message
from fleetlore.server.notifications.rules import Rule, Target
from fleetlore.server.notifications.runner import RuleContext, RuleRun, Stopped, Timing
from fleetlore.server.notifications.send import SendResult, deliver_message
from fleetlore.server.notifications.triggers import MeasureBudgets
from fleetlore.views.outcomes.rules import OutcomeRules, default_rules
from fleetlore.views.thread_names import Naming

LEASE = "notify"

OpenLog = Callable[[], AbstractContextManager[BlockingRecorder]]
OpenShared = Callable[[], AbstractContextManager[Coordination]]
Deliver = Callable[[Target, Message], SendResult]
"""One attempt to send."""


TIMING = Timing()


class Notifier:
    """Runs rules until stopped. Opens the log itself, and again after a failure.

    `naming` returns display names, if somebody keeps them up to date; `url` is the address of the pages, without a
    token.
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
        timing: Timing = TIMING,
        send: Deliver = deliver_message,
        random_fraction: Callable[[], float] = random.random,
        outcome_rules: OutcomeRules | None = None,
        budgets: MeasureBudgets = lambda now: [],
    ) -> None:
        self._budgets = budgets
        self._outcome_rules = outcome_rules or default_rules()
        self._rules, self._naming, self._url, self._now, self._timing = tuple(rules), naming, url, now, timing
        self._open_log, self._open_shared = open_log, open_shared
        self._report_trouble, self._deliver, self._random_fraction = on_trouble, send, random_fraction
        self._holder = f"{socket.gethostname()[:60]}/{os.getpid()}/{clock.uuid7()}"
        self._lease_until = 0.0

    def run(self, stop: Flag) -> None:
        """Notify until `stop` is set. An error with the log is reported once and retried forever."""
        last_error = ""
        while self._rules and not stop.is_set():
            try:
                with self._open_log() as log, self._open_shared() as shared:
                    if (lease := self._acquire_lease(shared, stop)) is not None:
                        last_error = ""
                        self._run_rules(log, shared, lease, stop)
            except (FleetloreError, OSError) as error:
                if str(error) != last_error:
                    self._report_trouble(f"notifications wait: {error}")
                last_error = str(error)
            stop.wait(self._timing.again)

    def _acquire_lease(self, shared: Coordination, stop: Flag) -> Lease | None:
        """Wait for the lease; `None` if stopped."""
        while not stop.is_set():
            asked_at = clock.ticks()
            lease = shared.acquire(LEASE, self._holder, self._timing.lease)
            if lease is not None:
                self._lease_until = asked_at + self._timing.lease
                return lease
            stop.wait(self._timing.again)
        return None

    def _run_rules(self, log: BlockingRecorder, shared: Coordination, lease: Lease, stop: Flag) -> None:
        """Run all rules in parallel while the lease lasts and nothing fails."""
        stopped, errors = Flag(), list[Exception]()
        context = RuleContext(
            log=log,
            shared=shared,
            send=lambda rule, message: self._send_with_retries(rule, message, stopped),
            is_ours=self._is_ours,
            naming=self._naming,
            url=self._url,
            now=self._now,
            timing=self._timing,
            outcome_rules=self._outcome_rules,
            budgets=self._budgets,
        )
        threads = [
            Thread(
                target=self._run_rule,
                args=(RuleRun(rule, context, stopped), stopped, errors),
                name=f"fleetlore-notify-{rule.name}",
                daemon=True,
            )
            for rule in self._rules
        ]
        for thread in threads:
            thread.start()
        try:
            self._renew_lease(shared, lease, stopped, stop)
        finally:
            stopped.set()
            until = monotonic() + self._timing.end
            for thread in threads:
                thread.join(max(0.0, until - monotonic()))
            if not any(thread.is_alive() for thread in threads):
                shared.release(lease)  # otherwise another notifier might send what is being sent now; the lease expires by itself
        if errors:
            raise errors[0]

    def _renew_lease(self, shared: Coordination, lease: Lease, stopped: Flag, stop: Flag) -> None:
        """Renew the lease until stopped or lost."""
        renew_at = clock.ticks() + self._timing.lease / 3
        while not stopped.is_set() and not stop.wait(self._timing.beat):
            if clock.ticks() < renew_at:
                continue
            asked_at = clock.ticks()
            try:
                lease = shared.renew(lease)
            except LeaseLost:
                self._lease_until = 0.0
                self._report_trouble("another notifier took over; this one waits")
                return
            self._lease_until, renew_at = asked_at + self._timing.lease, asked_at + self._timing.lease / 3

    def _run_rule(self, rule_run: RuleRun, stopped: Flag, errors: list[Exception]) -> None:
        """The thread of one rule. An error with the log ends all rules; any other ends only this one."""
        try:
            rule_run.run()
        except (FleetloreError, OSError) as error:
            if not stopped.is_set():
                errors.append(error)
                stopped.set()
        except Exception as error:  # noqa: BLE001  # one broken rule must not stop the others; its message may contain secrets
            self._report_trouble(f"the rule {rule_run.rule.name!r} broke ({type(error).__name__}) and rests until the next start")

    def _is_ours(self) -> bool:
        """Whether the lease is still held."""
        return clock.ticks() < self._lease_until

    def _send_with_retries(self, rule: Rule, message: Message, stopped: Flag) -> tuple[SendResult, int]:
        """Send with retries; return the outcome and the number of attempts."""
        timing, pause = self._timing, self._timing.pause
        for attempt in range(1, timing.tries + 1):
            if stopped.is_set() or not self._is_ours():
                raise Stopped
            outcome = self._deliver(rule.target, message)
            if outcome.error is None or outcome.is_final or attempt == timing.tries:
                break
            if stopped.wait(min(outcome.wait or pause * (0.5 + self._random_fraction() / 2), timing.longest)):
                raise Stopped
            pause *= timing.growth
        return outcome, attempt
