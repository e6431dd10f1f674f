"""A driver that publishes its events to NATS, ported from Rust line by line.

    python nexo_sink.py nats://127.0.0.1:4222

let sink = NatsEventSink::new(client);                                    sink = NatsEventSink(client)
sink.publish(DriverEvent::AttemptStarted { goal_id, turn_index: 0,        await sink.publish(AttemptStarted(goal_id=goal, turn_index=0,
    usage: BudgetUsage::default() }).await?;                                  usage=BudgetUsage()))
"""

import asyncio
import sys
from uuid import uuid4

import nats

from fleetlore.compat.nexo import AttemptStarted, BudgetUsage, DriverEventSink, Escalate, NatsEventSink, NoopEventSink


async def publish_turn(sink: DriverEventSink) -> None:
    """Report the first turn of a goal, and that it needs a person."""
    goal = str(uuid4())
    await sink.publish(AttemptStarted(goal_id=goal, turn_index=0, usage=BudgetUsage()))
    await sink.publish(Escalate(goal_id=goal, reason="no credentials"))


async def main(url: str) -> None:
    """Publish to nowhere, then to a server."""
    await publish_turn(NoopEventSink())
    client = await nats.connect(url, connect_timeout=10)
    await publish_turn(NatsEventSink(client))
    await client.close()


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1]))
