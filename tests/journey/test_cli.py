"""Journeys through a terminal: the real program, a process for each command."""

from __future__ import annotations

import contextlib
import json
import os
import pty
import shutil
import subprocess
import sys
from typing import NamedTuple

import pytest

import otolith
from tests.patience import HANG_SECONDS


class Done(NamedTuple):
    code: int
    out: str
    err: str

    @property
    def found(self):
        return json.loads(self.out)


class Terminal:
    """Runs `otolith`, a process for each command, in a directory."""

    def __init__(self, place, program):
        self.place = place
        self.program = program
        self.store = place / ".otolith" / "store.db"

    def __call__(self, *words, cwd=None, input="", **variables):
        clean = {name: value for name, value in os.environ.items() if "OTOLITH" not in name}
        done = self.program.run(words, cwd=cwd or self.place, env=clean | variables, input=input)
        assert "Traceback" not in done.stderr, done.stderr
        return Done(done.returncode, done.stdout, done.stderr)


@pytest.fixture
def run(tmp_path, program):
    """A terminal in an empty directory."""
    return Terminal(tmp_path, program)


@pytest.fixture(scope="module")
def _one_commit(tmp_path_factory, program):
    run = Terminal(tmp_path_factory.mktemp("trip"), program)
    run("init", "--session", "trip")
    run("set", "budget", "500")
    run("set", "plan/steps", '["search", "book"]')
    assert run("commit", "-m", "asked").code == 0
    return run.place


@pytest.fixture(scope="module")
def _two_branches(_one_commit, tmp_path_factory, program):
    run = Terminal(tmp_path_factory.mktemp("torn") / "place", program)
    shutil.copytree(_one_commit, run.place)
    run("switch", "-c", "cheaper")
    run("set", "budget", "300")
    run("commit", "-m", "cheaper")
    run("switch", "main")
    run("set", "budget", "400")
    assert run("commit", "-m", "dearer").code == 0
    return run.place


@pytest.fixture
def trip(_one_commit, tmp_path, program):
    """A terminal in a directory with a session that has one commit."""
    shutil.copytree(_one_commit, tmp_path, dirs_exist_ok=True)
    return Terminal(tmp_path, program)


@pytest.fixture
def torn(_two_branches, tmp_path, program):
    """Two branches that disagree about the budget, `main` at hand."""
    shutil.copytree(_two_branches, tmp_path, dirs_exist_ok=True)
    return Terminal(tmp_path, program)


# ---------------------------------------------------------------- staging


def test_edits_wait_in_the_store_until_another_process_commits_them(trip):
    trip("set", "budget", "450")
    trip("rm", "plan")

    staged = trip("status", "--json").found["changes"]
    trip("commit", "-m", "less")

    assert [(change["path"], change["kind"]) for change in staged] == [
        ("budget", "changed"),
        ("plan", "removed"),
    ]
    assert trip("cat", "main:budget").out == "450\n"
    assert trip("status", "--json").found["clean"]


def test_what_a_program_commits_a_terminal_sees(trip, tmp_path):
    with otolith.open(trip.store) as repo:
        state = repo.session("trip")
        state["budget"] = 450
        state.commit("by a program", author="robot")

    commit = trip("log", "-n", "1", "--json").found["commits"][0]

    assert (commit["message"], commit["author"]) == ("by a program", "robot")


def test_staged_edits_meet_what_others_committed_meanwhile(trip, tmp_path):
    trip("set", "note", "mine")
    with otolith.open(trip.store) as repo:
        state = repo.session("trip")
        state["budget"] = 450
        state.commit("by a program")

    assert "Moved" in trip("status").out
    assert trip("commit", "-m", "both").code == 0
    assert (trip("cat", "note").out, trip("cat", "budget").out) == ("mine\n", "450\n")


