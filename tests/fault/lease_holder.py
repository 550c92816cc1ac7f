"""A process that has a lease: python -m tests.fault.lease_holder URL NAME TTL.

It prints "held" when it has the lease, waits for a line, then writes with the token of its lease,
and prints what came of it.
"""

from __future__ import annotations

import sys

from otolith.errors import Error
from otolith.stores import Batch, Leaser, Swap, open_store
from otolith.testing import blob


def main(url: str, name: str, ttl: str) -> None:
    store = open_store(url)
    assert isinstance(store, Leaser)
    lease = store.lease(name, "frozen", ttl_seconds=float(ttl))
    assert lease is not None
    print("held", flush=True)
    sys.stdin.readline()
    late = blob("late")
    try:
        store.write(
            Batch([late], [Swap("main", None, late.hash)], fences={lease.name: lease.token})
        )
    except Error as error:
        print(type(error).__name__, flush=True)
    else:
        print("written", flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
