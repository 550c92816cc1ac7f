"""Store files from elsewhere: whatever is in them, every use ends, and fails only with our errors.

Each file is used in a process of its own, with bounds of memory and time: one that hangs or eats is
a failure here, and not a stuck run.
"""

from __future__ import annotations

import random
import shutil
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path
from queue import Empty, Queue
from threading import Thread
from typing import IO

import pytest

import otolith
from otolith.errors import Corrupt, TooLarge
from tests.fault import hostile_files
from tests.patience import seconds

ROOT = Path(__file__).parents[2]
ONE_FILE_SECONDS = 40.0

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="bounds of memory differ")


@pytest.fixture(scope="module")
def sound(tmp_path_factory):
    path = tmp_path_factory.mktemp("hostile") / "sound.db"
    hostile_files.make_store(path)
    return path


@pytest.fixture
def copy(sound, tmp_path):
    def make(name: object) -> Path:
        return Path(shutil.copy(sound, tmp_path / f"{name}.db"))

    return make


def used(files: Iterable[Path]) -> dict[str, str]:
    """Use files, each in turn; return what came of each."""
    names = [str(file) for file in files]
    command = [sys.executable, "-m", "tests.fault.careless_user", *names]
    process = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    lines: Queue[str] = Queue()
    reader = Thread(target=_pass_on, args=[process.stdout, lines])
    reader.start()
    found: dict[str, str] = {}
    try:
        for name in names:
            found[name] = "RAW-hang"
            line = lines.get(timeout=seconds(ONE_FILE_SECONDS))
            found[name] = line.partition(" ")[2].strip() or "RAW-died"
            if not line:
                break
    except Empty:
        pass  # it stays what it was said to be
    finally:
        process.kill()
        process.wait()
        reader.join()
        process.stdout.close()
    return found


def _pass_on(out: IO[str], lines: Queue[str]) -> None:
    for line in out:
        lines.put(line)
    lines.put("")


def failures(files: dict[Path, str]) -> dict[str, str]:
    """Return what went wrong in another way than with an error of ours, by how it was made."""
    found = used(files)
    return {how: found.get(str(file), "RAW-untried") for file, how in files.items()
            if "RAW" in found.get(str(file), "RAW")}  # fmt: skip


def test_a_sound_store_can_be_used(copy):
    (came,) = used([copy("sound")]).values()
    assert {each.partition("=")[2] for each in came.split()} == {"ok"}


def test_no_schema_makes_a_use_hang_or_eat(copy, rounds):
    count = len(hostile_files.SCHEMA_CHANGES)
    chosen = random.Random(1).sample(range(count), rounds(30, count))
    files = {}
    for number in chosen:
        path = copy(number)
        change = hostile_files.SCHEMA_CHANGES[number]
        hostile_files.craft_schema(path, change)
        files[path] = change
    assert failures(files) == {}


def test_no_bytes_make_a_use_hang_or_eat(copy, rounds):
    files = {}
    for number in range(rounds(25, 4000)):
        path = copy(number)
        how = hostile_files.craft_bytes(path, random.Random(f"bytes {number}"))
        files[path] = f"{number}: {how}"
    assert failures(files) == {}


@pytest.mark.parametrize("table", ["object", "object_key", "ref", "move", "fence"])
def test_pages_that_lead_to_each_other_are_damage(copy, table):
    path = copy(table)
    hostile_files.craft_circle(path, table)
    (came,) = used([path]).values()
    assert "corrupt" in came
    assert "RAW" not in came


def test_no_rows_make_a_use_hang_or_eat(copy):
    files = {}
    for number, name in enumerate(hostile_files.ROWS):
        path = copy(number)
        hostile_files.craft_rows(path, name)
        files[path] = name
    assert failures(files) == {}


def test_no_tree_makes_a_use_hang_or_eat(copy):
    files = {}
    for number, name in enumerate(hostile_files.TREES):
        path = copy(number)
        hostile_files.craft_tree(path, name)
        files[path] = name
    assert failures(files) == {}


@pytest.mark.parametrize("name", hostile_files.TREES)
def test_a_state_that_fits_into_no_memory_is_refused(copy, name):
    path = copy("tree")
    hostile_files.craft_tree(path, name)
    with otolith.open(path, load_limit_bytes=8 << 20) as repo, pytest.raises((Corrupt, TooLarge)):
        repo.session("t").to_dict()
