"""A forked child knows nothing of what its parent wrote, and loses nothing of what others wrote."""

from __future__ import annotations

import os
from collections.abc import Callable

import pytest

import otolith

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")


def in_a_child(work: Callable[[], None]) -> None:
    pid = os.fork()
    if pid == 0:
        code = 1
        try:
            work()
            code = 0
        finally:
            os._exit(code)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0


@pytest.mark.parametrize("is_new", [True, False])
@pytest.mark.parametrize("writes", range(12))
def test_children_overwrite_nothing_that_others_committed(tmp_path, writes, is_new):
    """Versions of the data are told apart by the connection: another one may count alike."""
    path = tmp_path / "a.db"
    if not is_new:
        otolith.open(path).close()
    with otolith.open(path) as repo:
        state = repo.session("a")
        state["x"] = 0
        state.commit("by the parent")

        def first() -> None:
            state["first"] = 1
            state.commit("by the first child")

        def second() -> None:
            connections = repo.store._connections  # type: ignore[attr-defined]
            with connections.lock:
                writer = connections.writer()
            other = otolith.open(path).session("other")
            for number in range(writes):
                other["number"] = number
                other.commit()
                writer.execute("select 1 from ref limit 1").fetchall()
            state["second"] = 2
            state.commit("by the second child")

        in_a_child(first)
        in_a_child(second)

    with otolith.open(path) as repo:
        assert repo.session("a").to_dict() == {"x": 0, "first": 1, "second": 2}
