"""An asyncio event loop with virtual time, and virtual threads for code that blocks.

Nothing here sleeps, starts a thread or reads a clock. If nothing is ready, time jumps to the next timer. `run_in_executor` starts a
greenlet instead of a thread, so blocking code runs unchanged: when it waits (`Scheduler.pause`, `Signal.wait`), the loop goes on.

Every callback belongs to the simulated process in whose context it was scheduled. Callbacks of a killed process are never run, also
not its `finally` blocks, as after `kill -9`. Those of a suspended process wait until it is resumed, as after SIGSTOP.
"""

from __future__ import annotations

import asyncio
import contextvars
import heapq
from collections import deque
from collections.abc import Callable, Coroutine
from contextlib import suppress
from typing import Any, Literal, TypeVar

from greenlet import getcurrent, greenlet

_T = TypeVar("_T")
DEFAULT_THREADS = 32
SHORTEST_WAIT = 1e-9
"""Seconds by which time goes on at least when somebody waits."""
MAX_EXITS = 3
"""How often a thread of a finished run is told to exit: its `finally` blocks may wait again."""

current_process: contextvars.ContextVar[Process | None] = contextvars.ContextVar("current_process", default=None)


class Process:
    """One simulated process: its tasks end with it."""

    def __init__(self, name: str, machine: str) -> None:
        self.name, self.machine = name, machine
        self.state: Literal["running", "suspended", "dead"] = "running"
        self.resumed_at = 0.0
        """When its last suspension ended."""
        self.held: list[asyncio.Handle] = []
        """Callbacks that wait for the end of a suspension."""
        self.kept: list[object] = []
        """What a killed process leaves behind. Kept to the end of the run: collecting it would run its `finally` blocks."""


class SimulationStuck(Exception):
    """Nothing is ready and no timer is set: the system waits for something that never happens."""


class VirtualLoop(asyncio.BaseEventLoop):
    """The scheduler of one run."""

    def __init__(self) -> None:
        super().__init__()
        self._virtual_time = 0.0
        self._timers: list[tuple[float, int, asyncio.TimerHandle]] = []
        self._timer_count = 0
        self._hub: greenlet | None = None
        self._executors: dict[int, _VirtualExecutor] = {}
        self._tasks: dict[asyncio.Task[Any], None] = {}
        """Strong references, so that no task of a killed process is collected."""
        self._threads: dict[greenlet, None] = {}
        self._is_over = False
        self.failures: list[str] = []
        """Errors of callbacks, and of tasks whose error nobody looked at."""

    # --- time and callbacks

    def time(self) -> float:
        """Virtual seconds since the start of the run."""
        return self._virtual_time

    def call_at(  # type: ignore[override]
        self, when: float, callback: Callable[..., Any], *args: Any, context: contextvars.Context | None = None
    ) -> asyncio.TimerHandle:
        """Run a callback at a time; those of the same time run in the order in which they were added."""
        # A process whose clock is off may wait for less than the loop's time can express. Time must go on all the same.
        when = max(when, self._virtual_time + SHORTEST_WAIT)
        timer = asyncio.TimerHandle(when, callback, args, self, context)
        self._timer_count += 1
        heapq.heappush(self._timers, (when, self._timer_count, timer))
        return timer

    def call_soon_threadsafe(  # type: ignore[override]
        self, callback: Callable[..., Any], *args: Any, context: contextvars.Context | None = None
    ) -> asyncio.Handle:
        """As `call_soon`: virtual threads never run at the same time."""
        return self.call_soon(callback, *args, context=context)

    def _timer_handle_cancelled(self, handle: asyncio.TimerHandle) -> None:
        pass

    def _process_events(self, event_list: object) -> None:
        pass

    def _write_to_self(self) -> None:
        pass

    def _run_once(self) -> None:
        self._hub = getcurrent()
        ready: deque[asyncio.Handle] = self._ready  # type: ignore[attr-defined]
        timers = self._timers
        while timers and timers[0][2]._cancelled:
            heapq.heappop(timers)
        if not ready:
            if not timers:
                raise SimulationStuck
            self._virtual_time = max(self._virtual_time, timers[0][0])
        while timers and timers[0][0] <= self._virtual_time:
            handle = heapq.heappop(timers)[2]
            if not handle._cancelled:
                ready.append(handle)
        for _ in range(len(ready)):
            self._run_handle(ready.popleft())

    def _run_handle(self, handle: asyncio.Handle) -> None:
        if handle._cancelled:
            return
        process = handle._context.get(current_process)  # type: ignore[attr-defined]
        if process is None or process.state == "running":
            handle._run()
        elif process.state == "suspended":
            process.held.append(handle)
        else:
            process.kept.append(handle)

    def default_exception_handler(self, context: dict[str, Any]) -> None:
        """Keep errors for the report instead of logging them."""
        if self._is_over:
            return
        self.failures.append(f"{context.get('message')}: {context.get('exception')!r}")

    # --- tasks and processes

    def create_task(self, coro: Coroutine[Any, Any, _T], *, name: object = None, context: Any = None) -> asyncio.Task[_T]:  # type: ignore[override]
        """Start a task; it is referenced until it is done."""
        task = asyncio.Task(coro, loop=self, context=context)
        self._tasks[task] = None
        task.add_done_callback(self._forget_task)
        return task

    def _forget_task(self, task: asyncio.Task[Any]) -> None:
        self._tasks.pop(task, None)

    def start_in(self, process: Process, work: Coroutine[Any, Any, _T]) -> asyncio.Task[_T]:
        """Start a task of a process."""
        context = contextvars.copy_context()
        context.run(current_process.set, process)
        return self.create_task(work, context=context)

    def resume(self, process: Process) -> None:
        """Continue a suspended process: what was due meanwhile runs now."""
        process.state, process.resumed_at = "running", self._virtual_time
        held, process.held = process.held, []
        self._ready.extend(held)  # type: ignore[attr-defined]

    # --- virtual threads

    def run_in_executor(self, executor: Any, func: Callable[..., Any], *args: Any) -> asyncio.Future[Any]:  # type: ignore[override]
        """Run a function that blocks in a virtual thread; as many at a time as the executor has threads."""
        found = self._executors.get(id(executor))
        if found is None or found.executor is not executor:
            found = self._executors[id(executor)] = _VirtualExecutor(self, executor)
        return found.submit(func, args)

    def run_thread(self, func: Callable[[], None], done: Callable[[], None] = lambda: None) -> None:
        """Run a function in a virtual thread of the current process."""
        thread = greenlet(self._run_function)
        thread.gr_context = contextvars.copy_context()
        self._threads[thread] = None
        self.call_soon(thread.switch, func, done)

    def _run_function(self, func: Callable[[], None], done: Callable[[], None]) -> None:
        try:
            func()
        finally:
            self._threads.pop(getcurrent(), None)
            getcurrent().parent = self._hub
        self.call_soon(done)

    def pause_thread(self, seconds: float) -> None:
        """Let time pass in a virtual thread."""
        self.call_at(self._virtual_time + seconds, getcurrent().switch)
        self.suspend_thread()

    def suspend_thread(self) -> None:
        """Give control back to the loop until somebody switches to this virtual thread."""
        assert self._hub is not None
        assert getcurrent() is not self._hub, "blocking code must run in a virtual thread"
        self._hub.switch()

    def end_run(self) -> None:
        """Drop everything that is left; `finally` blocks that run now have no effect on a finished run."""
        self._is_over = True
        for task in self._tasks:
            task._log_destroy_pending = False  # type: ignore[attr-defined]
        self._ready.clear()  # type: ignore[attr-defined]
        self._timers.clear()
        self._executors.clear()
        self._end_threads()
        self._tasks.clear()

    def _end_threads(self) -> None:
        """End what waits in threads of killed processes: a suspended greenlet is never collected, nor what it refers to."""
        for _ in range(MAX_EXITS):
            for thread in list(self._threads):
                thread.parent = getcurrent()
                with suppress(Exception):
                    thread.throw()
        self._threads.clear()
        self.close()


