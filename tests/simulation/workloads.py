"""What the processes of a simulation do, and what must be true of it.

Each workload is a small program of several processes with a promise that can be checked without
knowing the order of events: a *token* is a piece of work that is counted, logged and stored at
once, so that a state in which the three differ was committed in halves, a token that is there
twice was counted twice, and one that was acknowledged and is not there was lost.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Any, ClassVar

import apsw

from otolith.care import verify
from otolith.core import BareRepo, Branch, links
from otolith.core.history.refs import REDO, UNDO, Undo
from otolith.errors import (
    Busy,
    Corrupt,
    Error,
    Fenced,
    MergeConflict,
    NotFound,
    RefExists,
    StaleRef,
    Unavailable,
    Uncommitted,
)
from otolith.stores import Batch, Move, Swap
from otolith.stores.sqlite.delta import base_of
from otolith.stores.sqlite.objects import key_of
from otolith.types import Hash
from tests.simulation.linearizability import (
    IMPOSSIBLE,
    Call,
    LookCall,
    SwapCall,
    is_linearizable,
    step_of_ref,
)
from tests.simulation.machine import Machine, Process

SESSION = "work"
MAIN = f"session/{SESSION}/main"
_FOR_EVER = 1 << 62


class Workload(ABC):
    """One simulation. `run` ends, or raises what was not as promised."""

    stores: ClassVar[tuple[str, ...]] = ("sqlite",)
    fault_chances: ClassVar[tuple[float, ...]] = (0.0,)
    ends_sound: ClassVar[bool] = True

    def __init__(self, seed: int, folder: Path) -> None:
        over = self.stores[seed % len(self.stores)]
        self.machine = Machine(f"{type(self).__name__} {seed}", folder, over=over)
        self.random = self.machine.random
        self._starts: dict[str, Hash] = {}
        self._numbers = 0

    def run(self) -> None:
        """Do all of it, then look at what is on the disk."""
        with self.machine as machine:
            repo = machine.start().open()
            self.begin(repo)
            self._starts = repo.store.refs()
            machine.calls.clear()
            machine.fault_chance = self.random.choice(self.fault_chances)
            self.people()
            machine.scheduler.run()
            machine.fault_chance = 0.0
            machine.is_held = False
            for process in machine.processes:
                process.end()
            if self.ends_sound:
                self.audit()

    def audit(self) -> None:
        """Look at the file as somebody who has not been there."""
        with self.machine.reopened() as repo:
            self.check_refs(repo)
            self.check(repo)
            problems = verify(repo, level="deep").problems
            assert problems == [], problems

    @abstractmethod
    def begin(self, repo: BareRepo) -> None:
        """Commit what is there before anything can happen."""

    @abstractmethod
    def people(self) -> None:
        """Start processes and their threads."""

    @abstractmethod
    def check(self, repo: BareRepo) -> None:
        """Look at what is there after all is over."""

    def calls(self) -> list[tuple[str, list[Call]]]:
        """Return what was asked of each ref and fence."""
        return sorted(self.machine.calls.items())

    def check_refs(self, repo: BareRepo) -> None:
        """Every answer about a ref or a fence is explained by one order of all calls."""
        for place, calls in list(self.machine.calls.items()):
            if place.startswith("fence "):
                assert is_linearizable(calls, 0, _step_of_fence), f"{place}: {calls}"
                continue
            look = self.machine.call(place, LookCall())
            self.machine.answer(look, repo.store.ref(place))
            assert is_linearizable(calls, self._starts.get(place), step_of_ref), (
                f"{place}: no order explains {calls}"
            )

    def some(self, low: int, high: int) -> int:
        return self.random.randint(low, high)

    def token(self, name: str) -> str:
        """Return a text that is used once, long enough for trees to have several nodes."""
        self._numbers += 1
        return f"{name}-{self._numbers}-" + "x" * self.random.choice([10, 100, 400])

    def collector(self, process: Process, name: str) -> None:
        """Drop what is garbage, now and then, and with it some or all of what undo needs."""
        store = process.store
        for _ in range(self.some(1, 3)):
            lately = 1000 * self.some(0, self.machine.scheduler.ticks)
            since = self.random.choice([0, process.clock() - lately, _FOR_EVER])
            with suppress(Unavailable, Busy):
                store.collect(links, forget_moves_before=since, erase=self.some(0, 1) == 1)

    def killer(self, victims: list[Process], restart: Callable[[], None]) -> Callable[..., None]:
        """Return a task that ends processes at moments of the seed's choice."""

        def act(process: Process, name: str) -> None:
            for victim in victims:
                for _ in range(self.some(1, 60)):
                    self.machine.scheduler.give_way()
                if self.random.random() < 0.7:
                    victim.kill()
                    restart()

        return act


