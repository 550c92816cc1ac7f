"""Forks a process for each cell that it is told, which loads all variables and dumps them again.

python forking.py STATE        orders come as lines of JSON, and answers go the same way

It is a script, and imports nothing of ours: what it forks should be as small as it can be.
"""

from __future__ import annotations

import importlib
import json
import os
import pickle
import random
import resource
import signal
import sys
import types
from contextlib import suppress
from pathlib import Path
from time import perf_counter
from typing import Any

import cloudpickle  # type: ignore[import-untyped]

# A function that was loaded has globals of its own: a loop may wait forever for it to change ours.
MOST_SECONDS, MOST_BYTES = 20, 4 << 30


def main(state: Path) -> None:
    """Do what is said until nothing more comes."""
    work = str(Path.cwd())
    sys.path[0] = work
    for line in sys.stdin:
        order = json.loads(line)
        for name in order.get("learn", ()):
            with suppress(Exception):
                importlib.import_module(name)
        if "cell" in order:
            print(_forked(order["cell"], state, work), flush=True)


def _forked(cell: str, state: Path, work: str) -> str:
    answers, answer = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.close(answers)
        _be_child(cell, state, work, answer)
    os.close(answer)
    with os.fdopen(answers) as lines:
        told = lines.read()
    os.waitpid(pid, 0)
    return told or json.dumps({"error": "its process was ended", "is_over": True})


def _be_child(cell: str, state: Path, work: str, answer: int) -> None:
    """Run the cell and tell of it: this never returns."""
    try:
        _be_quiet()
        signal.alarm(MOST_SECONDS)
        resource.setrlimit(resource.RLIMIT_AS, (MOST_BYTES, MOST_BYTES))
        told = _run(cell, state, work)
    except BaseException as failure:
        told = {"error": f"{type(failure).__qualname__}: {failure}", "is_over": True}
    os.write(answer, json.dumps(told).encode())
    os._exit(0)


def _run(cell: str, state: Path, work: str) -> dict[str, Any]:
    """Load everything, run the cell, and dump everything."""
    session = types.ModuleType("__main__")
    sys.modules["__main__"] = session
    if state.exists():
        with state.open("rb") as file:
            vars(session).update(cloudpickle.load(file))
        _restore_chance(state)
    began = perf_counter()
    error = None
    try:
        exec(compile(cell, "<cell>", "exec", dont_inherit=True), vars(session))
    except Exception as failure:
        error = f"{type(failure).__qualname__}: {failure}"
    ran = perf_counter() - began
    kept, lost = _dumped({name: v for name, v in vars(session).items() if name[:2] != "__"})
    state.write_bytes(kept)
    _keep_chance(state)
    told = {"error": error, "stored_bytes": len(kept), "run_seconds": ran, "lost": lost}
    return told | {"modules": _modules(work)}


def _dumped(variables: dict[str, object]) -> tuple[bytes, dict[str, str]]:
    """Return the dump of all variables, or of those that can be dumped."""
    try:
        return cloudpickle.dumps(variables), {}
    except Exception:
        kept, lost = {}, {}
        for name, value in variables.items():
            try:
                cloudpickle.dumps(value)
                kept[name] = value
            except Exception as why:
                lost[name] = type(why).__name__
        return cloudpickle.dumps(kept), lost


def _keep_chance(state: Path) -> None:
    """Keep the state of the global random numbers, which nobody weighs."""
    numpy = sys.modules.get("numpy.random")
    kept = random.getstate(), None if numpy is None else numpy.get_state()
    state.with_suffix(".chance").write_bytes(pickle.dumps(kept))


def _restore_chance(state: Path) -> None:
    plain, numpy = pickle.loads(state.with_suffix(".chance").read_bytes())
    random.setstate(plain)
    if numpy is not None:
        importlib.import_module("numpy.random").set_state(numpy)


def _modules(work: str) -> list[str]:
    """Return what was imported and is installed: as much as otolith's nursery learns."""
    return sorted(
        name
        for name, module in list(sys.modules.items())
        if name.count(".") <= 1 and _is_installed(getattr(module, "__file__", None), work)
    )


def _is_installed(place: object, work: str) -> bool:
    return isinstance(place, str) and "site-packages" in place and not place.startswith(work)


def _be_quiet() -> None:
    nothing = os.open(os.devnull, os.O_RDWR)
    for descriptor in (0, 1, 2):
        os.dup2(nothing, descriptor)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
