"""A pull of a few new commits of a long history from a server: how many bytes come over the wire.

Everything that the server sends is counted, also what is not objects: protocol, refs, histories.
Postgres sends objects as it stores them, compressed, and the bytes of new objects are counted so.
"""

from __future__ import annotations

from collections.abc import Iterator

import otolith
from bench.ground import SESSION, Changes, Ground, items, tell
from bench.table import Budget, Figure, Row
from bench.timing import once
from otolith import care
from tests.servers.postgres import fresh, postgres_server
from tests.servers.proxy import Proxy


def rows(ground: Ground) -> Iterator[Row]:
    sizes, place = ground.sizes, ground.place("history")
    changes = Changes(sizes.some_keys)
    with postgres_server(on_disk=True) as server, Proxy(server.port) as proxy:
        url = fresh(server.url)
        near = url.replace(str(server.port), str(proxy.port))
        tell(f"a history of {sizes.history_objects:,} objects")
        with otolith.open(url, durability="fast") as there:
            there.session(SESSION).update(items(sizes.some_keys))
            while there.store.usage().objects < sizes.history_objects:
                _commit(there, changes, sizes.new_commits)
            care.clone(there, str(place))
            old = there.store.usage()
            _commit(there, changes, sizes.new_commits)
            new = there.store.usage()
        with otolith.open(place, durability="fast") as repo:
            before = proxy.received_bytes
            reports: list[care.TransferReport] = []
            seconds = once(lambda: reports.append(care.pull(repo, near)))
            moved = proxy.received_bytes - before
    (copied,) = (report.copied for report in reports)
    added = new.objects - old.objects
    assert copied.objects == added, f"{copied.objects} objects came, {added} are new"
    work = f"pull of {sizes.new_commits} new commits, history of {old.objects:,} objects"
    size = new.stored_bytes - old.stored_bytes
    yield Row(
        "pull-bytes",
        f"{work}: bytes received",
        Figure(moved, "B"),
        f"its {added:,} new objects",
        Figure(size, "B"),
        moved / size,
        Budget(1.2, "x", of="ratio"),
    )
    yield Row("pull-time", f"{work}: time", Figure(seconds, "s"))


def _commit(repo: otolith.Repo, changes: Changes, count: int) -> None:
    """Make commits of one change each."""
    state = repo.session(SESSION)
    for _ in range(count):
        key, value = changes.next()
        state[key] = value
        state.commit()