def _step_of_fence(state: Any, token: Any, answer: Any, has_answer: bool) -> Any:
    if answer is False:
        return state if token < state else IMPOSSIBLE
    if token < state:
        return IMPOSSIBLE
    return token if has_answer or token > state else IMPOSSIBLE


class Teamwork(Workload):
    """Several processes and threads work on one branch, fork it, merge, and are killed."""

    stores = ("sqlite", "sqlite", "keyvalue")
    fault_chances = (0.0, 0.02, 0.1)

    def __init__(self, seed: int, folder: Path) -> None:
        super().__init__(seed, folder)
        self.offered: set[str] = set()
        self.done: set[str] = set()  # and acknowledged

    def begin(self, repo: BareRepo) -> None:
        state = repo.session(SESSION)
        state.counter("count").add(0)
        state.list("log").extend([])
        state["store"] = {f"old-{i:03}": f"{i}" * 60 for i in range(self.some(0, 60))}
        state.commit("start")

    def people(self) -> None:
        workers = [self.machine.start() for _ in range(self.some(1, 3))]
        for process in workers:
            for _ in range(self.some(1, 3)):
                process.run(self.worker)
        if self.machine.over == "sqlite":
            for _ in range(self.some(0, 2)):
                self.machine.start().run(self.collector)
            if self.random.random() < 0.3:
                self.random.choice(workers).run(self.forker)
        if self.random.random() < 0.4:
            killer = self.killer(workers[:1], lambda: self.machine.start().run(self.worker))
            self.machine.start().run(killer)

    def forker(self, process: Process, name: str) -> None:
        for _ in range(self.some(0, 30)):
            self.machine.scheduler.give_way()
        process.fork().run(self.worker)

    def worker(self, process: Process, name: str) -> None:
        state = self._open(process)
        for _ in range(self.some(2, 6)):
            act = self.random.choices(
                [self.works, self.branches, self.looks, self.copies], [6, 2, 2, 1]
            )[0]
            act(process, state, name)

    def _open(self, process: Process) -> Branch:
        while True:
            with suppress(Unavailable):
                return process.open().session(SESSION)

    def works(self, process: Process, state: Branch, name: str) -> None:
        tokens = self._stage(state, name)
        if tokens and self._commit(state, tokens, fences=self._fences(name)):
            self.done |= tokens

    def _fences(self, name: str) -> dict[str, int]:
        return {name: self.machine.scheduler.ticks} if self.random.random() < 0.2 else {}

    def _stage(self, state: Branch, name: str) -> set[str]:
        tokens = {self.token(name) for _ in range(self.some(1, 3))}
        self.offered |= tokens
        for token in sorted(tokens):
            for edit in (
                lambda token=token: state.counter("count").add(1),
                lambda token=token: state.list("log").append(token),
                lambda token=token: state.map("store").__setitem__(token, token[-40:] * 2),
            ):
                if not self._until_done(edit):
                    state.discard()
                    return set()
        return tokens

    def _until_done(self, edit: Callable[[], object]) -> bool:
        for _ in range(20):
            with suppress(Unavailable):
                edit()
                return True
        return False

    def _commit(self, state: Branch, tokens: set[str], fences: dict[str, int]) -> bool:
        """Commit as a careful caller does: again after a failure, unless it gives up."""
        while True:
            try:
                state.commit(fences=fences)
            except Fenced:
                state.discard()
                return False
            except (Unavailable, Busy):
                with self.machine.calm():
                    assert tokens <= set(state["log"]), "a failed commit has lost staged edits"
                if self.random.random() < 0.1:
                    state.discard()
                    return False
            else:
                return True

    def branches(self, process: Process, state: Branch, name: str) -> None:
        self._numbers += 1
        side = f"side{self._numbers}"
        try:
            fork = state.fork(side)
        except (Unavailable, NotFound):
            return
        tokens = self._stage(fork, name)
        if not tokens or not self._commit(fork, tokens, {}):
            return
        if self._merge(state, fork):
            self.done |= tokens
        if self.random.random() < 0.5:
            with suppress(Unavailable, NotFound, StaleRef):
                process.open().delete_branch(SESSION, side)

    def _merge(self, state: Branch, fork: Branch) -> bool:
        for _ in range(5):
            with suppress(Unavailable, Busy):
                merged = state.merge(fork)
                assert merged.kind != "conflicted", merged.conflicts
                return True
        return False

    def looks(self, process: Process, state: Branch, name: str) -> None:
        before = set(self.done)
        try:
            now = process.open().session(SESSION)
            log, count, store = list(now["log"]), now["count"], set(now["store"])
        except Unavailable:
            return
        self._check_state(log, count, store)
        assert before <= set(log), f"lost: {sorted(before - set(log))}"

    def copies(self, process: Process, state: Branch, name: str) -> None:
        """Write equal content elsewhere, and delete it: rows go and come again."""
        repo = process.open()
        with suppress(Unavailable, Busy, NotFound, StaleRef):
            other = repo.session("copy")
            other["store"] = {f"old-{i:03}": f"{i}" * 60 for i in range(60)}
            other.commit()
            if self.random.random() < 0.7:
                repo.delete_branch("copy", "main")

    def _check_state(self, log: list[str], count: int, store: set[str]) -> None:
        assert len(log) == len(set(log)), "a token was logged twice"
        assert count == len(log), f"counted {count}, logged {len(log)}"
        assert set(log) == {key for key in store if not key.startswith("old-")}

    def check(self, repo: BareRepo) -> None:
        now = repo.session(SESSION)
        log = list(now["log"])
        self._check_state(log, now["count"], set(now["store"]))
        assert self.done <= set(log), f"lost: {sorted(self.done - set(log))}"
        assert set(log) <= self.offered


