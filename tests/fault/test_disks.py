"""A repo on a disk that loses power, runs full, fails, or flips bits."""

from __future__ import annotations

import random
import shutil
from pathlib import Path

import pytest

from otolith import Repo
from otolith.care import verify
from otolith.errors import Corrupt, Error, Full, ReadOnly
from otolith.stores import SqliteStore
from otolith.testing import PowerLossVFS


def open_repo(path: Path, **options):
    return Repo(SqliteStore(path, **options), author="test")


def work(state, number: int) -> None:
    state["number"] = number
    state[f"cell/{number % 17}"] = ["x" * (number * 37 % 900), number]
    state.list("log").append(number)
    state.commit(str(number))


def expected(number: int) -> list[int]:
    return list(range(1, number + 1))


def assert_whole(path: Path, *, at_least: int) -> int:
    """Open what is left and compare everything with what must be there."""
    repo = open_repo(path)
    state = repo.session("job")
    number: int = state.get("number", 0)
    assert number >= at_least
    assert state.get("log", []) == expected(number)
    for depth in range(0, number, 7):
        assert state.at(f"@~{depth}")["log"] == expected(number - depth)
    assert verify(repo, level="deep").ok
    repo.close()
    return number


@pytest.mark.parametrize("durability", ["full", "fast"])
def test_a_power_cut_leaves_a_prefix_of_history_and_full_durability_all_of_it(
    tmp_path, rounds, durability
):
    lost = 0
    for seed in range(rounds(100, 1000)):
        chance = random.Random(seed)
        folder, image = tmp_path / f"d{seed}", tmp_path / f"i{seed}"
        folder.mkdir()
        image.mkdir()
        with PowerLossVFS(seed) as disk:
            repo = open_repo(folder / "a.db", vfs=disk.name, durability=durability)
            state = repo.session("job")
            acknowledged = chance.randrange(1, 40)
            for number in expected(acknowledged):
                work(state, number)
            disk.crash(into=image)
            repo.close()
        survived = assert_whole(
            image / "a.db", at_least=acknowledged if durability == "full" else 0
        )
        lost += survived < acknowledged
        shutil.rmtree(folder)
        shutil.rmtree(image)
    if durability == "full":
        assert lost == 0


def work_until_full(state) -> tuple[int, str]:
    """Go on until the disk is full; return the step that was refused, and the hint given."""
    number = 1
    try:
        for number in range(2, 200):
            work(state, number)
    except Full as error:
        return number, error.hint
    return number, ""


def test_a_full_disk_at_any_offset_refuses_the_commit_and_loses_nothing(tmp_path, rounds):
    for budget in range(0, 100_000, rounds(491, 53)):
        folder = tmp_path / str(budget)
        folder.mkdir()
        with PowerLossVFS(budget) as disk:
            repo = open_repo(folder / "a.db", vfs=disk.name)
            state = repo.session("job")
            work(state, 1)
            disk.budget_bytes = budget
            refused, hint = work_until_full(state)
            assert hint
            assert state.at("@")["number"] == refused - 1
            disk.budget_bytes = None
            state.commit("the staged edits are still there")
            assert state.at("@")["number"] == refused
            repo.close()
        assert_whole(folder / "a.db", at_least=refused)
        shutil.rmtree(folder)


def test_after_a_failed_sync_the_repo_reads_but_no_longer_writes(tmp_path):
    with PowerLossVFS(1) as disk:
        repo = open_repo(tmp_path / "a.db", vfs=disk.name)
        state = repo.session("job")
        work(state, 1)
        disk.syncs_fail = True
        with pytest.raises(Error):
            work(state, 2)
        disk.syncs_fail = False
        with pytest.raises(ReadOnly, match="sync"):
            state.commit("again")
        assert repo.session("job")["number"] == 1
        repo.close()
    assert_whole(tmp_path / "a.db", at_least=1)


def test_a_flipped_bit_is_an_error_and_never_another_answer(tmp_path, rounds):
    path = tmp_path / "a.db"
    repo = open_repo(path)
    state = repo.session("job")
    for number in expected(60):
        work(state, number)
    state["blob"] = random.Random(1).randbytes(150_000)
    head = state.commit("blob")
    truth = {ref: state.at(ref).to_dict() for ref in (head.id, "main~20", "main~59")}
    repo.close()
    image = path.read_bytes()
    chance = random.Random(4)
    noticed = 0
    for number in range(rounds(200, 2000)):
        damaged = bytearray(image)
        damaged[chance.randrange(len(damaged))] ^= 1 << chance.randrange(8)
        copy = tmp_path / f"{number}.db"
        copy.write_bytes(damaged)
        try:
            again = open_repo(copy, create=False)
            state = again.session("job")
            assert {ref: state.at(ref).to_dict() for ref in truth} == truth
        except Error:
            noticed += 1
        for leftover in tmp_path.glob(f"{number}.db*"):
            leftover.unlink()
    assert noticed > 0


def test_a_broken_object_is_found_and_mended_from_a_replica(tmp_path):
    path, replica = tmp_path / "a.db", tmp_path / "b.db"
    repo = open_repo(path)
    state = repo.session("job")
    for number in expected(30):
        work(state, number)
    repo.close()
    shutil.copy(path, replica)
    image = bytearray(path.read_bytes())
    needle = image.rfind(b"x" * 40)
    image[needle + 5] ^= 0x10
    path.write_bytes(image)
    repo = open_repo(path)
    report = verify(repo, level="full")
    assert not report.ok
    assert {problem.kind for problem in report.problems} <= {"corrupt", "missing"}
    mended = verify(repo, level="full", repair_from=SqliteStore(replica))
    assert mended.ok
    assert mended.repaired >= 1
    repo.close()
    assert_whole(path, at_least=30)


def test_reading_a_broken_state_says_so(tmp_path):
    path = tmp_path / "a.db"
    repo = open_repo(path)
    state = repo.session("job")
    state["text"] = "unlikely words " * 200
    state.commit("text")
    repo.close()
    image = bytearray(path.read_bytes())
    at = image.rfind(b"unlikely words")
    image[at] ^= 1
    path.write_bytes(image)
    repo = open_repo(path)
    with pytest.raises(Corrupt, match="fsck"):
        repo.session("job")["text"]
    repo.close()
