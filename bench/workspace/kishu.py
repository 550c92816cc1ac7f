"""Kishu 0.3.4 without its notebook: its planner and its SQLite store, with its own settings."""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import Any

from bench.ground import ROOT

# It makes a folder for its settings when it is imported: in our cache, not in the user's home.
(ROOT / ".cache" / "bench").mkdir(parents=True, exist_ok=True)
os.environ.setdefault("KISHU_PATH_ROOT", str(ROOT / ".cache" / "bench"))

from kishu.jupyter.namespace import Namespace, TrackedNamespace  # noqa: E402
from kishu.planning.planner import CheckpointRestorePlanner  # noqa: E402
from kishu.storage.checkpoint import KishuCheckpoint  # noqa: E402
from kishu.storage.commit_graph import KishuCommitGraph  # noqa: E402
from kishu.storage.disk_ahg import KishuDiskAHG  # noqa: E402

__all__ = ["Planned", "TrackedNamespace"]


class Planned:
    """What Kishu does around a cell of a notebook, for a namespace of ours."""

    def __init__(self, place: Path) -> None:
        self._place = place
        self._path = place / "notebook.kishudb"
        self._history = KishuDiskAHG(self._path)
        self._graph = KishuCommitGraph.new_var_graph(self._path)
        self._store = KishuCheckpoint(self._path, incremental_cr=True)
        for table in (self._history, self._graph, self._store):
            table.init_database()
        self._namespace = Namespace()
        self._planner = CheckpointRestorePlanner(
            self._history, self._graph, self._namespace, incremental_cr=True
        )
        self._commits = 0

    def save(self, namespace: dict[str, Any], code: str) -> None:
        """Do what it does before and after a cell, which has assigned or changed `df`."""
        self._planner.pre_run_cell_update()
        self._namespace["df"] = namespace["df"]
        self._commits += 1
        commit = f"commit-{self._commits}"
        self._planner.post_run_cell_update(commit, code, 0.1)
        plan, _ = self._planner.generate_checkpoint_restore_plans(self._path, commit)
        plan.run(self._namespace)
        self._graph.step(commit)

    def stored_bytes(self) -> int:
        return sum(path.stat().st_size for path in self._place.iterdir())

    def close(self) -> None:
        shutil.rmtree(self._place, ignore_errors=True)