class Undoing(Workload):
    """Several processes commit, undo and redo on one branch."""

    def begin(self, repo: BareRepo) -> None:
        state = repo.session(SESSION)
        state["log"] = 0
        state.commit("start")

    def people(self) -> None:
        for _ in range(self.some(2, 3)):
            self.machine.start().run(self.worker)

    def worker(self, process: Process, name: str) -> None:
        state = process.open().session(SESSION)
        for _ in range(self.some(2, 5)):
            state.discard()
            state.refresh()
            with suppress(StaleRef, NotFound, Uncommitted, MergeConflict):
                act = self.random.choice(["commit", "commit", "undo", "redo"])
                if act == "commit":
                    state[name] = self.token(name)
                    state.commit()
                else:
                    getattr(state, act)()

    def check(self, repo: BareRepo) -> None:
        """Every undo and redo went to where it led when the ref was where it moved from.

        A ref that left and came back is where it was: a swap cannot tell.
        """
        moves = repo.store.moves(MAIN)
        for at, move in enumerate(moves):
            pasts = [Undo(moves[k:]) for k in range(at + 1, len(moves)) if moves[k].new == move.old]
            if move.note.startswith(UNDO):
                assert any(self._leads(repo, past.back, move) for past in pasts), move
            elif move.note.startswith(REDO):
                assert any(self._leads(repo, past.forward, move) for past in pasts), move

    def _leads(self, repo: BareRepo, choose: Callable[[], Any], move: Move) -> bool:
        try:
            goal = choose()[0]
        except NotFound:
            return False
        is_empty = goal is None and move.new is not None and not repo.at(move.new.hex())
        return is_empty or (goal is not None and move.new == goal)


