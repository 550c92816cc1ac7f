"""Workloads about what is merged, migrated and refused: laws that hold in any order of events."""

from __future__ import annotations

from contextlib import ExitStack, suppress
from dataclasses import dataclass
from decimal import Context, Decimal, localcontext
from functools import partial
from typing import Any, ClassVar
from unittest.mock import patch

import pytest

from otolith.care import apply_migration
from otolith.codecs import Opaque, migration
from otolith.core import BareRepo, Branch, Cells, Commit
from otolith.errors import BadValue, Busy, Invalid
from otolith.stores import Batch, Object, Swap
from otolith.stores.base import digest
from otolith.types import Tag, Tagged
from tests.simulation.machine import Process
from tests.simulation.scheduler import Stuck
from tests.simulation.workloads import SESSION, Workload


class Crossings(Workload):
    """Two branches edit the same values in every way that merges know of, and merge each other."""

    def begin(self, repo: BareRepo) -> None:
        state = repo.session(SESSION)
        state["text"], state["x"], state["keys"], state["tags"] = "one\ntwo\n", 0, {}, {"a"}
        state["hits"] = {"n": 0}
        state.policy("text", "text")
        state.policy("tags/**", self.random.choice(["append", "counter"]))
        state.policy("money", "counter")
        state["money"] = Decimal("12345678901234567890123456789.01")
        state.commit("start")
        state.fork("other")
        self.added = Decimal(0)
        self.rules: dict[str, set[str]] = {"main": set(), "other": set()}
        self.decided: dict[str, int] = {}

    def people(self) -> None:
        self.machine.start().run(self.both)

    def both(self, process: Process, name: str) -> None:
        repo = process.open()
        main, other = (repo.session(SESSION, branch=branch) for branch in ("main", "other"))
        for branch in (main, other):
            self._edit(branch)
            branch.commit()
        heads = [main.head, other.head]
        for branch, theirs in ((main, heads[1]), (other, heads[0])):
            assert theirs is not None
            self._merge(branch, theirs)
        self._compare(main, other)
        self._last(main, other)

    def _edit(self, state: Branch) -> None:
        for act in self.random.sample(
            [
                self._text,
                self._money,
                self._keys,
                self._tags,
                self._rules,
                self._hits,
                self._x,
                self._gone,
            ],
            6,
        ):
            act(state)

    def _text(self, state: Branch) -> None:
        ending = self.random.choice(["", "\n"])
        line = f"{state.name} {self.some(0, 99)}"
        state["text"] = self.random.choice([f"one\ntwo\n{line}{ending}", f"{line}\none\ntwo\n"])

    def _money(self, state: Branch) -> None:
        amount = Decimal(self.some(1, 999)) / 100
        self.added += amount
        state["money"] = _exactly(state["money"], amount)

    def _keys(self, state: Branch) -> None:
        state.map("keys")[self.random.choice([1, 1.0, True])] = state.name

    def _tags(self, state: Branch) -> None:
        for tag in ("x", state.name):
            state.set("tags").add(tag)

    def _rules(self, state: Branch) -> None:
        rule = f"rule{self.some(0, 99)}-{state.name}"
        self.rules[state.name].add(rule)
        state.policy(rule, "max")
        state.policy("*", "last-writer") if self.random.random() < 0.5 else None

    def _hits(self, state: Branch) -> None:
        state.counter("hits/*").add(1)
        state["hits/n"] = 7 if state.name == "main" else 9

    def _x(self, state: Branch) -> None:
        state["x"] = 1 if state.name == "main" else 2

    def _gone(self, state: Branch) -> None:
        state["gone"] = Opaque(Tagged(Tag.STATE, ["nowhere:Gone", 1, {"side": state.name}]))

    def _merge(self, state: Branch, theirs: Commit) -> None:
        """Merge, and decide every conflict: each side of each can be looked at and taken."""
        is_last_writer = state.policies().get("*") == "last-writer"
        before = {name: state[name] for name in ("text", "x")}
        merged = state.merge(theirs)
        theirs_then = state.at(theirs)
        paths = {conflict.path for conflict in merged.conflicts}
        if "text" not in paths and not is_last_writer:
            known = {*before["text"].splitlines(), *theirs_then["text"].splitlines()}
            assert known.issuperset(state["text"].splitlines()), f"glued: {state['text']!r}"
        for conflict in merged.conflicts:
            _ = conflict.base, conflict.ours, conflict.theirs
            state.resolve_conflict(conflict.path, take=self.random.choice(["ours", "theirs"]))
        if "x" in paths:
            state["x"] = self.decided[state.name] = self.some(0, 2)
        state.commit()
        keys = state.map("keys")
        assert len(keys) == len(dict(state["keys"])), "two keys that are one in Python"

    def _compare(self, main: Branch, other: Branch) -> None:
        for name, state in (("main", main), ("other", other)):
            kept = state.policies()
            lost = {rule for rules in self.rules.values() for rule in rules} - kept.keys()
            assert not lost, f"{name} lost the rules {lost}"
            assert state["hits/n"] in (0, 7, 9), f"plain numbers were added up: {state['hits/n']}"
            paid = _exactly(Decimal("12345678901234567890123456789.01"), self.added)
            assert state["money"] == paid, f"{state['money']} is not {paid}"

    def _last(self, main: Branch, other: Branch) -> None:
        """Merge what both decided: equal decisions are one, others are a question."""
        last_writer = main.policies().get("*") == "last-writer"
        merged = main.merge(other)
        if len(self.decided) == 2 and not last_writer:
            is_asked = "x" in {conflict.path for conflict in merged.conflicts}
            assert is_asked is (self.decided["main"] != self.decided["other"]), (
                f"decided {self.decided}, and merged to {main['x']}"
            )

    def check(self, repo: BareRepo) -> None:
        """All was looked at while it ran."""