def test_staged_edits_that_contradict_a_commit_become_a_conflict_to_decide(trip, tmp_path):
    trip("set", "budget", "1")
    with otolith.open(trip.store) as repo:
        state = repo.session("trip")
        state["budget"] = 2
        state.commit("by a program")

    refused = trip("commit", "-m", "mine")
    waiting = trip("status", "--json").found["conflicts"]
    trip("set", "budget", "3")

    assert refused.code == 1
    assert [conflict["path"] for conflict in waiting] == ["budget"]
    assert trip("commit", "-m", "decided").code == 0
    assert trip("cat", "main:budget").out == "3\n"


def test_many_terminals_stage_at_once_and_lose_nothing(trip, tmp_path):
    terminals = [
        subprocess.Popen([sys.executable, "-m", "otolith.cli", "set", f"k{n}", "1"], cwd=trip.place)
        for n in range(6)
    ]
    codes = [terminal.wait(timeout=HANG_SECONDS) for terminal in terminals]

    staged = {change["path"] for change in trip("status", "--json").found["changes"]}

    assert codes == [0] * 6
    assert staged == {f"k{n}" for n in range(6)}


def test_restore_drops_one_edit_or_all(trip):
    trip("set", "budget", "1")
    trip("set", "note", "x")

    trip("restore", "budget")
    after_one = [change["path"] for change in trip("status", "--json").found["changes"]]
    trip("restore", "--all")

    assert after_one == ["note"]
    assert trip("status", "--json").found["clean"]


def test_switching_branches_leaves_staged_edits_with_their_branch(trip):
    trip("switch", "-c", "other")
    trip("set", "budget", "1")

    told = trip("switch", "main").out

    assert "stay there" in told
    assert trip("status", "--json").found["clean"]
    assert trip("-b", "other", "cat", "budget").out == "1\n"


@pytest.mark.parametrize(
    ("typed", "kept"),
    [
        (["5"], 5),
        (["-5"], -5),
        (["five"], "five"),
        (["--type", "str", "5"], "5"),
        (['{"a": [1, null]}'], {"a": [1, None]}),
        (['{"$type": "bytes", "value": "aGk="}'], b"hi"),
    ],
    ids=str,
)
def test_a_value_is_json_if_it_is_json(trip, tmp_path, typed, kept):
    trip("set", "x", *typed)
    trip("commit", "-m", "x")

    with otolith.open(trip.store) as repo:
        assert repo.session("trip")["x"] == kept


def test_a_value_can_come_from_standard_input(trip):
    trip("set", "text", "-", input="two\nlines\n")

    assert trip("cat", "text").out == "two\nlines\n\n"


# ---------------------------------------------------------------- merging


def test_a_merge_waits_in_the_store_for_its_decision(torn):
    merged = torn("merge", "cheaper")
    waiting = torn("status", "--json").found
    too_early = torn("commit")
    torn("merge", "--take", "theirs", "budget")
    finished = torn("merge", "--continue")

    assert merged.code == 1
    assert waiting["merging"]["message"] == "cheaper"
    conflict = waiting["conflicts"][0]
    assert [conflict[side] for side in ("base", "ours", "theirs")] == [500, 400, 300]
    assert (too_early.code, finished.code) == (1, 0)
    assert torn("cat", "main:budget").out == "300\n"
    head = torn("log", "-n", "1", "--json").found["commits"][0]
    assert (len(head["parents"]), head["kind"]) == (2, "merge")
    assert head["message"] == "merge cheaper"


def test_a_conflict_is_decided_by_writing_there(torn):
    torn("merge", "cheaper")
    torn("set", "budget", "350")

    assert torn("commit").code == 0
    assert torn("cat", "main:budget").out == "350\n"


def test_an_aborted_merge_leaves_no_trace(torn):
    before = torn("status", "--json").found
    torn("merge", "cheaper")

    assert torn("merge", "--abort").code == 0
    assert torn("status", "--json").found == before


