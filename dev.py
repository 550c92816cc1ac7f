#!/usr/bin/env python3
"""Everything one does to this project, in one file that needs only Python and pip.

    python3 dev.py demo      set up, then tell the story in a terminal
    python3 dev.py test      set up, then run the tests, the same way each time (--long: large
                             counts and random examples, for hours; more goes to pytest)
    python3 dev.py fuzz      search for examples that break a law, at random, for ten minutes
                             (--minutes N; more goes to pytest)
    python3 dev.py check     format, lint, types and the import drawing; all are run, any may fail
    python3 dev.py bench     measure beside the peers (core, state, workspace ...: see --help)
    python3 dev.py flows     count the files of everyday calls, and the lines and prose of each room
    python3 dev.py docs      build the site into site/, strictly
    python3 dev.py setup     make .venv with everything needed for test and check
    python3 dev.py clean     remove what the other verbs made

It also works where `python3 -m venv` cannot (no ensurepip) and where pip refuses to touch the
system (PEP 668): the environment is made without pip, and filled by the pip outside of it.
"""

from __future__ import annotations

import argparse
import hashlib
import importlib.util
import os
import random
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parent
VENV = ROOT / ".venv"
BIN = VENV / ("Scripts" if os.name == "nt" else "bin")
PYTHON = BIN / "python"

OLDEST_PYTHON = (3, 11)
LEFTOVERS = (
    ".venv", "site", "build", "dist", ".cache", ".hypothesis",
    ".mypy_cache", ".ruff_cache", ".pytest_cache", ".import_linter_cache",
)  # fmt: skip


# ---------------------------------------------------------------- saying what is done


class Step:
    """One line per step: what is done, and when it is over, how long it took."""

    def __init__(self, what: str) -> None:
        self.what = what

    def __enter__(self) -> None:
        self.began = time.monotonic()
        print(f"  {self.what} ...", end="", flush=True)

    def __exit__(self, failure: type[BaseException] | None, *_: object) -> None:
        outcome = "failed" if failure else "done"
        print(f" {outcome} ({time.monotonic() - self.began:.1f} s)", flush=True)


def run(command: Sequence[str | Path], **variables: str) -> int:
    """Run a program in the environment, show all it prints, and return its exit code."""
    environment = os.environ | {
        "VIRTUAL_ENV": str(VENV),
        "PATH": f"{BIN}{os.pathsep}{os.environ.get('PATH', os.defpath)}",
        **variables,
    }
    environment.pop("PYTHONHOME", None)
    try:
        return subprocess.run(
            [*map(str, command)], cwd=ROOT, env=environment, check=False
        ).returncode
    except KeyboardInterrupt:
        return 130


