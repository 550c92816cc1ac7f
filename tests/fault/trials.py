"""Runs a scenario with one fault after the other, and checks what is left each time."""

from __future__ import annotations

import gc
import shutil
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from otolith.core import BareRepo
from otolith.errors import Error, ReadOnly, Unavailable
from otolith.stores import CachedStore, KeyValueStore, KVStore, MemoryStore, SqliteStore, Store
from tests.fault.injection import Countdown
from tests.fault.scenarios import Scenario, Seen, World, check_sound, repo_over, view, write_again

_DESCRIPTORS = Path("/proc/self/fd")
IMPATIENT_SECONDS = 0.05  # a lock that was leaked stays


class Place(Protocol):
    """Somewhere to keep a store; a copy of it is another place with the same content."""

    def open(self) -> Store: ...

    def reopen(self) -> Store:
        """Open it as another process would."""

    def copy(self) -> Place: ...

    def check_released(self, store: Store) -> None:
        """Check that nothing of an open store is locked or lent."""

    def close(self, *stores: Store) -> None: ...


class InMemory:
    def __init__(self, store: MemoryStore | None = None) -> None:
        self.store = store or MemoryStore()

    def open(self) -> Store:
        return self.store

    reopen = open

    def copy(self) -> InMemory:
        same, own = MemoryStore(), self.store
        same._objects, same._refs = dict(own._objects), dict(own._refs)
        same._moves = {name: list(moves) for name, moves in own._moves.items()}
        same._fences, same._bytes = dict(own._fences), own._bytes
        return InMemory(same)

    def check_released(self, store: Store) -> None:
        assert not self.store._lock.locked()
        assert self.store._bytes == sum(map(len, self.store._objects.values()))

    def close(self, *stores: Store) -> None:
        pass


class DictKV(KVStore):
    def __init__(self, values: dict[str, bytes]) -> None:
        self.values = values

    def get(self, key: str) -> bytes | None:
        return self.values.get(key)

    def set(self, key: str, value: bytes) -> None:
        self.values[key] = value

    def delete(self, key: str) -> None:
        self.values.pop(key, None)

    def keys(self, prefix: str) -> list[str]:
        return [key for key in self.values if key.startswith(prefix)]


class InKeyValue:
    def __init__(self, values: dict[str, bytes] | None = None) -> None:
        self.values = {} if values is None else values
        self.kv = DictKV(self.values)

    def open(self) -> Store:
        return KeyValueStore(self.kv)

    def reopen(self) -> Store:
        return KeyValueStore(DictKV(self.values))

    def copy(self) -> InKeyValue:
        return InKeyValue(dict(self.values))

    def check_released(self, store: Store) -> None:
        free = threading.Event()

        def take() -> None:
            with self.kv._guard:
                free.set()

        thread = threading.Thread(target=take, daemon=True)
        thread.start()
        thread.join(5)
        assert free.is_set()

    def close(self, *stores: Store) -> None:
        for store in stores:
            store.close()


class InSqlite:
    """A file, and its copies beside it."""

    def __init__(self, folder: Path, *, name: str = "0.db", **options: Any) -> None:
        self.folder, self.name, self.options = folder, name, options
        self.copies = iter(range(1, 1 << 30))

    @property
    def path(self) -> Path:
        return self.folder / self.name

    def open(self) -> Store:
        options: Any = {"durability": "fast", "busy_timeout_seconds": IMPATIENT_SECONDS}
        return SqliteStore(self.path, **(options | self.options))

    def reopen(self) -> Store:
        return SqliteStore(self.path, durability="fast", busy_timeout_seconds=IMPATIENT_SECONDS)

    def copy(self) -> InSqlite:
        other = InSqlite(self.folder, name=f"{next(self.copies)}.db", **self.options)
        if self.path.exists():
            shutil.copy(self.path, other.path)
        return other

    def check_released(self, store: Any) -> None:
        connections = getattr(store, "_inner", store)._connections
        assert not connections.lock.locked()
        assert not connections._lent
        writer = connections._writer
        assert writer is None or not writer.in_transaction

    def close(self, *stores: Store) -> None:
        for store in stores:
            store.close()
        for file in self.folder.glob(f"{self.name}*"):
            file.unlink()


class InCachedSqlite(InSqlite):
    def open(self) -> Store:
        return CachedStore(super().open())


@dataclass
class Truth:
    """What is seen without a fault."""

    before: Seen
    after: Seen
    at_last: Seen  # after one more commit
    staged: list[Any]  # what each handle shows before the act
    place: Place