def test_a_merge_without_conflict_is_a_commit_and_can_be_undone(trip):
    trip("switch", "-c", "other")
    trip("set", "note", "x")
    trip("commit", "-m", "note")
    trip("switch", "main")
    trip("set", "budget", "1")
    trip("commit", "-m", "budget")

    assert trip("merge", "other").code == 0
    assert trip("cat", "note").out == "x\n"
    trip("undo")
    assert trip("cat", "note").code == 3
    trip("redo")
    assert trip("cat", "note").out == "x\n"


def test_merging_twice_says_that_a_merge_is_in_progress(torn):
    torn("merge", "cheaper")

    again = torn("merge", "cheaper")

    assert again.code == 2
    assert "in progress" in again.err
    assert "--abort" in again.err


# ---------------------------------------------------------------- history


def test_rollback_is_a_new_commit_and_asks_before_it_drops_edits(torn):
    torn("set", "note", "staged")

    refused = torn("rollback", "main~1")
    done = torn("rollback", "main~1", "--force")

    assert (refused.code, done.code) == (2, 0)
    assert torn("cat", "budget").out == "500\n"
    assert torn("status", "--json").found["clean"]
    assert len(torn("log", "--json").found["commits"]) == 3


def test_a_deleted_branch_comes_back_by_the_line_that_was_printed(torn):
    told = torn("branch", "-d", "cheaper").out
    line = told.partition("otolith ")[2].split()

    assert torn("cat", "cheaper:budget").code == 3
    assert torn(*line).code == 0
    assert torn("cat", "cheaper:budget").out == "300\n"


def test_a_branch_with_staged_edits_is_not_deleted_by_accident(torn):
    torn("-b", "cheaper", "set", "note", "x")

    assert torn("branch", "-d", "cheaper").code == 2
    assert torn("branch", "-d", "cheaper", "--force").code == 0
    assert torn("switch", "-c", "cheaper").code == 0
    assert torn("status", "--json").found["clean"]


def test_diff_leaves_with_one_where_asked_to(torn):
    assert torn("diff", "main", "cheaper", "--exit-code").code == 1
    assert torn("diff", "main", "main", "--exit-code").code == 0
    assert torn("diff", "main", "cheaper").code == 0


def test_three_dots_show_what_the_other_side_changed(torn):
    changes = torn("diff", "main...cheaper", "--json").found["changes"]

    assert changes == [{"path": "budget", "kind": "changed", "old": 500, "new": 300}]


def test_the_log_of_a_path_has_the_commits_that_changed_it(torn):
    commits = torn("log", "--path", "plan", "--json").found["commits"]

    assert [commit["message"] for commit in commits] == ["asked"]


def test_a_tag_names_a_commit_until_it_is_deleted(torn):
    torn("tag", "v1", "main~1")

    assert torn("cat", "v1:budget").out == "500\n"
    assert torn("tag", "v1").code == 2
    torn("tag", "-d", "v1")
    assert torn("cat", "v1:budget").code == 3


# ---------------------------------------------------------------- looking


READING = """status, log, show, show @:plan, diff, cat budget, ls, blame, sessions, stats, branch,
    tag, vars, fsck, gc --dry-run, doctor"""


@pytest.mark.parametrize("verb", [verb.strip() for verb in READING.split(",")])
def test_every_verb_that_reads_can_say_one_json_object(torn, verb):
    done = torn(*verb.split(), "--json")

    assert done.code == 0, done.err
    assert isinstance(done.found, dict)


def test_text_and_bytes_come_out_as_they_are(trip, tmp_path):
    with otolith.open(trip.store) as repo:
        state = repo.session("trip")
        state["raw"] = b"\x00\xff"
        state["text"] = "ä\n"
        state.commit("raw")
    command = [sys.executable, "-m", "otolith.cli", "cat"]
    text, raw = (
        subprocess.run([*command, path], cwd=tmp_path, capture_output=True, check=True).stdout
        for path in ("text", "raw")
    )

    assert (text, raw) == ("ä\n\n".encode(), b"\x00\xff")


