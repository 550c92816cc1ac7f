"""Tasks that run one at a time; a seed decides which, and where each gives way to another.

Theory of operation. A task is a greenlet, so nothing runs beside it. It gives way only where a real
process or thread could be overtaken by another: between two calls of a store, between two
statements of SQLite, while it waits for a lock. Locks of the code under test are replaced by `Lock`
and `RLock` below, which wait by giving way. Nothing here looks at a real clock.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from random import Random
from typing import Self

from greenlet import getcurrent, greenlet


class Killed(BaseException):
    """The process of this task is no more. Nothing it does from now on has an effect."""


class Stuck(AssertionError):
    """Every task waits for another one, or the whole takes far too long."""


class Task:
    """One thread of one process."""

    def __init__(self, name: str, act: Callable[[], object], owner: object, hub: greenlet) -> None:
        self.name = name
        self.owner = owner
        self.waits_for: Callable[[], bool] | None = None
        self.is_dying = False
        self.error: BaseException | None = None
        self._act = act
        self.thread = greenlet(self._run, hub)
        self.thread.task = self  # type: ignore[attr-defined]  # greenlets have attributes

    def _run(self) -> None:
        try:
            self._act()
        except Killed:
            pass
        except BaseException as error:  # noqa: BLE001 - the scheduler raises it
            self.error = error

    @property
    def is_ready(self) -> bool:
        return not self.thread.dead and (self.waits_for is None or self.waits_for())


class Scheduler:
    """Runs tasks until all have ended."""

    def __init__(self, random: Random, *, limit_switches: int = 200_000) -> None:
        self.random = random
        self.switch_chance = random.choice([0.02, 0.1, 0.3, 0.6])
        self.ticks = 0
        self._limit = limit_switches
        self._hub = getcurrent()
        self._tasks: list[Task] = []

    @property
    def current(self) -> Task | None:
        """The task that runs; None outside of all."""
        return getattr(getcurrent(), "task", None)

    def start(self, name: str, act: Callable[[], object], owner: object) -> Task:
        task = Task(name, act, owner, self._hub)
        self._tasks.append(task)
        return task

    def tick(self) -> int:
        """Return the next moment; no two are equal."""
        self.ticks += 1
        return self.ticks

    def give_way(self) -> None:
        """Let others run, if the seed says so."""
        task = self.current
        if task is None:
            return
        if task.is_dying:
            raise Killed
        if self.random.random() < self.switch_chance:
            self._switch(task)

    @contextmanager
    def alone(self) -> Iterator[None]:
        """Let nobody else run for a while, unless this task has to wait for one of them."""
        chance, self.switch_chance = self.switch_chance, 0.0
        try:
            yield
        finally:
            self.switch_chance = chance

    def wait_until(self, condition: Callable[[], bool]) -> None:
        """Let others run until something is so."""
        task = self.current
        if task is None:
            if not condition():
                raise Stuck("waits for what nobody will do")
            return
        while not condition():
            task.waits_for = condition
            self._switch(task)
        task.waits_for = None

    def _switch(self, task: Task) -> None:
        if task.is_dying:
            raise Killed
        self._hub.switch()
        if task.is_dying:
            raise Killed

    def run(self) -> None:
        """Run all tasks to their ends; raise what the first of them raised."""
        while self._tasks:
            ready = [task for task in self._tasks if task.is_ready]
            if not ready or self.tick() > self._limit:
                raise Stuck(f"{[task.name for task in self._tasks]} do not end")
            task = self.random.choice(ready)
            task.thread.switch()
            if task.error is not None:
                raise task.error
            self._tasks = [task for task in self._tasks if not task.thread.dead]

    def kill(self, owner: object) -> None:
        """End all tasks of a process where they are, but the one that asks for it."""
        for task in [task for task in self._tasks if task.owner is owner]:
            task.is_dying = True
            if task is self.current:
                continue
            if task.thread:  # it has begun
                task.thread.parent = getcurrent()
                task.thread.throw(Killed)
            else:
                task.thread = greenlet(lambda: None, getcurrent())
                task.thread.switch()

    def close(self) -> None:
        """End what is left of the tasks, after one of them failed."""
        for task in self._tasks:
            task.is_dying = True
            if task.thread:
                task.thread.parent = getcurrent()
                task.thread.throw(Killed)
        self._tasks = []


class Lock:
    """A lock that waits by letting other tasks run."""

    scheduler: Scheduler | None = None

    def __init__(self) -> None:
        self._holder: object = None
        self._depth = 0

    def acquire(self, blocking: bool = True, timeout: float = -1) -> bool:
        del timeout
        if self._holder is not None and not blocking:
            return False
        if Lock.scheduler is not None:
            Lock.scheduler.wait_until(lambda: self._holder is None)
        self._holder = getcurrent()
        return True

    def release(self) -> None:
        self._holder = None

    def locked(self) -> bool:
        return self._holder is not None

    def __enter__(self) -> Self:
        self.acquire()
        return self

    def __exit__(self, *_: object) -> None:
        self.release()


class RLock(Lock):
    """A lock that its holder may take again."""

    def acquire(self, blocking: bool = True, timeout: float = -1) -> bool:
        if self._holder is not getcurrent() and not super().acquire(blocking, timeout):
            return False
        self._depth += 1
        return True

    def release(self) -> None:
        self._depth -= 1
        if self._depth == 0:
            self._holder = None