def _exactly(number: Decimal, amount: Decimal) -> Decimal:
    with localcontext(Context(prec=60)):
        return number + amount


@dataclass(frozen=True)
class Order:
    __otolith_version__ = 2
    item: str
    cents: int


@migration(Order, 1, 2)
def in_cents(fields: dict[str, Any]) -> dict[str, Any]:
    return {"item": fields["item"], "cents": round(fields["price"] * 100)}


class Migrating(Workload):
    """Values of an old version are migrated in bulk while users change them."""

    def begin(self, repo: BareRepo) -> None:
        self.newest: Order | None = None
        state = repo.session(SESSION)
        state.policy("**", self.random.choice(["last-writer", "ours"]))
        old = Tagged(Tag.MODEL, [f"{__name__}:Order", 1, {"item": "tea", "price": 2.5}])
        state["order"] = Opaque(old)
        state.commit("start")

    def people(self) -> None:
        self.machine.start().run(lambda process, name: list(apply_migration(process.open())))
        self.machine.start().run(self.user)

    def user(self, process: Process, name: str) -> None:
        state = process.open().session(SESSION)
        state["order"] = Order("coffee", self.some(1, 999))
        state.commit("the user's own edit")
        self.newest = state["order"]

    def check(self, repo: BareRepo) -> None:
        assert repo.session(SESSION)["order"] == self.newest, "a migration undid an edit"


