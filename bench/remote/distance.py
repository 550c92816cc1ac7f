"""A server that is a millisecond away: a proxy in a process of its own, which delays everything.

That is how far a server in the same region is. The processes of a bench and the server then wait
for the network, as they do elsewhere, and not for each other's cores.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager

from bench.ground import ROOT

ROUND_TRIP_SECONDS = 0.001
FAR = "1 ms away"

_RUN = """
import sys
from tests.servers.proxy import Proxy
with Proxy(int(sys.argv[1])) as proxy:
    proxy.delay_seconds = float(sys.argv[2])
    print(proxy.port, flush=True)
    sys.stdin.read()
"""


@contextmanager
def far_from(url: str, port: int) -> Iterator[str]:
    """Return the URL by which a server on a port of this machine is a millisecond away."""
    command = [sys.executable, "-c", _RUN, str(port), str(ROUND_TRIP_SECONDS / 2)]
    pipe = subprocess.PIPE
    with subprocess.Popen(command, cwd=ROOT, stdin=pipe, stdout=pipe, text=True) as proxy:
        assert proxy.stdout is not None
        there = proxy.stdout.readline().strip()
        yield url.replace(f":{port}", f":{there}")
        proxy.communicate()
