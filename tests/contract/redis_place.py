"""A Redis server of one's own, and the class for it that the documentation shows."""

from __future__ import annotations

import shutil
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from importlib.util import find_spec
from pathlib import Path
from time import monotonic, sleep
from typing import Any

from tests.journey.documents import blocks
from tests.patience import HANG_SECONDS

PAGE = Path(__file__).parents[2] / "docs/how-to/your-own-store.md"

MISSING = next(
    (
        f"{what} is not here: python3 dev.py setup brings it, where it can"
        for what, found in {
            "redis-server": shutil.which("redis-server"),
            "the redis package": find_spec("redis"),
        }.items()
        if not found
    ),
    "",
)


def shown_class(title: str, name: str) -> Any:
    """Return a class out of a titled block of the page."""
    (block,) = [block for block in blocks(PAGE.read_text()) if block.title == title]
    namespace: dict[str, Any] = {"__name__": title.removesuffix(".py")}
    exec(compile("\n" * (block.line - 1) + block.text, PAGE, "exec"), namespace)
    return namespace[name]


@contextmanager
def redis_server(folder: Path) -> Iterator[str]:
    """Run a server that keeps nothing, on a free port of this machine; give its address."""
    port = _free_port()
    options = {"port": port, "bind": "127.0.0.1", "save": "", "appendonly": "no", "dir": folder}
    arguments = [str(word) for name, value in options.items() for word in (f"--{name}", value)]
    server = subprocess.Popen(
        ["redis-server", *arguments], stdout=subprocess.DEVNULL, stderr=sys.stderr
    )
    try:
        _wait_for(port)
        yield f"redis://127.0.0.1:{port}/0"
    finally:
        server.terminate()
        server.wait(timeout=HANG_SECONDS)


def _free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return int(found.getsockname()[1])


def _wait_for(port: int) -> None:
    deadline = monotonic() + HANG_SECONDS
    while True:
        with suppress(OSError), socket.create_connection(("127.0.0.1", port), timeout=1):
            return
        if monotonic() > deadline:
            raise TimeoutError(f"redis-server did not listen on {port}")
        sleep(0.01)  # nothing announces that it listens
