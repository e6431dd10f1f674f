"""Run a worker of the town until it has done a number of tasks.

lore --log sqlite:team.db town spawn ada
lore --log sqlite:team.db town assign ada "Sound the depths"
python run_worker.py sqlite:team.db ../town/worker.toml 1
"""

import asyncio
import sys

from fleetlore import OperationContext, connect, load_template, open_context, run_worker


async def work(context: OperationContext, url: str, settings: str, count: int) -> list[str]:
    """Run two agents until `count` tasks are completed; returns the tasks."""
    stop, done = asyncio.Event(), list[str]()

    async def count_tasks() -> None:
        async with connect(url) as log:
            async for event in log.follow(after=await log.head()):
                if event.kind == "town.task_completed":
                    done.append(event.task or "")
                if len(done) >= count:
                    stop.set()
                    return

    counting = asyncio.create_task(count_tasks())
    await run_worker(context, load_template(settings), stop=stop, concurrency=2, report=lambda who, what: print(who, what, sep=": "))
    await counting
    return done


if __name__ == "__main__":
    url, settings, count = sys.argv[1], sys.argv[2], int(sys.argv[3])
    with open_context(log=url, actor="build-machine") as context:
        print("done:", *asyncio.run(work(context, url, settings, count)))