class _VirtualExecutor:
    """The queue of one `ThreadPoolExecutor`, whose threads are never started."""

    def __init__(self, loop: VirtualLoop, executor: Any) -> None:
        self._loop, self.executor, self._free = loop, executor, getattr(executor, "_max_workers", DEFAULT_THREADS)
        self._waiting: deque[Callable[[], None]] = deque()

    def submit(self, func: Callable[..., Any], args: tuple[Any, ...]) -> asyncio.Future[Any]:
        future: asyncio.Future[Any] = self._loop.create_future()

        def run() -> None:
            try:
                result = func(*args)
            except Exception as error:  # noqa: BLE001 - raised in the waiting task
                if not future.done():
                    future.set_exception(error)
            else:
                if not future.done():
                    future.set_result(result)

        if self._free > 0:
            self._free -= 1
            self._loop.run_thread(run, self._run_next)
        else:
            self._waiting.append(run)
        return future

    def _run_next(self) -> None:
        if self._waiting:
            self._loop.run_thread(self._waiting.popleft(), self._run_next)
        else:
            self._free += 1


class Signal:
    """Wakes virtual threads that wait for a change."""

    def __init__(self, loop: VirtualLoop) -> None:
        self._loop, self._waiting = loop, dict[greenlet, asyncio.TimerHandle]()

    def wait(self, timeout: float) -> None:
        """Wait until the next `notify`, at most `timeout` seconds."""
        me = getcurrent()
        self._waiting[me] = self._loop.call_at(self._loop.time() + timeout, self._wake, me)
        self._loop.suspend_thread()

    def notify(self) -> None:
        """Wake all that wait."""
        waiting, self._waiting = self._waiting, {}
        for thread, timer in waiting.items():
            timer.cancel()
            context = timer._context  # type: ignore[attr-defined]
            self._loop.call_soon(thread.switch, context=context)

    def _wake(self, thread: greenlet) -> None:
        del self._waiting[thread]
        thread.switch()
