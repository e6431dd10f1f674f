"""A supervisor that reports to tinytown's streams, ported from Rust line by line.

    python tinytown_stream.py redis://127.0.0.1:6379 harbour

let events = EventStream::new(conn, "harbour");                     events = EventStream(conn, "harbour")
events.emit(&TownEvent::new(EventType::TaskAssigned, "Fix it")      await events.emit(TownEvent.new(EventType.TASK_ASSIGNED, "Fix it")
    .with_agent(agent).with_task(task)).await?;                         .with_agent(agent).with_task(task))
events.read_recent_town_events(20).await?                           await events.read_recent_town_events(20)
"""

import asyncio
import sys

import redis.asyncio

from fleetlore.compat.tinytown import EventStream, EventType, TownEvent, new_id


async def report_task(url: str, town: str) -> list[str]:
    """Assign a task, finish it, and return the newest messages of the town."""
    async with redis.asyncio.Redis.from_url(url) as conn:
        events = EventStream(conn, town)
        agent, task = new_id(), new_id()
        assigned = TownEvent.new(EventType.TASK_ASSIGNED, "Fix the parser").with_agent(agent).with_task(task)
        await events.emit(assigned.with_transition("pending", "assigned"))
        await events.emit(TownEvent.new(EventType.TASK_COMPLETED, "Parser fixed").with_agent(agent).with_task(task))
        return [event.message for _, event in await events.read_recent_town_events(20)]


if __name__ == "__main__":
    for message in asyncio.run(report_task(sys.argv[1], sys.argv[2])):
        print(message)
