"""Whatever bytes come over the line of a worker, the host gets messages, or errors of its own."""

from __future__ import annotations

import array
import os
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from otolith import Memory, Versioned
from otolith.errors import Invalid
from otolith.types import CHUNK_BYTES
from otolith.workspace.protocol import (
    CheckSignature,
    CodeEnd,
    EarlyObjects,
    Figure,
    FromWorker,
    Map,
    NewObject,
    Read,
    StepFailure,
    WorkerResult,
)
from otolith.workspace.wire import PeerGone, Wire, WireMessage, read_sealed, seal
from otolith.workspace.worker_requests import RequestHandler

LIMIT_BYTES = 1 << 16
SHORT = st.binary(max_size=40)
NAMES = st.lists(st.text(max_size=8), max_size=3)
MESSAGES: st.SearchStrategy[WireMessage] = st.one_of(
    st.just(CodeEnd()),
    st.builds(Read, st.lists(SHORT, max_size=5)),
    st.builds(Map, SHORT),
    st.builds(CheckSignature, st.text(max_size=8), SHORT, SHORT),
    st.builds(EarlyObjects, st.lists(st.integers(-(2**63), 2**63 - 1), max_size=5)),
    st.builds(
        WorkerResult,
        ok=st.booleans(),
        value=st.none() | st.text(max_size=8),
        failure=st.none() | st.builds(StepFailure, st.text(), st.text(), st.text(), st.none()),
        was_interrupted=st.booleans(),
        cells=st.dictionaries(st.text(max_size=8), st.none() | SHORT, max_size=3),
        objects=st.lists(st.builds(NewObject, SHORT, st.none() | SHORT), max_size=3),
        created=NAMES,
        changed=NAMES,
        deleted=NAMES,
        lost=st.dictionaries(st.text(max_size=8), st.text(max_size=8), max_size=3),
        loaded=NAMES,
        pickles=NAMES,
        figures=st.lists(st.builds(Figure, st.integers(0, 9), SHORT), max_size=2),
        modules=NAMES,
        seconds=st.dictionaries(st.text(max_size=8), st.floats(0, 9), max_size=3),
    ),
)


class Line:
    """A line whose one end is a hostile worker, and the other a host that does not wait."""

    def __init__(self) -> None:
        self.worker, ours = socket.socketpair()
        ours.settimeout(0)
        self.wire: Wire[WireMessage] = Wire(ours, FromWorker, limit_bytes=LIMIT_BYTES, most_fds=2)

    def send(self, data: bytes, fds: list[int]) -> None:
        """Send some bytes; descriptors go with the first."""
        if data and fds:
            passed = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", fds))]
            data = data[self.worker.sendmsg([data], passed) :]
        self.worker.sendall(data)

    def received(self) -> list[WireMessage | str]:
        """Return all that has come by now, and how it ended if it did."""
        found: list[WireMessage | str] = []
        try:
            while (each := self.wire.poll()) is not None:
                found.append(each[0])
                for fd in each[1]:
                    os.close(fd)
        except PeerGone:
            found.append("gone")
        except Invalid:
            found.append("invalid")
        return found


@contextmanager
def opened() -> Iterator[Line]:
    """Open a line; every descriptor is closed when it is."""
    before = descriptors()
    line = Line()
    try:
        yield line
    finally:
        line.worker.close()
        line.wire.close()
    assert descriptors() == before


def descriptors() -> int:
    return len(list(Path("/proc/self/fd").iterdir()))


def packed(message: WireMessage) -> bytes:
    """Return what a worker sends for a message."""
    ours, theirs = socket.socketpair()
    with ours, theirs:
        Wire(ours, FromWorker).send(message)
        return theirs.recv(1 << 20)


@given(st.binary(max_size=200), st.integers(0, 3))
def test_random_bytes_are_messages_or_errors_of_ours(data: bytes, count: int) -> None:
    with opened() as line:
        line.send(data, [1] * count)
        line.worker.shutdown(socket.SHUT_WR)
        *_, last = line.received()
        assert last in ("gone", "invalid")


@given(st.integers(0, LIMIT_BYTES), st.binary(max_size=200), st.booleans())
def test_random_bodies_are_messages_or_errors_of_ours(
    size: int, body: bytes, is_in_memory: bool
) -> None:
    flag = 1 << 63 if is_in_memory else 0
    with opened() as line:
        line.send((size | flag).to_bytes(8, "big") + body, [1] if is_in_memory else [])
        line.worker.shutdown(socket.SHUT_WR)
        assert line.received()[-1] in ("gone", "invalid")


@given(st.lists(MESSAGES, min_size=1, max_size=4), st.lists(st.integers(0, 4000), max_size=6))
def test_messages_come_whole_however_they_are_cut(
    messages: list[WireMessage], cuts: list[int]
) -> None:
    data = b"".join(map(packed, messages))
    found: list[WireMessage | str] = []
    with opened() as line:
        for start, end in zip([0, *sorted(cuts)], [*sorted(cuts), len(data)], strict=True):
            line.worker.sendall(data[start:end])
            found += line.received()
    assert found == messages


@given(MESSAGES, st.data())
def test_a_message_that_is_cut_off_is_none(message: WireMessage, data: st.DataObject) -> None:
    whole = packed(message)
    end = data.draw(st.integers(0, len(whole) - 1))
    with opened() as line:
        line.send(whole[:end], [1, 1])
        assert line.received() == []
        line.worker.close()
        assert line.received() == ["gone"]


@given(MESSAGES, st.data())
def test_a_message_with_other_bytes_in_it_is_one_or_an_error_of_ours(
    message: WireMessage, data: st.DataObject
) -> None:
    whole = bytearray(packed(message))
    for _ in range(data.draw(st.integers(1, 4))):
        whole[data.draw(st.integers(0, len(whole) - 1))] = data.draw(st.integers(0, 255))
    with opened() as line:
        line.send(bytes(whole), [1])
        line.worker.shutdown(socket.SHUT_WR)
        *found, last = line.received()
        assert last in ("gone", "invalid")
        assert all(isinstance(each, WireMessage) for each in found)


@given(st.binary(min_size=1, max_size=200), st.lists(st.integers(-300, 300), max_size=5))
def test_memory_is_cut_as_was_said_or_refused(data: bytes, sizes: list[int]) -> None:
    descriptor, _ = seal([[data]])
    try:
        pieces = read_sealed(descriptor, sizes)
    except ValueError:
        assert sum(sizes) != len(data) or min(sizes) < 1
    else:
        assert b"".join(pieces) == data
        assert list(map(len, pieces)) == sizes
    finally:
        os.close(descriptor)


@pytest.fixture(scope="module")
def answers() -> Iterator[RequestHandler]:
    with Versioned(Memory()) as state:
        state["a"] = [b"x" * CHUNK_BYTES, b"x" * CHUNK_BYTES, b"y"]
        state.commit("a")
        answers = RequestHandler(state, lambda *_: [b""])
        yield answers
        answers.close()


@given(st.data())
def test_cells_that_are_none_are_mapped_to_nothing(
    answers: RequestHandler, data: st.DataObject
) -> None:
    cell = bytearray(answers._state.cell_at(("a",)) or b"")
    assert answers.raw_memory(bytes(cell)) is not None
    for _ in range(data.draw(st.integers(1, 3))):
        at = data.draw(st.integers(0, len(cell) - 1))
        cell[at : at + 1] = data.draw(st.binary(max_size=2))
    piece = answers.raw_memory(bytes(cell))  # nothing is raised
    assert piece is None or piece[1] > 0
