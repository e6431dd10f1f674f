"""A program that works in a town, and gives work out: until it is told to stop, or killed.

`python -m tests.faults.towner URL NAME ROLE`. What its agent does follows a script: the third item's first review asks for changes;
the fifth item fails once; the seventh kills whoever tries it first. Asked for its `state` by a line on standard input, it answers with
a hash of what its dispatcher knows, or `follows` if that does not lead; it stops at the end of the input.
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from hashlib import sha256

import msgspec

from fleetlore import connect
from fleetlore.log.coordination import open_shared
from fleetlore.town.dispatcher import Dispatcher
from fleetlore.town.jobs import Approved, JobDone, JobFailed, JobInbox, JobOutcome, QuestionJob, Rejected, TaskJob
from fleetlore.town.journal import TownJournal
from fleetlore.town.worker import Worker
from fleetlore.views.town_state import TownState

LEASE_SECONDS = 1.0
WORK_SECONDS = 0.03
SENT_BACK, FAILING, DEADLY = "i3", "i5", "i7"


async def work(job: TaskJob | QuestionJob, receiving: JobInbox) -> JobOutcome:
    """As the script says."""
    assert isinstance(job, TaskJob)
    await asyncio.sleep(WORK_SECONDS)  # long enough to be killed at it
    if job.purpose == "review":
        return Rejected("no tests") if job.item == SENT_BACK and job.round == 1 else Approved("reads well")
    if job.item == FAILING and not job.failures:
        return JobFailed("the build broke")
    if job.item == DEADLY and job.attempt == 1:
        os.kill(os.getpid(), signal.SIGKILL)
    return JobDone(f"did {job.task}")


async def live(url: str, name: str, role: str) -> None:
    """Until the end of standard input."""
    stop = asyncio.Event()
    async with connect(url) as log:
        with open_shared(url) as shared:
            journal = TownJournal(log)
            dispatcher = Dispatcher(journal, shared, lease_seconds=LEASE_SECONDS, tick_seconds=0.1, max_silence_seconds=LEASE_SECONDS)
            worker = Worker(journal, shared, work, names=[name], roles=[role], lease_seconds=LEASE_SECONDS, scan_seconds=0.1)

            def receive() -> None:
                if sys.stdin.readline():
                    sys.stdout.write(f"{digest(dispatcher.town) if dispatcher.is_leading else 'follows'}\n")
                    sys.stdout.flush()
                else:
                    stop.set()

            asyncio.get_running_loop().add_reader(sys.stdin, receive)
            await asyncio.gather(dispatcher.run(stop), worker.run(stop))


def digest(town: TownState) -> str:
    """Of every byte of it."""
    return sha256(msgspec.json.encode(town)).hexdigest()


if __name__ == "__main__":
    asyncio.run(live(*sys.argv[1:]))