def prepared(scenario: Scenario, place: Place) -> Truth:
    """Make the history that a scenario starts from, and see where it leads."""
    store = place.open()
    scenario.prepare(World(repo_over(store, start=1000)))
    if isinstance(place, InSqlite):
        store.close()
    trial = place.copy()
    store = trial.open()
    world = World(repo_over(store))
    scenario.stage(world)
    before = seen_by_all(world.repo)
    staged = [state.to_dict() for state in world.handles.values()]
    scenario.act(world)
    after = seen_by_all(world.repo)
    go_on(world)
    at_last = seen_by_all(world.repo)
    trial.close(store)
    return Truth(before, after, at_last, staged, place)


def seen_by_all(repo: BareRepo) -> Seen:
    return {ref: seen for ref, seen in view(repo).items() if "another" not in ref}


def go_on(world: World) -> None:
    for state in world.handles.values():
        state["at last"] = 1
        state.commit("at last")


@dataclass
class Trial:
    """One run with one fault."""

    scenario: Scenario
    truth: Truth
    injected: tuple[type[BaseException], ...] = ()
    may_give_up: bool = False  # whether a store may refuse to go on after the fault

    def run(
        self,
        armed: Callable[[Store], AbstractContextManager[None]],
        *,
        wrap: Callable[[Store], Store] = lambda store: store,
    ) -> None:
        """Act with a fault, and check what is left."""
        place = self.truth.place.copy()
        open_files, living = descriptors(), threading.active_count()
        inner = place.open()
        store = wrap(inner)
        world = World(repo_over(store))
        self.scenario.stage(world)
        raised = self._act(world, armed(store))
        place.check_released(inner)
        fresh = repo_over(place.reopen())
        seen = seen_by_all(fresh)
        assert seen in (self.truth.before, self.truth.after), difference(self.truth, seen)
        if raised is None:
            assert seen == self.truth.after, difference(self.truth, seen)
        write_again(fresh)
        landed = seen == self.truth.after != self.truth.before
        self._again(world, fresh, landed=landed)
        check_sound(fresh)
        place.check_released(inner)
        place.close(fresh.store, inner)
        del world, fresh, store, inner
        assert threading.active_count() <= living
        assert_released(open_files)

    def _act(self, world: World, armed: AbstractContextManager[None]) -> BaseException | None:
        try:
            with armed:
                self.scenario.act(world)
        except Error as error:
            return error.with_traceback(None)
        except self.injected as stop:
            return stop.with_traceback(None)
        return None

    def _again(self, world: World, fresh: BareRepo, *, landed: bool) -> None:
        try:
            if self.scenario.repeats or not landed:
                self.scenario.act(world)
            seen = seen_by_all(fresh)
            assert seen == self.truth.after, difference(self.truth, seen)
            go_on(world)
        except (ReadOnly, Unavailable):
            if not self.may_give_up:
                raise
            self._check_kept(world, fresh)
            return
        seen = seen_by_all(fresh)
        assert seen == self.truth.at_last, difference(self.truth, seen)

    def _check_kept(self, world: World, fresh: BareRepo) -> None:
        """Check that a handle whose store has given up still has its edits, or that they landed."""
        seen = seen_by_all(fresh)
        assert seen in (self.truth.before, self.truth.after), difference(self.truth, seen)
        states = [state for state, _ in self.truth.after.values()]
        for state, edits in zip(world.handles.values(), self.truth.staged, strict=True):
            now = {path: value for path, value in state.to_dict().items() if path != "at last"}
            assert now == edits or now in states


def difference(truth: Truth, seen: Seen) -> str:
    lines: list[str] = []
    for name, known in (("before", truth.before), ("after", truth.after), ("last", truth.at_last)):
        lines += [
            f"{name} {ref}: {_short(known.get(ref))} != {_short(seen.get(ref))}"
            for ref in known.keys() | seen.keys()
            if known.get(ref) != seen.get(ref)
        ]
    return "\n".join(lines)


def _short(seen: Any) -> str:
    if seen is None:
        return "absent"
    state, log = seen
    return f"{ {k: v for k, v in state.items() if k not in ('wide', 'blob')} } {log}"


def descriptors() -> int:
    """Return how many files are open."""
    return len([*_DESCRIPTORS.iterdir()]) if _DESCRIPTORS.is_dir() else 0


def assert_released(open_files: int) -> None:
    """Check that no more files are open than there were."""
    if descriptors() > open_files:
        gc.collect()  # what an exception held
    assert descriptors() <= open_files


def evenly(points: Iterable[int], most: int) -> Iterator[int]:
    """Yield no more than so many of the points, evenly spread, the last among them."""
    chosen = list(points)
    step = max(1, -(-len(chosen) // most))
    yield from chosen[::-1][::step][::-1]


@contextmanager
def at_point(number: int, counted: Countdown | None) -> Iterator[None]:
    """Say where the fault was if something is not as it must be."""
    try:
        yield
    except BaseException as error:
        where = counted.log[number - 1] if counted is not None else "call of the store"
        error.add_note(f"the fault was at {number}: {where}")
        raise