def test_a_path_with_a_colon_is_found_too(trip, tmp_path):
    with otolith.open(trip.store) as repo:
        state = repo.session("trip")
        state["by id"] = {42: "answer"}
        state["main:x"] = "no ref"
        state.commit("odd keys")

    assert trip("cat", "by id/~:42").out == "answer\n"
    assert trip("cat", "@:by id/~:42").out == "answer\n"
    assert trip("cat", ":main:x").out == "no ref\n"


def test_the_store_is_found_from_below_and_from_elsewhere(trip, tmp_path):
    below = tmp_path / "a" / "b"
    below.mkdir(parents=True)

    assert trip("cat", "budget", cwd=below).out == "500\n"
    assert trip("-C", str(tmp_path), "cat", "budget", cwd="/").out == "500\n"
    store = str(trip.store)
    assert trip("--store", store, "cat", "budget", cwd="/").out == "500\n"
    assert trip("cat", "budget", cwd="/", OTOLITH_STORE=store).out == "500\n"


def test_a_store_with_several_sessions_asks_which(trip, tmp_path):
    trip("-s", "other", "set", "x", "1")
    trip("-s", "other", "commit", "-m", "x")
    store = str(trip.store)

    asks = trip("--store", store, "log")

    assert asks.code == 2
    assert "other, trip" in asks.err
    assert trip("--store", store, "-s", "other", "cat", "x").out == "1\n"


def test_nothing_is_coloured_or_paged_in_a_pipe_unless_asked_to(trip):
    assert "\x1b" not in trip("log", PAGER="false").out
    assert "\x1b" in trip("--color", "always", "log").out
    assert "\x1b" not in trip("--color", "never", "log").out


def test_a_reader_that_leaves_early_is_no_error(trip, tmp_path):
    for n in range(3):
        trip("set", "n", str(n))
        trip("commit", "-m", "x" * 70_000)
    done = subprocess.run(
        f"{sys.executable} -m otolith.cli log | head -c 1",
        shell=True,
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=HANG_SECONDS,
        check=False,
    )

    assert (done.stdout, done.stderr) == ("c", "")


C_LOCALE = {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}


@pytest.mark.parametrize(
    "environment",
    [
        {"PAGER": "cat -u", **C_LOCALE},
        {"PAGER": 'less "'},
        {"PAGER": "no-such-pager --quiet"},
        {"PAGER": "   "},
        {"PAGER": "/"},
        {"PAGER": "cat -u | cat"},
        {"PAGER": "SOME_SETTING=1 cat -u"},
        {"PAGER": 'cat -u "${NOT_SET:--}"'},
    ],
)
def test_a_log_is_shown_on_any_terminal_with_any_pager(trip, tmp_path, environment):
    trip("set", "n", "1")
    trip("commit", "-m", "日本 grüße")
    here, there = pty.openpty()
    with subprocess.Popen(
        [sys.executable, "-m", "otolith.cli", "log", "-n", "1"],
        cwd=tmp_path,
        env={**os.environ, **environment},
        stdin=there,
        stdout=there,
        stderr=there,
    ) as process:
        os.close(there)
        shown = read_all(here)
        assert process.wait(HANG_SECONDS) == 0, shown
    os.close(here)
    expected = "gr\\xfc" if "LC_ALL" in environment else "grüße"
    assert expected in shown
    assert "Traceback" not in shown


def read_all(terminal):
    """Return what is written to a terminal until its other end is closed."""
    pieces = []
    with contextlib.suppress(OSError):  # Linux reports the end as an error
        while piece := os.read(terminal, 65536):
            pieces.append(piece)
    return b"".join(pieces).decode()


# ---------------------------------------------------------------- going wrong