def run_quietly(command: Sequence[str | Path]) -> None:
    """Run a program and show what it printed only if it failed; then leave with its exit code."""
    done = subprocess.run(
        [*map(str, command)],
        cwd=ROOT,
        env=os.environ | {"PIP_DISABLE_PIP_VERSION_CHECK": "1", "PIP_ROOT_USER_ACTION": "ignore"},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    if done.returncode:
        raise Failed(f"{' '.join(map(str, command))}\n{done.stdout}", code=done.returncode)


class Failed(Exception):
    """A step went wrong; the message is what to show."""

    def __init__(self, message: str, *, code: int = 1) -> None:
        super().__init__(message)
        self.code = code


# ---------------------------------------------------------------- the environment


def prepare(*extras: str) -> None:
    """Make .venv and install the project with these extras, unless that was done already."""
    if sys.version_info < OLDEST_PYTHON:
        wanted = ".".join(map(str, OLDEST_PYTHON))
        raise Failed(f"otolith needs Python {wanted} or newer; this is {sys.version.split()[0]}")
    make_venv()
    stamp = VENV / f".installed-{'-'.join(extras) or 'base'}"
    if stamp.is_file() and stamp.read_text() == fingerprint():
        return
    target = f".[{','.join(extras)}]" if extras else "."
    with Step(f"installing otolith{target[1:]}"):
        run_quietly([*installer(), "-e", target])
    stamp.write_text(fingerprint())


def make_venv() -> None:
    """Make .venv for this Python; one that was made for another Python is replaced."""
    made_for = VENV / ".python"
    if made_for.is_file() and made_for.read_text() == sys.version and PYTHON.exists():
        return
    stale = ["--clear"] if made_for.is_file() else []
    with Step(f"making {VENV.name} for Python {sys.version.split()[0]}"):
        run_quietly([sys.executable, "-m", "venv", "--without-pip", *stale, VENV])
    made_for.write_text(sys.version)


def fingerprint() -> str:
    """Return what an installation depends on: another text means that it must be done again."""
    project = (ROOT / "pyproject.toml").read_bytes()
    return hashlib.sha256(project + sys.version.encode()).hexdigest()


def installer() -> list[str | Path]:
    """Return the command that installs into .venv: the pip of this Python, or uv."""
    if importlib.util.find_spec("pip"):
        return [sys.executable, "-m", "pip", "--python", PYTHON, "install", "--quiet"]
    if uv := shutil.which("uv"):
        return [uv, "pip", "install", "--quiet", "--python", PYTHON]
    raise Failed("neither pip nor uv is here; on Debian or Ubuntu: apt-get install python3-pip")


def fetch_programs() -> None:
    """Try once to install what some tests start; without these, the tests are skipped."""
    fetch_packages()
    fetch_azurite()


def fetch_azurite() -> None:
    """Install Microsoft's emulator of Azure's storage, where npm is here and may do so."""
    tried = VENV / ".azurite"
    if shutil.which("azurite-blob") or tried.exists():
        return
    tried.touch()
    if not shutil.which("npm") or os.geteuid() != 0:
        return
    options = ["--no-audit", "--no-fund", "--fetch-retries=0"]
    try:
        with Step("installing azurite"):
            run_quietly(["npm", "install", "--global", *options, "azurite"])
    except Failed:
        print("  not to be had: the tests that need it are skipped", flush=True)


def fetch_packages() -> None:
    """Install the packages of Debian that bring servers and other programs."""
    wanted = {
        "initdb": "postgresql",
        "pgbouncer": "pgbouncer",
        "redis-server": "redis-server",
        "etcd": "etcd-server",
        "faketime": "faketime",
        "openssl": "openssl",
        "bwrap": "bubblewrap",
        "dot": "graphviz",
        "podman": "podman",
        "runc": "runc",
    }
    # Debian's own cluster is not wanted, and its servers are not on the path.
    servers = ":".join(map(str, Path("/usr/lib/postgresql").glob("*/bin")))
    path = f"{os.environ.get('PATH', os.defpath)}:/usr/sbin:{servers}"
    packages = [name for program, name in wanted.items() if not shutil.which(program, path=path)]
    tried = VENV / ".programs"
    if not packages or tried.exists():
        return
    tried.touch()
    if not shutil.which("apt-get") or os.geteuid() != 0:
        return
    apt = ["env", "DEBIAN_FRONTEND=noninteractive", "apt-get", "-qq", "-oAcquire::Retries=0"]
    try:
        with Step(f"installing {', '.join(packages)}"):
            run_quietly([*apt, "update"])
            run_quietly([*apt, "install", "-y", "--no-install-recommends", *packages])
    except Failed:
        print("  not to be had: the tests that need it are skipped", flush=True)


# ---------------------------------------------------------------- the verbs


def setup(_: list[str]) -> int:
    prepare("dev")
    fetch_programs()
    print("ready: python3 dev.py test, python3 dev.py check")
    return 0


def demo(arguments: list[str]) -> int:
    prepare()
    return run([BIN / "otolith", "demo", *arguments])


def test(arguments: list[str]) -> int:
    prepare("dev")
    fetch_programs()
    everything = not [a for a in arguments if a != "--long"]
    seed = os.environ.get("PYTHONHASHSEED", "0")
    if "--long" in arguments:  # sets have another order each time, to find out who relies on it
        seed = os.environ.get("PYTHONHASHSEED", str(random.randrange(2**32)))
        said = " ".join(arguments)
        print(f"to repeat this run: PYTHONHASHSEED={seed} python3 dev.py test {said}", flush=True)
    return pytest(*(WORKERS if everything else ()), *arguments, hash_seed=seed)


def fuzz(arguments: list[str]) -> int:
    prepare("dev")
    options = argparse.ArgumentParser(prog="dev.py fuzz", allow_abbrev=False)
    options.add_argument("--minutes", type=float, default=10.0)
    given, rest = options.parse_known_args(arguments)
    end = time.monotonic() + 60 * given.minutes
    while (left := end - time.monotonic()) > 0:
        seed = str(random.randrange(2**32))
        round_ = ["--laws", str(int(left) + 1), f"--hypothesis-seed={seed}", *rest]
        print(f"--- {left / 60:.1f} minutes left, seed {seed}", flush=True)
        if code := pytest(*WORKERS, *round_, hash_seed=seed):
            again = f"python3 dev.py test --laws 3600 --hypothesis-seed={seed}"
            print(f"to repeat this round: PYTHONHASHSEED={seed} {again}", flush=True)
            return code
    return 0


WORKERS = ("-n", str(min(os.cpu_count() or 1, 4)), "--dist", "worksteal")


def pytest(*arguments: str, hash_seed: str) -> int:
    """Run tests. All workers must have one order of sets, or they collect different tests.

    What is compiled is kept, whatever the environment says: tests start hundreds of programs, and
    without it each would compile all it imports. Workers of a workspace only read it, so it is
    made before.
    """
    run([PYTHON, "-m", "compileall", "-q", "src"])
    kept = {"PYTHONDONTWRITEBYTECODE": ""}
    return run([PYTHON, "-m", "pytest", *arguments], PYTHONHASHSEED=hash_seed, **kept)


def check(_: list[str]) -> int:
    prepare("dev")
    places = [name for name in ("src", "tests", "bench", "dev.py") if (ROOT / name).exists()]
    checks = {
        "format": ["ruff", "format", "--check", *places],
        "lint": ["ruff", "check", *places],
        "types": ["mypy", *places],
        "imports": ["lint-imports"],
    }
    codes = {}
    for name, (program, *arguments) in checks.items():
        print(f"--- {name}: {' '.join([program, *arguments])}", flush=True)
        codes[name] = run([BIN / program, *arguments])
    failed = [name for name, code in codes.items() if code]
    print(f"--- failed: {', '.join(failed)}" if failed else "--- all checks passed")
    return next(filter(None, codes.values()), 0)


def bench(arguments: list[str]) -> int:
    prepare("bench")
    return run([PYTHON, "-m", "bench.run", *arguments])


def flows(_: list[str]) -> int:
    prepare("dev")
    return run([PYTHON, "-m", "bench.flows"])


def docs(_: list[str]) -> int:
    prepare("docs")
    return run([BIN / "zensical", "build", "--clean", "--strict"])


def clean(_: list[str]) -> int:
    for place in filter(Path.exists, (ROOT / name for name in LEFTOVERS)):
        with Step(f"removing {place.name}"):
            shutil.rmtree(place)
    return 0


VERBS: dict[str, Callable[[list[str]], int]] = {
    verb.__name__: verb for verb in (demo, test, fuzz, check, bench, flows, docs, setup, clean)
}


def main(arguments: list[str]) -> int:
    verb, *rest = arguments or ["help"]
    if verb not in VERBS:
        print(__doc__)
        return 0 if verb in {"help", "-h", "--help"} else 2
    try:
        return VERBS[verb](rest)
    except Failed as failure:
        print(failure, file=sys.stderr)
        return failure.code


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
