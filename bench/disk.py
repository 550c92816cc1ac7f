"""How many bytes something takes on the disk once nothing is waiting in a log."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

# In a process of its own: a peer may use another copy of SQLite, and two copies in one process
# undo each other's locks.
_CHECKPOINT = """
import sys, apsw
for path in sys.argv[1:]:
    connection = apsw.Connection(path, flags=apsw.SQLITE_OPEN_READWRITE)
    connection.set_busy_timeout(10_000)
    connection.execute("pragma wal_checkpoint(full)").fetchall()
"""


def resting_bytes(place: Path) -> int:
    """Return the size of a file or directory, after moving what SQLite's WALs hold to its place.

    The WAL itself is not counted: it is reused, and does not grow with the number of commits.
    """
    files = [place] if place.is_file() else [path for path in place.rglob("*") if path.is_file()]
    kept = [path for path in files if not path.name.endswith(("-wal", "-shm"))]
    waiting = [path for path in kept if path.with_name(path.name + "-wal").exists()]
    if waiting:
        subprocess.run([sys.executable, "-c", _CHECKPOINT, *map(str, waiting)], check=True)
    return sum(path.stat().st_size for path in kept)