class Stashes(Workload):
    """Staged edits are stashed, taken up by others, and deleted with their branch."""

    fault_chances = (0.0, 0.02)

    def begin(self, repo: BareRepo) -> None:
        state = repo.session(SESSION)
        state["log"] = 0
        state.commit("start")
        self.seen: dict[str, set[bytes | None]] = {}

    def people(self) -> None:
        for _ in range(self.some(2, 3)):
            self.machine.start().run(self.worker)

    def worker(self, process: Process, name: str) -> None:
        with self.machine.calm():
            state = process.open().session(SESSION, branch="side")
        self.seen[name] = {None}
        for _ in range(self.some(3, 6)):
            with suppress(StaleRef, NotFound, Uncommitted, Unavailable, RefExists):
                getattr(self, self.random.choice(["puts", "takes", "removes", "commits"]))(
                    process, state, name
                )
            if state.conflicts:
                state.discard()

    def puts(self, process: Process, state: Branch, name: str) -> None:
        state[name] = self.token(name)
        state.stash()
        self._note(state, name)

    def takes(self, process: Process, state: Branch, name: str) -> None:
        state.discard()
        state.refresh()
        state.unstash()
        self._note(state, name)

    def commits(self, process: Process, state: Branch, name: str) -> None:
        with suppress(Error):
            state[name] = self.token(name)
            state.commit()

    def removes(self, process: Process, state: Branch, name: str) -> None:
        with self.machine.scheduler.alone():
            process.open().delete_branch(SESSION, "side")
            refs = process.store.inner.refs()
        is_gone = f"session/{SESSION}/side" not in refs
        assert not (is_gone and f"stage/{SESSION}/side" in refs), "edits outlived their branch"

    def _note(self, state: Branch, name: str) -> None:
        stash = state._committer.stash.seen
        if stash is not None:
            self.seen[name].add(stash.old)

    def check(self, repo: BareRepo) -> None:
        for call in self.machine.calls.get(f"stage/{SESSION}/side", []):
            if isinstance(call.what, SwapCall) and call.answer is True and call.what.new:
                assert call.what.old in self.seen[call.who], (
                    f"{call.who} replaced edits it had never seen"
                )


class Tags(Workload):
    """Commits of deleted branches are tagged while two collectors run and forget."""

    def begin(self, repo: BareRepo) -> None:
        self.tagged: set[str] = set()

    def people(self) -> None:
        for since in self.random.sample([0, 0, None, None, _FOR_EVER, _FOR_EVER], 3):
            self.machine.start().run(partial(self.collects, since=since))
        for _ in range(2):
            self.machine.start().run(self.worker)

    def collects(self, process: Process, name: str, since: int | None) -> None:
        store = process.store
        for _ in range(self.some(2, 5)):
            lately = process.clock() - 1000 * self.some(0, 300)
            before = lately if since is None else since
            store.collect(links, forget_moves_before=before, erase=self.some(0, 3) == 3)

    def worker(self, process: Process, name: str) -> None:
        repo = process.open()
        for number in range(self.some(3, 8)):
            state = repo.session(f"{name}-{number}")
            state["big"] = {f"k{i}": f"{number} {i} " * 9 for i in range(9)}
            commit = state.commit()
            repo.delete_branch(f"{name}-{number}", "main")
            for _ in range(self.some(0, 30)):
                self.machine.scheduler.give_way()
            with suppress(NotFound):  # it was collected before: then nothing is promised
                repo.tag(f"{name}-{number}", commit)
                self.tagged.add(f"{name}-{number}")

    def check(self, repo: BareRepo) -> None:
        assert set(repo.tags()) == self.tagged
        for name in self.tagged:
            assert repo.at(name)["big"]


class Templates(Workload):
    """Sessions with equal content come and go, while long-lived processes go on from them."""

    def begin(self, repo: BareRepo) -> None:
        """Begin with nothing."""

    def people(self) -> None:
        acts = [[self.edits, self.edits, self.makes], [self.deletes, self.collects, self.makes]]
        for some in acts:
            self.machine.start().run(partial(self.goes, acts=some))

    def goes(self, process: Process, name: str, acts: list[Callable[..., None]]) -> None:
        repo = process.open()
        for act in acts * self.some(2, 4):
            state = repo.session(SESSION)
            try:
                act(process, state, name)
            except (NotFound, StaleRef, MergeConflict):
                continue
            except Corrupt:  # its branch was deleted and collected, or it is really damaged
                if state.head is None or repo.store.ref(state.ref) == state.head.hash:
                    raise

    def makes(self, process: Process, state: Branch, name: str) -> None:
        state["store"] = {f"k{i:03}": f"value {i} " * 9 for i in range(60)}
        state.commit()

    def edits(self, process: Process, state: Branch, name: str) -> None:
        if "store" in state:
            state.map("store")[f"k{self.some(0, 59):03}"] = self.token(name)
            state.commit()

    def deletes(self, process: Process, state: Branch, name: str) -> None:
        process.open().delete_branch(SESSION, "main")

    def collects(self, process: Process, state: Branch, name: str) -> None:
        is_erasing = self.random.random() < 0.5
        process.store.collect(links, forget_moves_before=_FOR_EVER, erase=is_erasing)

    def check(self, repo: BareRepo) -> None:
        for session in repo.sessions():
            assert len(repo.session(session.id)["store"]) == 60


