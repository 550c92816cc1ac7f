"""Objects that a worker hands over ahead of the rest: sealed, looked at, and bounded."""

from __future__ import annotations

import gc
import os
from pathlib import Path

import pytest

from otolith import Disk, Versioned
from otolith.errors import Invalid
from otolith.stores.base import digest
from otolith.workspace.result_check import ReceivedObjects
from otolith.workspace.wire import read_sealed, seal

PACKED = [b"p\xc5\xea\x60" + bytes([number]) * 60_000 for number in range(3)]


@pytest.fixture
def arrivals(tmp_path: Path) -> ReceivedObjects:
    state = Versioned(Disk(tmp_path / "a.db"))
    return ReceivedObjects(state.cells, limit_bytes=200_000)


def memory(*parts: bytes) -> int:
    return seal([parts])[0]


def test_what_is_sealed_comes_out_as_it_went_in() -> None:
    descriptor = memory(*PACKED)
    assert read_sealed(descriptor, list(map(len, PACKED))) == PACKED
    os.close(descriptor)


def test_memory_that_can_be_written_to_is_refused() -> None:
    descriptor = os.memfd_create("open", os.MFD_ALLOW_SEALING)
    os.write(descriptor, b"abc")
    with pytest.raises(ValueError, match="can still be written to"):
        read_sealed(descriptor, [3])
    os.close(descriptor)


@pytest.mark.parametrize("sizes", [[2], [4], [1, 1], [3, 0], [5, -2]])
def test_sizes_that_do_not_fit_are_refused(sizes: list[int]) -> None:
    descriptor = memory(b"abc")
    with pytest.raises(ValueError, match="announced were"):
        read_sealed(descriptor, sizes)
    os.close(descriptor)


def test_objects_arrive_in_order_with_their_names(arrivals: ReceivedObjects) -> None:
    arrivals.add(memory(*PACKED[:2]), [len(PACKED[0]), len(PACKED[1])])
    arrivals.add(memory(PACKED[2]), [len(PACKED[2])])
    assert [seen.data for seen in arrivals.all()] == PACKED
    assert [seen.hash for seen in arrivals.all()] == list(map(digest, PACKED))
    arrivals.close()


def test_what_is_no_object_is_refused(arrivals: ReceivedObjects) -> None:
    arrivals.add(memory(b"Zrubbish"), [8])
    with pytest.raises(Invalid, match="of an unknown kind"):
        arrivals.all()
    arrivals.close()


def test_a_worker_cannot_hand_over_without_end(arrivals: ReceivedObjects) -> None:
    for part in PACKED:
        arrivals.add(memory(part), [len(part)])
    with pytest.raises(Invalid, match="more than it may"):
        arrivals.add(memory(PACKED[0]), [len(PACKED[0])])
    arrivals.close()


def test_no_descriptor_is_left_open(arrivals: ReceivedObjects) -> None:
    before = open_descriptors()
    for part in PACKED:
        arrivals.add(memory(part), [len(part)])
    arrivals.all()
    arrivals.close()
    assert open_descriptors() <= before


def open_descriptors() -> int:
    gc.collect()  # what earlier tests left behind must not be closed in between
    return len(list(Path("/proc/self/fd").iterdir()))
