"""The servers of the tests end with the tests, however those end."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from tests.servers.process import wait_until

KILLED = """
import os, signal, sys
from pathlib import Path
from tests.servers.process import Server, free_port

port = free_port()
command = [sys.executable, "-m", "http.server", "--bind", "127.0.0.1", str(port)]
server = Server(command, Path(sys.argv[1]), port=port)
server.start()
print(server.pid, flush=True)
os.kill(os.getpid(), signal.SIGKILL)
"""


def _runs(pid: int) -> bool:
    """Tell whether a process runs; one that nobody waits for may stay in the table."""
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except FileNotFoundError:
        return False
    return state != "Z"


def test_a_server_ends_with_the_process_that_started_it(tmp_path):
    root = Path(__file__).parents[2]
    done = subprocess.run(
        [sys.executable, "-c", KILLED, str(tmp_path)],
        cwd=root,
        stdout=subprocess.PIPE,
        text=True,
        check=False,
    )
    wait_until(lambda: not _runs(int(done.stdout)), "the end of the server")
