"""Makes the golden bucket: a store whose keys are files, written once and read for ever.

python -m tests.compat.make_golden_bucket        into golden/bucket-v1, which must not exist
"""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

from otolith.stores import Batch, BucketStore, Object, Swap
from tests.reference.objects import blob
from tests.servers.bucket import ENVIRONMENT, running_server

GOLDEN = Path(__file__).parent / "golden" / "bucket-v1"

PACKED = [blob(f"packed {number} " * 300) for number in range(20)]
LARGE = blob(bytes(300_000) + b"large")
RECENT = [blob("recent"), blob(b"")]


def fill(store: BucketStore) -> None:
    """Write objects of every kind, refs in pages and in the root, and histories."""
    store.write(Batch([*PACKED, LARGE], [Swap("main", None, LARGE.hash)], time=1, note="first"))
    for number in range(40):
        old, new = PACKED[number % 2].hash, PACKED[1 - number % 2].hash
        before = old if number else None
        store.write(Batch(swaps=[Swap("busy", before, new)], time=number + 2, note="x" * 4000))
    store.write(Batch(fences={"lease": 7}))
    store.write(Batch(RECENT, [Swap("ü", None, RECENT[0].hash)], time=99))
    store.write(Batch(swaps=[Swap("main", LARGE.hash, None)], time=100))


def all_objects() -> list[Object]:
    """Return every object of the golden bucket."""
    return [*PACKED, LARGE, *RECENT]


def main() -> None:
    """Write the files."""
    os.environ |= ENVIRONMENT
    GOLDEN.mkdir()
    with tempfile.TemporaryDirectory() as folder, running_server(Path(folder)) as server:
        store = BucketStore(server.url())
        fill(store)
        client = store._client
        for each in client.list_keys():
            (GOLDEN / each.key).write_bytes(client.get_many([each.key])[each.key])
        store.close()


if __name__ == "__main__":
    main()
