"""Real processes, really killed: nothing acknowledged is lost, nothing is corrupt."""

from __future__ import annotations

import random
import subprocess
import sys
import time
from pathlib import Path

import pytest

import otolith
from otolith.care import prune, verify
from tests.patience import HANG_SECONDS

WRITER = Path(__file__).with_name("writer.py")


def start(path: Path, name: str, *, durability: str = "fast", limit: int = 1_000_000):
    command = [sys.executable, str(WRITER), str(path), name, durability, str(limit)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True)


def kill_after(process, lines: int, *, delay_seconds: float = 0.0) -> int:
    """Wait for so many acknowledgements, kill, and return the last that was given."""
    last = 0
    with process:
        for _ in range(lines):
            last = int(process.stdout.readline())
        time.sleep(delay_seconds)  # so that the kill falls anywhere inside a commit
        process.kill()
        rest = process.stdout.read().split()
    return int(rest[-1]) if rest else last


def check(path: Path, acknowledged: dict[str, int]) -> None:
    with otolith.open(path) as repo:
        state = repo.session("job")
        done = {name: state[f"done/{name}"] for name in acknowledged}
        for name, number in acknowledged.items():
            assert done[name] >= number
        assert state["total"] == sum(done.values())
        events = state["events"]
        assert len(events) == sum(done.values())
        for name, number in done.items():
            assert [e["number"] for e in events if e["who"] == name] == list(range(1, number + 1))
        report = verify(repo, level="full")
        assert report.ok, report.problems


@pytest.mark.parametrize("durability", ["full", "fast"])
def test_a_killed_writer_loses_nothing_that_was_acknowledged(tmp_path, rounds, durability):
    chance = random.Random(durability)
    path = tmp_path / "agent.db"
    acknowledged = 0
    for number in range(rounds(20, 1000)):
        writer = start(path, "a", durability=durability)
        delay = chance.random() / 300
        acknowledged = kill_after(writer, chance.randrange(1, 8), delay_seconds=delay)
        if number % 10 == 0:
            check(path, {"a": acknowledged})
        else:
            with otolith.open(path) as repo:
                assert repo.session("job")["done/a"] >= acknowledged
    check(path, {"a": acknowledged})


def test_processes_racing_for_one_branch_lose_no_update(tmp_path, rounds):
    path = tmp_path / "agent.db"
    otolith.open(path).close()
    names = ["a", "b", "c"]
    steps = rounds(25, 400)
    racers = [start(path, name, limit=steps) for name in names]
    for racer in racers:
        racer.communicate(timeout=HANG_SECONDS)
        assert racer.returncode == 0
    check(path, dict.fromkeys(names, steps))


def test_killing_one_of_several_writers_hurts_only_itself(tmp_path, rounds):
    path = tmp_path / "agent.db"
    otolith.open(path).close()
    for _ in range(rounds(5, 100)):
        racers = {name: start(path, name) for name in ("a", "b")}
        acknowledged = {name: kill_after(racer, 15) for name, racer in racers.items()}
        check(path, acknowledged)


def test_collecting_beside_writers_in_other_processes_loses_nothing(tmp_path, rounds):
    path = tmp_path / "agent.db"
    otolith.open(path).close()
    racers = {name: start(path, name) for name in ("a", "b")}
    for racer in racers.values():
        racer.stdout.readline()
    with otolith.open(path) as repo:
        for number in range(rounds(8, 200)):
            branch = repo.session("side", branch=f"b{number}")
            branch["junk"] = [str(number)] * 2000
            branch.commit("junk")
            repo.delete_branch("side", f"b{number}")
            prune(repo, expire_seconds=0)
    acknowledged = {name: kill_after(racer, 1) for name, racer in racers.items()}
    check(path, acknowledged)


def test_a_collector_killed_in_mid_sweep_leaves_a_whole_store(tmp_path, rounds):
    path = tmp_path / "agent.db"
    collector = (
        "import otolith, sys; from otolith.care import prune\n"
        "with otolith.open(sys.argv[1]) as repo:\n"
        "    print('go', flush=True)\n"
        "    prune(repo, expire_seconds=0, progress=lambda *step: print(step, flush=True))\n"
    )
    for number in range(rounds(4, 200)):
        with otolith.open(path) as repo:
            state = repo.session("job")
            state["kept"] = number
            state.commit("kept")
            side = state.fork(f"side{number}")
            for step in range(120):
                side[f"k{step % 7}"] = [step] * 30
                side.commit(str(step))
            repo.delete_branch("job", f"side{number}")
        process = subprocess.Popen(
            [sys.executable, "-c", collector, str(path)], stdout=subprocess.PIPE, text=True
        )
        with process:
            for _ in range(1 + number % 3):
                assert process.stdout is not None
                process.stdout.readline()
            process.kill()
        with otolith.open(path) as repo:
            assert repo.session("job")["kept"] == number
            assert verify(repo, level="full").ok


READER = (
    "import otolith, sys\n"
    "with otolith.open(sys.argv[1], read_only=True, cache_bytes=0) as repo:\n"
    "    print('go', flush=True)\n"
    "    for line in sys.stdin:\n"
    "        old = repo.at(line.strip())\n"
    "        print(old['number'], old['log'] == list(range(old['number'] + 1)), flush=True)\n"
)


def test_a_reader_of_the_past_sees_it_whole_while_another_process_collects(tmp_path, rounds):
    path = tmp_path / "agent.db"
    with otolith.open(path) as repo:
        state = repo.session("job")
        commits = []
        for number in range(rounds(40, 400)):
            state["number"] = number
            state.list("log").append(number)
            commits.append(state.commit(str(number)).id)
        command = [sys.executable, "-c", READER, str(path)]
        reader = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1
        )
        with reader:
            assert reader.stdin is not None
            assert reader.stdout is not None
            assert reader.stdout.readline() == "go\n"
            for number, commit in enumerate(commits):
                side = state.fork(f"side{number}")
                side["junk"] = [number] * 500
                side.commit("junk")
                repo.delete_branch("job", f"side{number}")
                reader.stdin.write(commit + "\n")
                prune(repo, expire_seconds=0)
                assert reader.stdout.readline() == f"{number} True\n"
            reader.stdin.close()
        assert verify(repo, level="full").ok
