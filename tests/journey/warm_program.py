"""Runs `otolith`, a process for each command, forked from one that has imported it already.

A command started by `python -m otolith.cli` spends nine tenths of its time on imports. Here one
process imports them, touches nothing else, and forks for each command: the command has a process of
its own, with its own directory, environment, streams and exit code. It cannot show how a program
starts, and whoever interrupts a command would interrupt the wrong process: tests of these start the
program themselves.

Tests call `WarmProgram.run`; a shell that has `WarmProgram.folder` on its path finds `otolith`
there. Run as a program, this file is the process that forks.
"""

from __future__ import annotations

import atexit
import gc
import importlib
import json
import os
import pkgutil
import socket
import subprocess
import sys
import tempfile
import threading
import traceback
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import IO, NamedTuple

HANG_SECONDS = 600  # this file is run as a program, and imports nothing of the tests
_ROOMS = ("otolith.cli.commands", "otolith.cli.format", "otolith.cli.run", "otolith.workspace")
_INSIDE = "otolith.workspace.worker"  # what only a worker imports
_FORBIDDEN = {"numpy", "pandas", "pyarrow", "polars", "IPython"}
"""What a command imports only if it must: with these here, it would be another command."""

# Hands over its words, directory, environment and streams, and leaves with the code it is told.
_CLIENT = """#!{python} -IS
import json, os, socket, sys
line = socket.socket(socket.AF_UNIX)
line.connect({address!r})
job = {{"words": sys.argv[1:], "cwd": os.getcwd(), "env": dict(os.environ), "path": None}}
socket.send_fds(line, [b"."], [0, 1, 2])
line.sendall(json.dumps(job).encode())
line.shutdown(socket.SHUT_WR)
sys.exit(int(line.recv(64)) % 256)
"""


class WarmProgram:
    """The side of the tests: hands commands over, and collects what they print."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._address = str(folder / "socket")
        command = folder / "otolith"
        command.write_text(_CLIENT.format(python=sys.executable, address=self._address))
        command.chmod(0o755)
        with socket.socket(socket.AF_UNIX) as listening:
            listening.bind(self._address)
            listening.listen()
            self._process = subprocess.Popen(
                [sys.executable, __file__, str(listening.fileno())],
                pass_fds=[listening.fileno()],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
            )

    def run(
        self, words: Sequence[str], *, cwd: Path, env: Mapping[str, str], input: str = ""
    ) -> subprocess.CompletedProcess[str]:
        """Run `python -m otolith.cli` with these words, and capture what it prints."""
        job = {"words": words, "cwd": str(cwd), "env": dict(env), "path": str(cwd)}
        with (
            tempfile.TemporaryFile() as typed,
            tempfile.TemporaryFile() as out,
            tempfile.TemporaryFile() as err,
        ):
            typed.write(input.encode())
            typed.seek(0)
            code = self._ask(job, [typed.fileno(), out.fileno(), err.fileno()])
            return subprocess.CompletedProcess(words, code, _text(out), _text(err))

    def _ask(self, job: Mapping[str, object], fds: list[int]) -> int:
        with socket.socket(socket.AF_UNIX) as line:
            line.settimeout(HANG_SECONDS)
            line.connect(self._address)
            socket.send_fds(line, [b"."], fds)
            line.sendall(json.dumps(job).encode())
            line.shutdown(socket.SHUT_WR)
            answer = line.recv(64)
        assert answer, "the process that forks has ended"
        return int(answer)

    def close(self) -> None:
        """End the process that forks."""
        self._process.terminate()
        self._process.wait(HANG_SECONDS)


def _text(file: IO[bytes]) -> str:
    file.seek(0)
    return file.read().decode()


@contextmanager
def warm_program() -> Iterator[WarmProgram]:
    """Have a process that forks, for as long as the context."""
    with tempfile.TemporaryDirectory() as folder:
        program = WarmProgram(Path(folder))
        try:
            yield program
        finally:
            program.close()


# ---------------------------------------------------------------- the process that forks


class Job(NamedTuple):
    """What a command is given; `path` is where it finds modules first."""

    words: list[str]
    cwd: str
    env: dict[str, str]
    path: str | None


def _import_everything() -> None:
    for room in _ROOMS:
        package = importlib.import_module(room)
        for found in pkgutil.walk_packages(package.__path__, f"{room}."):
            if not found.name.startswith(_INSIDE):
                importlib.import_module(found.name)
    if loaded := _FORBIDDEN & sys.modules.keys():
        raise SystemExit(f"importing the verbs has imported {', '.join(sorted(loaded))}")


def _serve(listening: socket.socket) -> list[str]:
    """Fork for each job, one after the other; return in the child, as the command it is to be."""
    while True:
        line, _ = listening.accept()
        _, fds, _, _ = socket.recv_fds(line, 1, 3)
        with line.makefile("rb") as told:
            job = Job(**json.load(told))
        child = os.fork()
        if not child:
            listening.close()
            line.close()
            return _become(job, fds)
        for fd in fds:
            os.close(fd)
        code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        line.sendall(str(code).encode())
        line.close()


def _become(job: Job, fds: list[int]) -> list[str]:
    for number, fd in enumerate(fds):
        os.dup2(fd, number)
        os.close(fd)
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        stream = open(getattr(sys, name).fileno(), mode, encoding="utf-8", closefd=False)  # noqa: SIM115
        setattr(sys, name, stream)
        setattr(sys, f"__{name}__", stream)
    os.chdir(job.cwd)
    os.environ.clear()
    os.environ.update(job.env)
    sys.path[0:1] = [] if job.path is None else [job.path]
    return job.words


def _code() -> int:
    try:
        importlib.import_module("otolith.cli").main()
    except SystemExit as left:
        return left.code if isinstance(left.code, int) else int(left.code is not None)
    except BaseException:  # noqa: BLE001  # whatever it is, it is told and the code is 1
        traceback.print_exc()
        return 1
    return 0


def _main() -> None:
    _import_everything()
    listening = socket.socket(fileno=int(sys.argv[1]))
    gc.collect()
    gc.freeze()  # a child that looks through what its parent has made would copy all of it
    sys.argv = ["otolith", *_serve(listening)]
    code = _code()
    threading._shutdown()  # type: ignore[attr-defined]  # as Python does on its way out
    atexit._run_exitfuncs()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)  # to take everything apart takes longer than most commands


if __name__ == "__main__":
    _main()