@pytest.mark.parametrize(
    ("words", "code", "hint"),
    [
        ("cat nope", 3, "otolith ls"),
        ("cat mian:budget", 3, "did you mean main?"),
        ("log cheper", 3, "did you mean cheaper?"),
        ("log main~9", 3, "otolith log"),
        ("-b man log", 3, "did you mean main?"),
        ("-b man status", 3, "did you mean main?"),
        ("status -b man", 3, "did you mean main?"),
        ("-b man set a 1", 3, "did you mean main?"),
        ("-b man ls", 3, "did you mean main?"),
        ("-s trap log", 3, "did you mean trip?"),
        ("-s trap status", 3, "did you mean trip?"),
        ("ls --session trap", 3, "did you mean trip?"),
        ("checkout main", 2, "otolith switch BRANCH"),
        ("-s trip log -s trap", 2, "name one"),
        ("-b main log -b cheaper", 2, "name one"),
        ("switch cheper", 3, "did you mean cheaper?"),
        ("switch main~1", 2, "otolith rollback main~1"),
        ("branch -d main", 2, "switch"),
        ("branch -d cheper", 3, "did you mean cheaper?"),
        ("branch cheaper", 2, "otolith switch cheaper"),
        ("branch a..b", 2, "leave out .."),
        ("set a//b 1", 2, "slashes"),
        ("set .policy 1", 2, "another name"),
        ("set x {oops --type json", 2, "--type str"),
        ("rm nope", 3, "otolith ls"),
        ("commit", 0, ""),
        ("commit -m again", 0, ""),
        ("log --steps --graph", 2, "omit --graph"),
        ("merge --continue", 2, "otolith merge BRANCH"),
        ("merge --take ours budget", 2, "otolith merge BRANCH"),
        ("rollback", 2, "--help"),
        ("redo", 3, "undo"),
        ("gc --expire soon", 2, "14d"),
        ("init", 2, "otolith status"),
        ("--store missing.db log", 3, "otolith init"),
        ("--store .otolith/place.json log", 2, "another path"),
        ("--store ftp://x log", 7, "sqlite:"),
    ],
)
def test_a_mistake_gets_its_code_and_the_next_move(torn, words, code, hint):
    before = torn("log", "--json").found

    done = torn(*words.split())

    assert done.code == code, done.err
    assert hint in done.err
    assert bool(code) == done.err.startswith("error: ")
    assert torn("log", "--json").found == before


def test_outside_of_any_store_it_says_how_to_begin(run):
    done = run("status")

    assert done.code == 3
    assert "otolith init" in done.err
    assert "otolith demo" in done.err


def test_a_flipped_bit_is_found_and_said(trip, tmp_path):
    trip("gc")
    data = trip.store.read_bytes()
    at = data.index(b"asked")
    trip.store.write_bytes(data[:at] + b"A" + data[at + 1 :])

    assert trip("fsck").code == 5
    assert trip("log").code == 5


def test_a_damaged_store_is_mended_from_a_copy(trip, tmp_path):
    trip("gc")
    data = trip.store.read_bytes()
    (tmp_path / "copy.db").write_bytes(data)
    at = data.index(b"search")
    trip.store.write_bytes(data[:at] + b"S" + data[at + 1 :])

    mended = trip("fsck", "--repair-from", "copy.db")

    assert mended.code == 0, mended.out + mended.err
    assert trip("cat", "main:plan/steps/0").out == "search\n"


def test_gc_drops_what_undo_no_longer_needs(torn):
    torn("branch", "-d", "cheaper")
    kept = torn("gc", "--json").found
    dropped = torn("gc", "--expire", "now", "--json").found

    assert kept["dropped_objects"] == 0
    assert dropped["dropped_objects"] > 0
    assert (kept["erased"], dropped["erased"], dropped["residue"]) == (False, True, "")
    assert torn("gc", "--expire", "now").out.endswith("contains a byte of what was deleted.\n")
    assert torn("fsck", "--deep").code == 0
    assert torn("undo").code == 3
