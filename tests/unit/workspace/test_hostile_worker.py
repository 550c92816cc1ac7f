"""A worker that does harm to the line to its host: the step is lost, and that is the worst of it.

Each case runs in each sandbox. Whatever is sent, the host takes little memory, leaves no descriptor
open, can be told to kill the step at any time, raises nothing but its own errors, and runs the next
step. What never ends by itself is ended by `kill` when the worker says that it has begun.
"""

from __future__ import annotations

import gc
import os
import threading
from collections.abc import Iterator
from pathlib import Path
from time import monotonic, sleep

import pytest

from otolith import Disk, Versioned
from otolith.core import cell_claims, claims
from otolith.workspace import Runner, Step, Workspace, sandbox_status
from tests.patience import HANG_SECONDS, seconds

RUNGS = (
    "auto",
    *(pytest.param(rung, marks=pytest.mark.long) for rung in ("bubblewrap", "landlock", "limits")),
)
MOST_BYTES = 200 << 20

TOOLS = """
import array, fcntl, msgspec, os, socket, time
def is_line(name):
    try:
        return os.readlink('/proc/self/fd/' + name).startswith('socket')
    except OSError:
        return False
line = socket.socket(fileno=os.dup(next(int(n) for n in os.listdir('/proc/self/fd') if is_line(n))))
MEMORY = 1 << 63
def head(size):
    return size.to_bytes(8, 'big')
def message(kind, **fields):
    body = msgspec.msgpack.encode({'type': kind, **fields})
    return head(len(body)) + body
def with_fds(data, *fds):
    passed = array.array('i', fds)
    line.sendmsg([data], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, passed)])
def memory(size, written=b'', seals=15):
    fd = os.memfd_create('x', os.MFD_ALLOW_SEALING)
    os.write(fd, written)
    os.ftruncate(fd, size)
    fcntl.fcntl(fd, 1033, seals)
    return fd
def for_ever(act=lambda: None, pause=0.05):
    print('go', flush=True)
    while True:
        try:
            act()
            time.sleep(pause)
        except BaseException:
            pass
"""

# What ends by itself: the host refuses it as soon as it is there.
REFUSED = {
    "a length over the limit": "line.send(head(9 << 30))",
    "a body that is no message": "line.send(head(5) + b'hello')",
    "an empty body": "line.send(head(0))",
    "a body nested without end": "b = b'\\x91' * 900_000\nline.sendall(head(len(b)) + b)",
    "a body in memory that does not come": "line.send(head(100 | MEMORY))",
    "a body in memory that is only long":
        "with_fds(head((6 << 30) | MEMORY), memory(6 << 30))",
    "a body in memory that can change":
        "with_fds(head((1 << 20) | MEMORY), memory(1 << 20, b'x' * (1 << 20), seals=1))",
    "a body in shorter memory": "with_fds(head((1 << 20) | MEMORY), memory(5, b'hello'))",
    "a body in memory that is no message": "with_fds(head(5 | MEMORY), memory(5, b'hello'))",
    "a body in a pipe": "with_fds(head(100 | MEMORY), os.pipe()[0])",
    "a body in a folder": "with_fds(head(100 | MEMORY), os.open('.', os.O_RDONLY))",
    "a body in a socket": "with_fds(head(100 | MEMORY), line.fileno())",
    "a body in a file":
        "f = open('f', 'wb'); f.write(b'x' * 100); f.flush()\n"
        "with_fds(head(100 | MEMORY), os.open('f', os.O_RDONLY))",
    "more descriptors than there can be":
        "for _ in range(200): with_fds(message('CodeEnd'), *[1] * 8)",
    "descriptors with a message that has none": "with_fds(message('Read', hashes=[]), 1)",
    "objects without memory": "line.send(message('EarlyObjects', sizes=[5]))",
    "objects in a pipe": "with_fds(message('EarlyObjects', sizes=[5]), 1)",
    "objects only long": "with_fds(message('EarlyObjects', sizes=[1 << 30]), memory(1 << 30))",
    "objects over the limit": "with_fds(message('EarlyObjects', sizes=[9 << 30]), memory(9 << 30))",
    "objects of no size": "with_fds(message('EarlyObjects', sizes=[2**62, 5 - 2**62]), memory(5))",
    "an object that is none": "with_fds(message('EarlyObjects', sizes=[5]), memory(5, b'hello'))\n"
        "line.send(message('EarlyObjects', sizes=[]))",
    "a hash that is none": "line.send(message('Read', hashes=[b'x']))",
    "two ends of the code": "line.send(message('CodeEnd') * 2)",
    "half a message, and then the end": "line.send(head(50) + b'x' * 10)\nos._exit(0)",
}  # fmt: skip
# What would never end.
ENDLESS = {
    "half a header": "line.send(bytes(7))\nfor_ever()",
    "a long message that does not come": "line.send(head(7 << 30))\nfor_ever()",
    "a message byte by byte": "line.send(head(1 << 30))\nfor_ever(lambda: line.send(b'x'))",
    "a header byte by byte": "for_ever(lambda: line.send(bytes(1)), pause=1)",
    "questions whose answers it does not read":
        "ask = message('CheckSignature', place='x', cell=b'x', signature=b'y' * 1000)\n"
        "for_ever(lambda: line.sendall(ask), pause=0)",
    "large answers that it does not read":
        "ask = message('Read', hashes=[big_hash] * (800_000 // big_length))\n"
        "line.settimeout(1)\n"
        "try:\n    for _ in range(1000): line.sendall(ask)\nexcept TimeoutError: pass\nfor_ever()",
    "cells that are none, to be mapped":
        "for_ever(lambda: line.sendall(message('Map', cell=os.urandom(200))), pause=0)",
    "objects one by one":
        "m = memory(5, b'p\\xc4\\x02hi')\n"
        "for_ever(lambda: with_fds(message('EarlyObjects', sizes=[5]), m), pause=0)",
}  # fmt: skip


