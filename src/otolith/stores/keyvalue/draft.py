"""The next root in the making: which parts it needs, and which it makes superfluous."""

from __future__ import annotations

import os
from collections.abc import Iterable

from otolith.stores.base import Batch
from otolith.stores.keyvalue.records import (
    BLOCK_MOVES,
    NONCE_BYTES,
    STAMPS,
    Block,
    Entry,
    Page,
    Root,
    Segment,
    Step,
    encode,
    new_part,
    page_of,
)
from otolith.stores.keyvalue.view import Parts, View
from otolith.stores.rules import HASH_BYTES
from otolith.types import Hash

_FANOUT = 8
_FANOUT_BITS = 3
_TOP_LEVEL = 5  # segments of 8**5 hashes, which take a megabyte, grow no more


class Draft:
    """What a batch makes of a view. `parts` are to be set, `replaced` may go afterwards."""

    def __init__(self, view: View, parts: Parts) -> None:
        self._view = view
        self._load = parts.load
        self._pages: dict[int, Page] = {}
        self._segments = list(view.root.segments)
        self._objects = view.root.objects
        self._bytes = view.root.stored_bytes
        self.parts: dict[Hash, bytes] = {}
        self.replaced: list[Hash] = []

    @property
    def is_empty(self) -> bool:
        return not self._pages and not self.parts

    def add(self, sizes: dict[Hash, int]) -> None:
        """Count new objects, and put them into the index."""
        if not sizes:
            return
        self._objects += len(sizes)
        self._bytes += sum(sizes.values())
        self._segments.append(self._segment(sizes))
        while len(tail := self._tail()) >= _FANOUT:
            self._merge(tail)

    def index(self, sizes: dict[Hash, int]) -> None:
        """Make the index anew, of these objects."""
        self.replaced += [segment.part for segment in self._segments]
        self._objects, self._bytes = len(sizes), sum(sizes.values())
        step, names = _FANOUT**_TOP_LEVEL, sorted(sizes)
        self._segments = [
            self._segment(names[start : start + step]) for start in range(0, len(names), step)
        ]

    def put(self, name: str, entry: Entry) -> None:
        """Change a ref; one without a value and without a history is gone."""
        refs = self._page(name).refs
        if entry.hash is None and not entry.moves:
            refs.pop(name, None)
        else:
            refs[name] = entry

    def apply(self, batch: Batch) -> None:
        """Raise fences and move refs."""
        for name, token in batch.fences.items():
            if token > self._view.fence(name):
                self._page(name).fences[name] = token
        for name, old, new in batch.swaps:
            if old != new:
                was = self._view.entry(name)
                block = self._log(was, Step(old, new, batch.time, batch.note))
                self.put(name, Entry(new, block, was.moves + 1))

    def finish(self) -> Root:
        """Return the next root."""
        pages = dict(self._view.root.pages)
        for number, page in self._pages.items():
            if number in pages:
                self.replaced.append(pages.pop(number))
            if page.refs or page.fences:
                pages[number] = self._part(encode(page))
        stamps = [os.urandom(NONCE_BYTES), *self._view.root.stamps[: STAMPS - 1]]
        return Root(stamps, self._objects, self._bytes, pages, self._segments)

    def _page(self, name: str) -> Page:
        number = page_of(name)
        if number not in self._pages:
            self._pages[number] = self._view.page(number)
        return self._pages[number]

    def _log(self, was: Entry, step: Step) -> Hash:
        if was.block is None:
            return self._part(encode(Block(None, [step])))
        top = self._view.block(was.block)
        if len(top.steps) >= BLOCK_MOVES:
            return self._part(encode(Block(was.block, [step])))
        self.replaced.append(was.block)
        return self._part(encode(Block(top.below, [*top.steps, step])))

    def _tail(self) -> list[Segment]:
        """Return the newest segments that are no larger than the last, if they may be merged."""
        top = _level(self._segments[-1])
        tail: list[Segment] = []
        for segment in reversed(self._segments):
            if top >= _TOP_LEVEL or _level(segment) > top:
                break
            tail.append(segment)
        return tail

    def _merge(self, tail: list[Segment]) -> None:
        fresh = [segment.part for segment in tail if segment.part in self.parts]
        stored = [segment.part for segment in tail if segment.part not in self.parts]
        bodies = [
            *self._load(stored).values(),
            *(self.parts.pop(name)[NONCE_BYTES:] for name in fresh),
        ]
        names = [
            Hash(body[at : at + HASH_BYTES])
            for body in bodies
            for at in range(0, len(body), HASH_BYTES)
        ]
        self.replaced += stored
        self._segments[-len(tail) :] = [self._segment(names)]

    def _segment(self, names: Iterable[Hash]) -> Segment:
        run = sorted(set(names))
        return Segment(self._part(b"".join(run)), len(run))

    def _part(self, body: bytes) -> Hash:
        name, value = new_part(body)
        self.parts[name] = value
        return name


def _level(segment: Segment) -> int:
    return (segment.length.bit_length() - 1) // _FANOUT_BITS