class Limits(Workload):
    """Messages, keys and values of every length: refused, or there for ever after."""

    limits: ClassVar[dict[str, int]] = {
        "stores.base.OBJECT_LIMIT_BYTES": 96 << 10,
        "stores.sqlite.delta.OBJECT_LIMIT_BYTES": 96 << 10,
        "core.history.commits.COMMIT_LIMIT_BYTES": 16 << 10,
        "core.trees.encoding.KEY_LIMIT_BYTES": 4 << 10,
    }

    def run(self) -> None:
        """Do it with limits that a small test can reach."""
        with ExitStack() as stack:
            for name, limit in self.limits.items():
                stack.enter_context(patch(f"otolith.{name}", limit))
            super().run()

    def begin(self, repo: BareRepo) -> None:
        state = repo.session(SESSION)
        state["log"] = 0
        state.commit("start")
        self.landed = 0

    def people(self) -> None:
        for _ in range(2):
            self.machine.start().run(self.worker)

    def worker(self, process: Process, name: str) -> None:
        state = process.open().session(SESSION)
        for _ in range(3):
            size = self.random.choice([10, 3 << 10, 15 << 10, 90 << 10, 120 << 10])
            key, message = self.random.choice([("k" * size, ""), ("key", "m" * size)])
            try:
                state.map(name)[key] = self.some(0, 999)
                state.commit(message)
                self.landed += 1
            except (Invalid, BadValue):
                state.discard()

    def check(self, repo: BareRepo) -> None:
        state = repo.session(SESSION)
        assert len(list(state.log())) >= self.landed
        _ = dict(state)


class Neighbours(Workload):
    """Threads of one process write together; what is wrong with one batch hurts no other."""

    def begin(self, repo: BareRepo) -> None:
        self.failed: dict[str, str] = {}
        self.repo = repo

    def people(self) -> None:
        process = self.machine.start()
        process.open()
        for _ in range(self.some(3, 6)):
            time = self.random.choice([0, 0, 1 << 63, -1, 2.5])
            process.run(partial(self.writes, time=time))

    def writes(self, process: Process, name: str, time: Any) -> None:
        data = self.token("data").encode()
        hash = digest(data)
        swap = Swap(f"session/{data[:9].hex()}/main", None, hash)
        batch = Batch(objects=[Object(hash, data)], swaps=[swap], time=time)
        is_good = time == 0
        try:
            process.open().store.write(batch)
        except Invalid:
            assert not is_good, "a good batch was refused for its neighbour"
        else:
            assert is_good, f"a batch with the time {time} was taken"
            assert process.open().store.read([hash])

    ends_sound = False  # its refs name no commits

    def check(self, repo: BareRepo) -> None:
        """All was looked at while it ran."""


class Held(Workload):
    """Threads of one process write while another program holds the lock and does not let go."""

    def begin(self, repo: BareRepo) -> None:
        """Begin with nothing."""

    def people(self) -> None:
        process = self.machine.start()
        process.open()
        self.machine.is_held, self.machine.attempts = True, 0
        self.threads = self.some(2, 6)
        for _ in range(self.threads):
            process.run(self.writes)

    def writes(self, process: Process, name: str) -> None:
        data = self.token("data").encode()
        batch = Batch(objects=[Object(digest(data), data)])
        with pytest.raises(Busy):
            process.open().store.write(batch)

    def check(self, repo: BareRepo) -> None:
        """Nobody has waited for the lock twice."""
        assert self.machine.attempts <= self.threads


class Circles(Workload):
    """Lists that hold themselves are refused wherever they are put, and soon."""

    def begin(self, repo: BareRepo) -> None:
        """Begin with nothing."""

    def people(self) -> None:
        self.machine.start().run(self.worker)

    def worker(self, process: Process, name: str) -> None:
        state = process.open().session(SESSION)
        circle: list[Any] = []
        circle += [circle] * self.some(1, 3)
        grow, depth = Cells._grow, 0

        def counted(cells: Cells, value: object) -> bytes:
            nonlocal depth
            depth += 1
            if depth > 3:
                raise Stuck("a list that holds itself is followed for ever")
            return grow(cells, value)

        put = self.random.choice(
            [
                lambda: state.list("x").append(circle),
                lambda: state.map("x").__setitem__("k", circle),
            ]
        )
        with patch.object(Cells, "_grow", counted), suppress(BadValue):
            put()
            raise AssertionError("a list that holds itself was taken")
        state["y"] = 1
        state.commit()

    def check(self, repo: BareRepo) -> None:
        assert dict(repo.session(SESSION)) == {"y": 1}