@pytest.fixture(scope="module", params=RUNGS)
def workspace(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Workspace]:
    reason = dict(sandbox_status()).get(request.param)
    if reason is not None:
        pytest.skip(f"{request.param} does not work here: {reason}")
    path = tmp_path_factory.mktemp("hostile")
    runner = Runner(sandbox=request.param, wall_seconds=HANG_SECONDS)
    with (
        Versioned(Disk(path / "agent.db", durability="fast")) as state,
        state.workspace(runner=runner, folder=path / "work") as workspace,
    ):
        # An object of some length, and its hash for those who will ask for it.
        assert workspace.run("import random; data = random.Random(1).randbytes(1 << 20)").ok
        hash, length = _largest_object(workspace)
        workspace.put(big_hash=hash, big_length=length)
        yield workspace


def _largest_object(workspace: Workspace) -> tuple[bytes, int]:
    """Return the hash of the longest object of the data of a workspace, and its length."""
    cell = workspace.state.cell_at((".workspace", "data"))
    assert cell is not None
    waiting = [bytes(claim.hash) for claim in cell_claims(cell)]
    found: dict[bytes, int] = {}
    while waiting:
        hash = waiting.pop()
        data = workspace._requests.read_within([hash])[0] or b""
        found[hash] = len(data)
        waiting += [bytes(claim.hash) for claim in claims(data)]
    hash = max(found, key=lambda name: found[name])
    assert 50_000 < found[hash] < 800_000
    return hash, found[hash]


def run(workspace: Workspace, code: str) -> Step:
    """Run code; when it says go, another thread kills it."""

    def heard(_: str, text: str) -> None:
        if "go" in text:
            threading.Thread(target=workspace.kill).start()

    return workspace.run(TOOLS + code, on_output=heard)


def open_descriptors() -> int:
    gc.collect()
    return len(list(Path("/proc/self/fd").iterdir()))


@pytest.fixture(autouse=True)
def _unharmed(workspace: Workspace) -> Iterator[None]:
    """Measure what the host takes during a test, and let it run another step after it."""
    assert workspace.run("before = 40").ok
    threads = threading.active_count()
    descriptors = open_descriptors()
    Path("/proc/self/clear_refs").write_text("5", encoding="ascii")  # the peak starts anew
    at_first = _peak_bytes()
    yield
    assert _peak_bytes() - at_first < MOST_BYTES
    assert workspace.run("before + 2").value == 42
    assert open_descriptors() <= descriptors
    assert threading.active_count() <= threads + 1  # the thread that kills may be on its way out


def _peak_bytes() -> int:
    status = Path("/proc/self/status").read_text(encoding="ascii")
    return int(status.split("VmHWM:")[1].split()[0]) << 10


@pytest.mark.parametrize("case", REFUSED)
def test_what_is_no_message_costs_the_step_and_nothing_else(
    workspace: Workspace, case: str
) -> None:
    head = workspace.state.head
    step = workspace.run(TOOLS + f"{REFUSED[case]}\ntime.sleep({HANG_SECONDS})")
    assert not step.ok
    assert step.error is not None
    assert step.error.type == "WorkerDied"
    assert step.commit is None
    assert workspace.state.head == head


@pytest.mark.parametrize("case", ENDLESS)
def test_a_worker_that_never_ends_can_be_killed(workspace: Workspace, case: str) -> None:
    step = run(workspace, ENDLESS[case])
    assert (step.stopped, step.commit) == ("killed", None)


@pytest.mark.parametrize("case", ["half a header", "a message byte by byte"])
def test_a_worker_that_never_ends_does_not_outlast_its_time(
    workspace: Workspace, case: str, tmp_path: Path
) -> None:
    runner = Runner(
        sandbox=workspace.runner.sandbox, wall_seconds=seconds(0.5), grace_seconds=seconds(0.5)
    )
    with (
        Versioned(Disk(tmp_path / "agent.db", durability="fast")) as state,
        state.workspace(runner=runner, folder=tmp_path / "work") as other,
    ):
        step = other.run(TOOLS + ENDLESS[case])
    assert step.stopped == "timed out"
    assert step.commit is None


def test_a_worker_that_says_it_is_done_and_goes_on_is_ended(workspace: Workspace) -> None:
    name = f"stays-{os.getpid()}"
    stays = (
        f"import ctypes; ctypes.CDLL(None).prctl(15, b{name!r}, 0, 0, 0)\n"
        "os._exit = lambda code: time.sleep(600)"
    )
    assert workspace.run(TOOLS + stays).ok
    deadline = monotonic() + HANG_SECONDS
    while name in _names(workspace):
        assert monotonic() < deadline
        sleep(0.02)


def _names(workspace: Workspace) -> list[str]:
    pool = workspace._steps.pool
    assert pool is not None
    files = [Path(f"/proc/{pid}/comm") for pid in pool.processes()]
    return [file.read_text(encoding="utf-8").strip() for file in files if file.exists()]