class Forks(Workload):
    """A process forks; parent, child and a stranger go on writing to one branch."""

    def begin(self, repo: BareRepo) -> None:
        state = repo.session(SESSION)
        state.list("log").append("start")
        state.commit("start")
        self.done: set[str] = set()

    def people(self) -> None:
        parent = self.machine.start()
        parent.run(self.parent)
        self.machine.start().run(self.worker)

    def parent(self, process: Process, name: str) -> None:
        self.worker(process, name)
        process.fork().run(self.worker)
        self.worker(process, name)

    def worker(self, process: Process, name: str) -> None:
        for _ in range(self.some(1, 3)):
            state, token = process.open().session(SESSION), self.token(name)
            state.list("log").append(token)
            state.commit()
            self.done.add(token)

    def check(self, repo: BareRepo) -> None:
        log = list(repo.session(SESSION)["log"])
        assert sorted(log) == sorted({"start", *self.done})


class Rot(Workload):
    """A bit rots below a running process: verify notices, and nothing sound is dropped for it."""

    stores = ("sqlite", "cached")
    ends_sound = False

    def begin(self, repo: BareRepo) -> None:
        state = repo.session(SESSION)
        state["store"] = {f"k{i:03}": f"value {i} " * 20 for i in range(60)}
        state.commit("start", fences={"lease": 7})
        for i in range(4):
            state.map("store")[f"k{i * 9:03}"] = f"changed {i} " * 20
            state.commit(f"edit {i}")

    def people(self) -> None:
        self.machine.start().run(self.owner)

    def owner(self, process: Process, name: str) -> None:
        repo = process.open()
        reached = _reached(repo)  # and remembered by this process
        what, damaged = self._damage()
        assert verify(repo, level="deep").problems, f"verify did not see it: {what}"
        with suppress(Corrupt):
            process.store.collect(links, forget_moves_before=_FOR_EVER)
        lost = {key_of(hash) for hash in reached} - self._rows() - damaged
        assert not lost, f"a collection dropped what refs reach: {what}"

    def _damage(self) -> tuple[str, set[int]]:
        """Break one row behind the back of everybody; return how, and which objects are gone."""
        what = self.random.choice(
            [
                "a base is missing",
                "an object is damaged",
                "a fence is missing",
                "a branch names no commit",
            ]
        )
        with self._file() as file:
            if what == "a branch names no commit":
                store = self.machine.connect()
                store.write(Batch(swaps=[Swap("session/odd/main", None, store.ref(".config"))]))
                store.close()
            elif what == "a fence is missing":
                file.execute("delete from fence where name<>''")
            else:
                number, key = self._victim(file, is_base=what == "a base is missing")
                act = {"a base is missing": "delete from object where id=?"}
                file.execute(act.get(what, "update object set data=x'0041' where id=?"), (number,))
                return what, {key}
        return what, set()

    def _victim(self, file: apsw.Connection, *, is_base: bool) -> tuple[int, int]:
        rows: list[Any] = file.execute("select id, key, data from object where key<>0").fetchall()
        bases = {base_of(data) for _, _, data in rows}
        number, key, _ = self.random.choice([row for row in rows if not is_base or row[0] in bases])
        return number, key

    def _rows(self) -> set[int]:
        with self._file() as file:
            return {key for (key,) in file.execute("select key from object")}

    @contextmanager
    def _file(self) -> Iterator[apsw.Connection]:
        connection = apsw.Connection(str(self.machine.path))
        connection.exec_trace = None
        try:
            yield connection
        finally:
            connection.close()

    def check(self, repo: BareRepo) -> None:
        """All was looked at while it ran; not even opening it may work any more."""


def _reached(repo: BareRepo) -> set[Hash]:
    """Return all that refs reach."""
    seen: set[Hash] = set()
    waiting = list(repo.store.refs().values())
    while waiting:
        found = repo.store.read([hash for hash in waiting if hash not in seen])
        seen |= found.keys()
        waiting = [link for data in found.values() for link in links(data)]
    return seen
