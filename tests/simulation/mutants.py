"""The faults that were mended, put back one by one: the simulation must find each of them.

A mutant is a context in which one repair is taken out. Where the code has changed since, it does
what the faulty code did at that place, and nothing else.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from typing import Any, NamedTuple
from unittest.mock import patch

from otolith.care import maintenance, migrate
from otolith.core import BareRepo, Branch, Cells, branch
from otolith.core.committer import Committer
from otolith.core.history.refs import Undo, scope_ref
from otolith.core.merge import policies, three_way, values
from otolith.core.paths import format_path
from otolith.core.stage import Stage
from otolith.core.stash import Stash
from otolith.core.trees.cells import EMPTY_MAP
from otolith.errors import NotFound, RefNotFound, StaleRef, Unavailable
from otolith.stores import Batch, CachedStore, Swap, base
from otolith.stores.sqlite import SqliteStore, gc, group_commit, objects, refs
from tests.simulation import joins, workloads


class Mutant(NamedTuple):
    """A fault, and the workload that finds it."""

    name: str
    workload: type[workloads.Workload]
    break_it: Callable[[], AbstractContextManager[object]]


def replaced(place: Any, name: str, what: object) -> Callable[[], AbstractContextManager[object]]:
    return lambda: patch.object(place, name, what)


@contextmanager
def together(*some: AbstractContextManager[object]) -> Iterator[None]:
    with ExitStack() as stack:
        for each in some:
            stack.enter_context(each)
        yield


# Commits and edits


def _trust_every_base(self: Any, connection: Any, drafts: Any) -> Any:
    return {draft.base for draft in drafts if draft.base is not None}


def _root_that_forgets_first(self: Stage) -> bytes:
    root, waiting = self._now
    if waiting:
        self._now = (root, {})
        self._now = (self._cells.edit_state(root, self._edits(root, waiting, ())), {})
    return self._now[0]


def _merge_that_moves_the_head_alone(self: Committer, theirs: Any, details: Any) -> Any:
    while True:
        try:
            return self._merge(theirs, details)
        except StaleRef:
            self.head = self._moved_head()


def _send_and_forget(self: Committer, batch: Batch, commit: Any) -> None:
    try:
        self._backend.store.write(batch)
    except Unavailable:
        if not self._has_landed(commit):
            raise


def _move_to_from_what_is_there_now(self: Branch, choose: Any) -> Any:
    hash, note = choose(Undo(self._backend.store.moves(self.ref)))
    if hash is None:
        raise NotFound("there is nothing to undo")  # what the fault was is about other commits
    goal = self._backend.graph.commit(hash)
    self._backend.move(self.ref, self._backend.store.ref(self.ref), goal, note=note)
    self._set_head(goal)
    return goal


def _forked_child_that_remembers() -> AbstractContextManager[object]:
    begin = group_commit.GroupCommit._begin

    def trusting(self: Any, connection: Any) -> None:
        if self._last_version is not None:  # only the number is compared, not whose it is
            self._last_version = (connection, self._last_version[1])
        begin(self, connection)

    return together(
        patch.object(group_commit.GroupCommit, "_after_fork", lambda self: None),
        patch.object(group_commit.GroupCommit, "_begin", trusting),
    )


# Collections and verify


def _mark_first_and_trust_memory() -> AbstractContextManager[object]:
    def visit(self: Any, connection: Any, number: int, row: bytes, key: int | None = None) -> None:
        if self.marks.get(number) & gc.OBJECT:
            return
        data = self._objects.decode_row(connection, number, row)
        self.marks.add(number, gc.OBJECT)
        self.reached += 1
        self._mark_bases(connection, row)
        for child in self._links(data):
            self._add_key(objects.key_of(child))

    make = gc.SqliteCollector.__init__

    def init(self: Any, connections: Any, some: Any, *rest: Any, **named: Any) -> None:
        make(self, connections, some, *rest, **named)
        self._marker._objects = some

    return together(
        patch.object(gc.Marker, "_visit", visit), patch.object(gc.SqliteCollector, "__init__", init)
    )


def _drop_the_newest_too(self: Any, connection: Any, numbers: Any) -> None:
    connection.executemany("delete from move where seq=?", [(seq,) for seq in numbers])


def _detach_whatever_has_happened(self: Any, connection: Any, name: str, last: int) -> bool:
    row = self._refs.get(connection, name)
    if row is not None and row.hash is not None:
        change = self._refs.put(connection, row, row.name, row.hash, 0)
        self._refs.add_to_total(connection, change)
    return True


def _verify_from_memory() -> AbstractContextManager[object]:
    return together(
        patch.object(SqliteStore, "uncached", lambda self: self),
        patch.object(CachedStore, "uncached", lambda self: self),
    )


def _heads_without_names(self: Any) -> Any:
    return self._store.refs().values()


# Merges


def _lines_that_glue(base: str, ours: str, theirs: str, *, ours_first: bool) -> str | None:
    lines = base.splitlines(keepends=True)
    mine, yours = (values.line_edits(lines, side) for side in (ours, theirs))
    edits = values.combine(mine, yours, ours_first=ours_first)
    for first, last, parts in reversed(edits or []):
        lines[first:last] = parts
    return None if edits is None else "".join(lines)


def _set_that_asks_policies(
    self: Any, path: Any, base: bytes | None, ours: bytes, theirs: bytes
) -> bytes:
    (code, mine), (_, yours) = self.set_of(ours), self.set_of(theirs)
    before = self.set_of(base)
    start = EMPTY_MAP if before is None else before[1]
    merged: bytes = self._cells.tagged_cell(code, self._map(path, start, mine, yours))
    return merged


def _add_in_the_context_of_the_thread(
    self: Any, base: bytes | None, ours: bytes, theirs: bytes
) -> bytes:
    start, mine, yours = self._values(base, ours, theirs)
    added: bytes = self._cells.put(mine + yours - (start or 0))
    return added


def _conflict_in_favour_of_the_base(
    self: Any, path: Any, why: str, base: Any, ours: Any, theirs: Any
) -> Any:
    return base if self._is_virtual else _conflict(self, path, why, base, ours, theirs)


_conflict = three_way._Walk._conflict


def _load_as_it_is(self: Any, side: str) -> Any:
    cell = self.cells.get(side)
    return None if cell is None else self._read.load(cell)


def _without_the_rule_for_rules() -> AbstractContextManager[object]:
    rest = {name: rule for name, rule in policies.RESERVED.items() if name != ".policy"}
    return patch.object(policies, "RESERVED", rest)


# Stashes and neighbours


def _delete_and_leave_the_stash(
    self: BareRepo, id: str, branch: str, *, scope: str = "session"
) -> None:
    ref = scope_ref(scope, id, branch)
    head = self.store.ref(ref)
    if head is None:
        raise RefNotFound("there is no such branch")
    self.store.write(Batch(swaps=[Swap(ref, head, None)], time=self.clock(), note="delete"))


def _put_away_over_anything() -> AbstractContextManager[object]:
    write = Stash.write

    def over(self: Stash, *some: Any, **named: Any) -> None:
        there = self._backend.store.ref(self.ref)
        self.seen = Swap(self.ref, there, None) if there else None
        write(self, *some, **named)

    return patch.object(Stash, "write", over)


def _wait_once_more_each() -> AbstractContextManager[object]:
    def begin(self: Any, connection: Any) -> None:
        connection.execute("begin immediate")
        if self._last_version != (connection, connection.data_version()):
            self._refs.forget()

    return patch.object(group_commit.GroupCommit, "_begin", begin)


def _any_time_will_do() -> AbstractContextManager[object]:
    check = base.check_header

    def check_all_but_the_time(batch: Batch) -> None:
        check(Batch(batch.objects, batch.swaps, batch.fences, batch.needs, 0, batch.note))

    return patch("otolith.stores.sqlite.store.check_header", check_all_but_the_time)


def _long_objects_are_taken() -> AbstractContextManager[object]:
    read_only = {name: 1 << 40 for name in joins.Limits.limits if "delta" not in name}
    return patch.object(joins.Limits, "limits", joins.Limits.limits | read_only)


MUTANTS = [
    Mutant(
        "A1 bases are not looked for",
        workloads.Templates,
        replaced(objects.ObjectTable, "_current_bases", _trust_every_base),
    ),
    Mutant(
        "A2 edits are dropped before they are applied",
        workloads.Teamwork,
        replaced(Stage, "root", _root_that_forgets_first),
    ),
    Mutant(
        "A3 a merge moves the head without its state",
        workloads.Teamwork,
        replaced(Committer, "merge", _merge_that_moves_the_head_alone),
    ),
    Mutant("A4 what is too long to read is written", joins.Limits, _long_objects_are_taken),
    Mutant(
        "A5 a row counts as kept before its base does", workloads.Rot, _mark_first_and_trust_memory
    ),
    Mutant(
        "A6 numbers of moves come again",
        workloads.Tags,
        replaced(refs.MoveTable, "drop", _drop_the_newest_too),
    ),
    Mutant(
        "A7 a commit in doubt is forgotten",
        workloads.Teamwork,
        replaced(Committer, "_send", _send_and_forget),
    ),
    Mutant(
        "A8 a migration is merged with what others wrote",
        joins.Migrating,
        replaced(migrate._BranchMigration, "_if_moved", "merge"),
    ),
    Mutant(
        "A9 undo looks at the ref after its goal",
        workloads.Undoing,
        replaced(Branch, "_move_to", _move_to_from_what_is_there_now),
    ),
    Mutant(
        "A13 a history is forgotten that has grown since it was read",
        workloads.Tags,
        replaced(gc.HistoryPruner, "_detach", _detach_whatever_has_happened),
    ),
    Mutant("A10 verify believes what is remembered", workloads.Rot, _verify_from_memory),
    Mutant(
        "A10 verify does not look at fences",
        workloads.Rot,
        replaced(SqliteStore, "check", lambda self: []),
    ),
    Mutant(
        "A10 verify does not look at what refs name",
        workloads.Rot,
        replaced(maintenance._Inspection, "_heads", _heads_without_names),
    ),
    Mutant(
        "A11 a forked child trusts its parent's memory",
        workloads.Forks,
        _forked_child_that_remembers,
    ),
    Mutant(
        "A12 text glues lines", joins.Crossings, replaced(values, "combine_lines", _lines_that_glue)
    ),
    Mutant("A12 patterns decide about rules", joins.Crossings, _without_the_rule_for_rules),
    Mutant(
        "A12 a key with a star is a pattern",
        joins.Crossings,
        replaced(branch, "exactly", format_path),
    ),
    Mutant(
        "A12 a crossed decision for the base is dropped",
        joins.Crossings,
        replaced(three_way._Walk, "_conflict", _conflict_in_favour_of_the_base),
    ),
    Mutant(
        "A12 1 and 1.0 are two keys",
        joins.Crossings,
        replaced(three_way._Walk, "_equal_keys", lambda self, ours, edits: []),
    ),
    Mutant(
        "A12 elements of sets ask policies",
        joins.Crossings,
        replaced(three_way._Walk, "_set", _set_that_asks_policies),
    ),
    Mutant(
        "A12 a conflict about an unknown class raises",
        joins.Crossings,
        replaced(three_way.PathConflict, "_value", _load_as_it_is),
    ),
    Mutant(
        "A12 counters round",
        joins.Crossings,
        replaced(values.ValueMerger, "counter", _add_in_the_context_of_the_thread),
    ),
    Mutant(
        "A12 a stash outlives its branch",
        workloads.Stashes,
        replaced(BareRepo, "delete_branch", _delete_and_leave_the_stash),
    ),
    Mutant("A12 a stash is replaced unseen", workloads.Stashes, _put_away_over_anything),
    Mutant(
        "A12 a list that holds itself is followed",
        joins.Circles,
        replaced(Cells, "_grow", lambda self, value: self._grown(value)),
    ),
    Mutant("A12 a bad time fails its neighbours", joins.Neighbours, _any_time_will_do),
    Mutant("A12 each who waits waits again", joins.Held, _wait_once_more_each),
]
