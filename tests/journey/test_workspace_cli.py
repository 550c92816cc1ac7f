"""Journeys through a workspace in a terminal: code in steps, cells that are resumed, a prompt."""

from __future__ import annotations

import json
import os
import pty
import shutil
import signal
import subprocess
import sys
from typing import NamedTuple

import pytest

import otolith
from tests.patience import HANG_SECONDS

QUICK = ("--sandbox", "limits")


class Done(NamedTuple):
    code: int
    out: str
    err: str

    @property
    def found(self):
        return json.loads(self.out)


class Terminal:
    """Runs `otolith`, a process for each command, in a directory with a session `lab` at hand."""

    def __init__(self, place, program):
        self.place = place
        self.program = program
        self.store = place / ".otolith" / "store.db"
        clean = {name: value for name, value in os.environ.items() if "OTOLITH" not in name}
        self.environment = clean | {"OTOLITH_KEY": "07" * 32, "XDG_STATE_HOME": str(place / "xdg")}

    def __call__(self, *words, input=""):
        done = self.program.run(words, cwd=self.place, env=self.environment, input=input)
        return Done(done.returncode, done.stdout, done.stderr)

    def start(self, *words, **streams):
        """Start a command, to be interrupted; a context that ends it whatever happens."""
        return subprocess.Popen(
            self.command(*words), cwd=self.place, env=self.environment, text=True, **streams
        )

    @staticmethod
    def command(*words):
        return [sys.executable, "-m", "otolith.cli", *words]

    def exec(self, code, *words):
        return self("exec", "lab", "-c", code, *QUICK, *words)

    def value(self, expression):
        done = self.exec(expression, "--json")
        assert done.code == 0, done.out + done.err
        return done.found["value"]

    def run_file(self, name, *words):
        return self("run", name, *QUICK, *words)

    def messages(self):
        return [commit["message"] for commit in self("log", "--json").found["commits"]]


@pytest.fixture(scope="module")
def _begun(tmp_path_factory, program):
    terminal = Terminal(tmp_path_factory.mktemp("lab"), program)
    assert terminal("init", "--session", "lab").code == 0
    return terminal.place


@pytest.fixture
def lab(_begun, tmp_path, program):
    """A terminal in a directory with a session that has no commit yet."""
    shutil.copytree(_begun, tmp_path, dirs_exist_ok=True)
    return Terminal(tmp_path, program)


# ---------------------------------------------------------------- exec


def test_a_variable_is_there_for_the_next_command(lab):
    first = lab.exec("x = [1]\nprint('made')")
    second = lab.exec("x.append(2)\nx")

    assert (first.code, first.out) == (0, "made\n")
    assert "created x" in first.err
    assert second.out == "[1, 2]\n"
    assert "changed x" in second.err


def test_a_sandbox_is_chosen_unless_one_is_named(lab):
    done = lab("exec", "lab", "-c", "6 * 7", "--json")

    assert done.code == 0, done.err
    assert (done.found["value"], bool(done.found["sandbox"])) == (42, True)


def test_code_comes_from_a_file_or_from_standard_input(lab, tmp_path):
    (tmp_path / "script.py").write_text("print('from a file')\n")

    assert lab("exec", "lab", "script.py", *QUICK).out == "from a file\n"
    assert lab("exec", "script.py", *QUICK).out == "from a file\n"
    assert lab("exec", "lab", "-", *QUICK, input="print('typed')").out == "typed\n"
    assert lab.messages()[1:] == ["script.py", "script.py"]


def test_a_step_that_fails_says_where_and_is_committed_with_what_it_did(lab):
    done = lab.exec("x = 1\nx / 0")

    assert done.code == 1
    assert "ZeroDivisionError" in done.err
    assert "line 2" in done.err
    assert lab.value("x") == 1


def test_what_is_printed_to_stderr_goes_there(lab):
    done = lab.exec("import sys\nprint('out')\nprint('err', file=sys.stderr)")

    assert done.out == "out\n"
    assert done.err.startswith("err\n")


def test_output_is_printed_as_it_comes(lab):
    code = "import time\nprint('first', flush=True)\ntime.sleep(60)"
    with lab.start("exec", "lab", "-c", code, *QUICK, stdout=subprocess.PIPE) as process:
        assert process.stdout.readline() == "first\n"
        process.kill()


def test_what_cannot_be_kept_is_named_with_why(lab):
    done = lab.exec("g = (n for n in range(3))")

    assert done.code == 0
    assert "lost g (generator" in done.err


def test_files_are_kept_and_named(lab):
    added = lab.exec("from pathlib import Path\n_ = Path('note.txt').write_text('kept')")

    assert "files added note.txt" in added.err
    assert lab.value("Path('note.txt').read_text()") == "kept"


def test_figures_are_saved_where_asked(lab, tmp_path):
    pytest.importorskip("matplotlib")
    code = "import matplotlib.pyplot as plt\n_ = plt.plot([1, 2])"

    told = lab.exec(code)
    saved = lab.exec(code, "--figures", "drawn", "--json").found["figures"]

    assert "--figures DIR" in told.err
    assert [(tmp_path / name).read_bytes()[:4] for name in saved] == [b"\x89PNG"]


def test_a_message_replaces_the_first_line(lab):
    lab.exec("x = 1", "-m", "begin")

    assert lab.messages() == ["begin"]


def test_a_step_that_takes_too_long_is_interrupted_and_keeps_what_it_reached(lab):
    done = lab.exec("x = 1\nwhile True: pass", "--wall", "0.5")

    assert done.code == 1
    assert "timed out" in done.err
    assert lab.value("x") == 1


def test_a_step_without_enough_memory_fails(lab):
    done = lab.exec("b = bytearray(2_000_000_000)", "--memory", "1G")

    assert done.code == 1
    assert "MemoryError" in done.err


def test_ctrl_c_interrupts_the_step_and_what_it_did_is_kept(lab):
    code = "import time\nx = 1\nprint('go', flush=True)\ntime.sleep(60)"
    streams = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    with lab.start("exec", "lab", "-c", code, *QUICK, **streams) as process:
        assert process.stdout.readline() == "go\n"
        process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=HANG_SECONDS)

    assert process.returncode == 130
    assert "KeyboardInterrupt" in err
    assert "] interrupted; " in err
    assert lab.value("x") == 1


def test_ctrl_c_twice_ends_a_step_that_does_not_listen(lab):
    lab.exec("x = 0")
    code = (
        "import time\nx = 1\n"
        "while True:\n"
        "    try:\n"
        "        print('go', flush=True)\n"
        "        time.sleep(60)\n"
        "    except KeyboardInterrupt: pass\n"
    )
    streams = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    with lab.start("exec", "lab", "-c", code, *QUICK, **streams) as process:
        assert process.stdout.readline() == "go\n"
        process.send_signal(signal.SIGINT)
        assert process.stdout.readline() == "go\n"
        process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=HANG_SECONDS)

    assert process.returncode == 130
    assert "nothing is committed; killed" in err
    assert lab.value("x") == 0


def test_a_reader_that_goes_away_does_not_cost_the_step(lab):
    code = "for n in range(20_000): print(n)\nx = n"
    command = f"{sys.executable} -m otolith.cli exec lab - --sandbox limits"
    subprocess.run(
        f"{command} | head -n 1",
        shell=True,
        cwd=lab.place,
        env=lab.environment,
        input=code,
        capture_output=True,
        text=True,
        timeout=HANG_SECONDS,
        check=True,
    )

    assert lab.value("x") == 19_999


def test_staged_edits_are_left_where_they_are(lab):
    lab("set", "budget", "500")
    lab.exec("x = 1")

    staged = lab("status", "--json").found["changes"]
    lab("commit", "-m", "asked")

    assert [change["path"] for change in staged] == ["budget"]
    assert lab("cat", "main:budget").out == "500\n"
    assert lab.value("x") == 1


def test_a_folder_of_the_users_loses_nothing(lab, tmp_path):
    folder = tmp_path / "mine"
    folder.mkdir()
    (folder / "data.csv").write_text("a\n")
    first = lab.exec("open('data.csv').read()", "--folder", "mine")
    (folder / "data.csv").write_text("edited\n")
    (folder / "new.csv").write_text("b\n")

    second = lab.exec("open('data.csv').read()", "--folder", "mine")

    assert (first.code, first.out) == (0, "'a\\n'\n")
    assert (second.code, second.out) == (0, "'edited\\n'\n")
    assert (folder / "new.csv").read_text() == "b\n"


def test_files_that_a_session_does_not_know_are_refused_until_somebody_decides(lab, tmp_path):
    lab.exec("open('ours.txt', 'w').write('x')")
    folder = tmp_path / "mine"
    folder.mkdir()
    (folder / "data.csv").write_text("a\n")

    refused = lab.exec("1", "--folder", "mine")
    adopted = lab.exec("open('data.csv').read()", "--folder", "mine", "--untracked", "adopt")

    assert (refused.code, "data.csv" in refused.err) == (2, True)
    assert "`--untracked adopt` adds them" in refused.err
    assert (adopted.code, adopted.out) == (0, "'a\\n'\n")
    assert sorted(path.name for path in folder.iterdir()) == ["data.csv", "ours.txt"]


def test_files_that_a_session_does_not_know_can_be_discarded(lab, tmp_path):
    lab.exec("open('ours.txt', 'w').write('x')")
    folder = tmp_path / "mine"
    folder.mkdir()
    (folder / "data.csv").write_text("a\n")

    lab.exec("1", "--folder", "mine", "--untracked", "discard")

    assert [path.name for path in folder.iterdir()] == ["ours.txt"]


def test_a_folder_that_holds_the_store_is_refused(lab):
    assert lab.exec("1", "--folder", ".").code == 2


@pytest.mark.parametrize(
    ("words", "code", "hint"),
    [
        ("exec", 2, "-c CODE"),
        ("exec lab", 2, "otolith exec SESSION FILE"),
        ("exec lab a.py -c 1", 2, "--help"),
        ("exec lab book.ipynb", 2, "otolith run"),
        ("exec lab -c 1 --memory much", 2, "512M"),
        ("exec lab -c 1 --sandbox cellar", 2, "bubblewrap"),
        ("exec lab -c 1 --sandbox docker", 2, "--image python:"),
        ("exec lab -c 1 --wall 0", 2, "--help"),
        ("vars elsewhere", 3, "otolith exec elsewhere -c CODE"),
        ("log --var x --path y", 2, "--help"),
        ("-b nope exec lab -c 1", 3, "otolith branch"),
        ("vars lob", 3, "did you mean lab?"),
        ("vars lab nope", 3, "otolith vars"),
        ("run missing.py", 2, "notebook"),
        ("run one.py --from 2", 2, ""),
        ("run one.py --from 1 --fresh", 2, "--help"),
    ],
)
def test_a_mistake_gets_its_code_and_the_next_move(lab, tmp_path, words, code, hint):
    (tmp_path / "one.py").write_text("x = 1\n")
    lab("set", "x", "1")
    lab("commit", "-m", "first")

    done = lab(*words.split())

    assert (done.code, done.err.startswith("error: ")) == (code, True), done.err
    assert hint in done.err
    assert lab.messages() == ["first"]


# ---------------------------------------------------------------- vars


def test_variables_are_listed_with_type_extent_and_step(lab):
    lab.exec("rows = [1, 2, 3]")
    lab.exec("import pandas as pd\ndf = pd.DataFrame({'a': [1, 2], 'b': ['x', 'y']})")

    listed = {one["name"]: one for one in lab("vars", "lab", "--json").found["variables"]}
    described = lab("vars", "lab", "df").out

    assert (listed["rows"]["length"], listed["rows"]["step"]) == (3, 1)
    assert (listed["df"]["shape"], listed["df"]["step"]) == ([2, 2], 2)
    assert [name for name, _ in listed["df"]["columns"]] == ["a", "b"]
    assert "pandas" in described
    assert "a  " in described.partition("columns")[2]
    assert "rows" in lab("vars").out


def test_a_lost_variable_is_listed_with_why(lab):
    lab.exec("g = (n for n in range(3))")

    assert "lost: " in lab("vars", "lab").out
    assert "pickle" in lab("vars", "lab", "g", "--json").found["why"]


def test_variables_can_be_looked_at_as_they_were(lab):
    lab.exec("x = 1")
    lab.exec("x = 2; y = 3")

    then = lab("vars", "lab", "--at", "main~1", "--json").found["variables"]

    assert [(one["name"], one["preview"]) for one in then] == [("x", "1")]


def test_looking_at_variables_runs_nothing_of_theirs(lab, tmp_path):
    flag = tmp_path / "ran"
    lab.exec(
        "class Trap:\n"
        "    def __reduce__(self):\n"
        f"        return (open, ({str(flag)!r}, 'w'))\n"
        "trap = Trap()"
    )

    done = lab("vars", "lab", "trap", "--json")

    assert done.found["type"] == "Trap"
    assert not flag.exists()


def test_a_hint_on_a_variable_speaks_terminal(lab):
    lab.exec("class C: pass\nc = C(); g = (n for n in [1])")

    assert "`otolith exec SESSION -c c` shows it" in lab("vars", "lab", "c").out
    assert "consume g" in lab("vars", "lab", "g", "--json").found["hint"]


# ---------------------------------------------------------------- show, diff, log


FRAME = "import pandas as pd\ndf = pd.DataFrame({'a': [1, 2]}); x = 1"


def test_show_says_what_a_step_did(lab):
    lab.exec(FRAME)
    lab.exec("df['b'] = 2; y = [1]; g = (n for n in y)\ndel x\n_ = open('f.txt', 'w').write('')")

    shown, found = lab("show").out, lab("show", "--json").found["workspace"]

    assert "Kind:   run, ok, in limits" in shown
    assert "~ df: pandas.DataFrame 2 x 1 -> pandas.DataFrame 2 x 2" in shown
    assert "    columns added b" in shown
    assert "+ y: list [1]" in shown
    assert "- x: int 1" in shown
    assert "+ g: generator, lost: " in shown
    assert "+ f.txt (file)" in shown
    assert {each["name"]: each["how"] for each in found}["df"] == "changed"


def test_show_of_the_first_step_says_what_it_made(lab):
    lab.exec("x = 1")

    assert "+ x: int 1" in lab("show").out


def test_diff_says_what_steps_did_beside_what_was_set(lab):
    lab.exec("x = 1")
    lab.exec("x = 2")
    lab("set", "budget", "5")
    lab("commit", "-m", "asked")
    lab.exec("y = 3")

    both = ("main~3", "main")

    assert lab("diff", *both).out.splitlines() == [
        "+ budget", "    + 5", "", "Variables and files:", "~ x: int 1 -> int 2", "+ y: int 3",
    ]  # fmt: skip
    assert lab("diff", "--name-only", *both).out.split() == [
        "budget", ".workspace/vars/x", ".workspace/vars/y",
    ]  # fmt: skip
    assert "variables  1 changed, 1 created" in lab("diff", "--stat", *both).out
    assert len(lab("diff", "--json", *both).found["workspace"]) == 2
    assert lab("diff", "--exit-code", "main~1", "main").code == 1
    assert lab("diff", "--exit-code", "main", "main").code == 0


def test_log_tells_steps_that_failed_and_those_of_a_variable(lab):
    lab.exec("x = 1")
    lab.exec("1 / 0")
    lab.exec("while True: pass", "--wall", "0.5")
    lab.exec("x = 2")

    lines = lab("log", "--oneline").out.splitlines()
    of_x = lab("log", "--oneline", "--var", "x").out.splitlines()

    assert [line.partition("  [")[2] for line in lines] == ["", "timed out]", "failed]", ""]
    assert [line.split(maxsplit=1)[1][-5:] for line in of_x] == ["x = 2", "x = 1"]


# ---------------------------------------------------------------- run


THREE = "n = 1\n# %% two\nn += 1\nprint(n)\n# %% three\nn += 10\n"


def test_the_cells_of_a_script_are_steps(lab, tmp_path):
    (tmp_path / "a.py").write_text(THREE)

    done = lab.run_file("a.py")

    assert (done.code, done.out) == (0, "2\n")
    assert lab.messages() == ["a.py 3/3: n += 10", "a.py 2/3: n += 1", "a.py 1/3: n = 1"]
    assert lab.value("n") == 12


def test_cells_that_were_run_are_left_out(lab, tmp_path):
    script = tmp_path / "a.py"
    script.write_text(THREE)
    lab.run_file("a.py")

    again = lab.run_file("a.py", "--json").found
    script.write_text(THREE + "# %%\nn += 100\n")
    longer = lab.run_file("a.py", "--json").found

    assert (again["skipped"], again["steps"]) == (3, [])
    assert (longer["skipped"], [step["cell"] for step in longer["steps"]]) == (3, [4])
    assert lab.value("n") == 112


def test_an_edited_cell_is_run_again_and_so_are_those_after_it(lab, tmp_path):
    script = tmp_path / "a.py"
    script.write_text(THREE)
    lab.run_file("a.py")
    script.write_text(THREE.replace("n += 1\n", "n += 2\n"))
    edited = lab.run_file("a.py", "--json").found
    script.write_text(THREE)
    restored = lab.run_file("a.py", "--json").found

    assert [step["cell"] for step in edited["steps"]] == [2, 3]
    assert [step["cell"] for step in restored["steps"]] == [2, 3]


def test_a_run_stops_at_the_first_failing_cell_and_goes_on_there_when_it_is_mended(lab, tmp_path):
    script = tmp_path / "a.py"
    script.write_text("n = [1]\n# %%\nn.append(2)\n1 / 0\n# %%\nn.append(3)\n")

    failed = lab.run_file("a.py")
    script.write_text(script.read_text().replace("1 / 0", "pass"))
    mended = lab.run_file("a.py")

    assert failed.code == 1
    assert "a.py, cell 2 of 3, line 4: ZeroDivisionError" in failed.err
    assert (mended.code, "1 of 3 cells run before" in mended.err) == (0, True)
    assert lab.value("n") == [1, 2, 3]


def test_a_failed_cell_is_run_again_even_if_it_is_the_same(lab, tmp_path):
    (tmp_path / "a.py").write_text("n = 1\n# %%\nn += 1\nassert ready\n")
    lab.run_file("a.py")

    again = lab.run_file("a.py", "--json").found
    lab.exec("ready = True")
    ready = lab.run_file("a.py", "--json").found

    assert (again["ok"], again["skipped"]) == (False, 1)
    assert (ready["ok"], ready["skipped"]) == (True, 1)


def test_what_is_undone_is_run_again(lab, tmp_path):
    (tmp_path / "a.py").write_text(THREE)
    lab.run_file("a.py")
    lab("undo")
    lab("rollback", "--steps", "1")

    again = lab.run_file("a.py", "--json").found

    assert [step["cell"] for step in again["steps"]] == [2, 3]
    assert lab.value("n") == 12


def test_keep_going_runs_the_rest_and_the_next_run_starts_at_the_failure(lab, tmp_path):
    (tmp_path / "a.py").write_text("n = 1\n# %%\n1 / 0\n# %%\nm = 3\n# %%\n2 / 0\n")

    first = lab.run_file("a.py", "--keep-going", "--json")
    second = lab.run_file("a.py", "--keep-going", "--json").found

    assert first.code == 1
    assert [step["ok"] for step in first.found["steps"]] == [True, False, True, False]
    assert [step["cell"] for step in second["steps"]] == [2, 3, 4]


def test_from_and_fresh_choose_where_to_start(lab, tmp_path):
    (tmp_path / "a.py").write_text(THREE)
    lab.run_file("a.py")

    later = lab.run_file("a.py", "--from", "3", "--json").found["steps"]
    fresh = lab.run_file("a.py", "--fresh", "--json").found["steps"]

    assert [step["cell"] for step in later] == [3]
    assert [step["cell"] for step in fresh] == [1, 2, 3]


def test_a_cell_that_was_jumped_over_does_not_count_as_run(lab, tmp_path):
    (tmp_path / "a.py").write_text("a = 1\n# %%\nb = 2\n# %%\nc = 3\n")
    lab.run_file("a.py", "--from", "3")

    rest = lab.run_file("a.py", "--json").found["steps"]

    assert [step["cell"] for step in rest] == [1, 2, 3]


def test_a_run_that_was_killed_goes_on_with_the_cell_it_was_in(lab, tmp_path):
    flag = tmp_path / "flag"
    (tmp_path / "a.py").write_text(
        "n = 1\n# %%\nimport os, time\nn += 1\nprint('go', flush=True)\n"
        f"while not os.path.exists({str(flag)!r}): time.sleep(0.01)\n# %%\nn += 10\n"
    )
    with lab.start("run", "a.py", *QUICK, stdout=subprocess.PIPE) as process:
        assert process.stdout.readline() == "go\n"
        process.kill()
    flag.touch()

    rest = lab.run_file("a.py", "--json").found

    assert [step["cell"] for step in rest["steps"]] == [2, 3]
    assert lab.value("n") == 12


def test_a_notebook_is_run_without_its_magics(lab, tmp_path):
    cells = [
        {"cell_type": "markdown", "source": ["# Title"]},
        {"cell_type": "code", "source": ["%matplotlib inline\n", "x = 20"]},
        {"cell_type": "code", "source": "x + 1"},
    ]
    book = {"nbformat": 4, "nbformat_minor": 5, "metadata": {}, "cells": cells}
    (tmp_path / "book.ipynb").write_text(json.dumps(book))

    done = lab("run", "book.ipynb", "--session", "other", *QUICK)

    assert (done.code, done.out) == (0, "21\n")
    assert "not run: %matplotlib inline" in done.err
    assert [one["name"] for one in lab("vars", "other", "--json").found["variables"]] == ["x"]


def test_what_a_run_keeps_can_be_merged(lab, tmp_path):
    (tmp_path / "a.py").write_text(THREE)
    lab.run_file("a.py", "--json")
    lab("switch", "-c", "side")
    (tmp_path / "a.py").write_text(THREE + "# %%\nside = 1\n")
    lab.run_file("a.py")
    lab("switch", "main")
    (tmp_path / "a.py").write_text(THREE + "# %%\nours = 1\n")
    lab.run_file("a.py")

    merged = lab("merge", "side")

    assert merged.code == 0, merged.out + merged.err
    assert lab.value("n, side, ours") == {"$type": "tuple", "value": [12, 1, 1]}


# ---------------------------------------------------------------- merges


BEFORE = """
x = 1; deep = {"a": 1, "b": 1}; w = [1]; gone = 1
class C: pass
c = C(); c.n = 1; d = C(); d.twin = c
open("f.txt", "w").write("base")
"""
THEIRS = """
x = 2; deep["a"] = 2; deep["b"] = 2; w = C(); c.n = 2; gone = 2
open("f.txt", "w").write("side")
"""
OURS = """
x = 3; deep["a"] = 3; w.append(5); c.n = 3
del gone
open("f.txt", "w").write("main")
"""
LOOK = "x, deep, getattr(w, 'n', w) if isinstance(w, list) else 'C', c.n, d.twin is c"


@pytest.fixture
def divided(lab):
    """A session with a merge in progress, in which both sides changed everything."""
    for words in (
        ["exec", "-c", BEFORE, *QUICK],
        ["switch", "-c", "side"],
        ["exec", "-c", THEIRS, *QUICK],
        ["switch", "main"],
        ["exec", "-c", OURS, *QUICK],
    ):
        assert lab(*words).code == 0
    assert lab("merge", "side").code == 1
    return lab


def plain(value):
    """Return a value of `--json` without the types."""
    return value["value"] if isinstance(value, dict) and "$type" in value else value


def test_conflicts_of_variables_and_files_are_told_by_name(divided):
    told = divided("status").out
    for line in (
        "! variable x  edit/edit\n    base   1\n    ours   3\n    theirs 2",
        "! variable deep at a  edit/edit\n    base   1\n    ours   3\n    theirs 2",
        "! file f.txt  edit/edit",
        "! variable c  edit/edit\n    ours   C <__main__.C object",
        "! variable w  edit/edit\n    ours   list [1, 5]\n    theirs C <",
        "! variable gone  edit/delete\n    ours   absent\n    theirs int 2",
        "`otolith merge --take ours|theirs --var NAME` (or `--file NAME`)",
    ):
        assert line in told, told
    assert "\\x80" not in told


def test_every_variable_and_file_can_be_taken_from_the_other_side(divided):
    names = ("x", "deep", "c", "w", "gone")
    options = [word for name in names for word in ("--var", name)]
    taken = divided("merge", "--take", "theirs", *options, "--file", "f.txt")
    assert "All conflicts are resolved" in taken.out, taken.err
    assert divided("merge", "--continue").code == 0
    value = plain(divided.value(LOOK + ", gone, open('f.txt').read()"))
    assert value == [2, {"a": 2, "b": 2}, "C", 2, True, 2, "side"]
    assert {each["name"]: each["preview"] for each in variables(divided)}["x"] == "2"


def variables(lab):
    return lab("vars", "--json").found["variables"]


def test_every_variable_and_file_can_be_taken_from_this_side(divided):
    assert divided("merge", "--take", "ours", "--all").code == 0
    assert divided("merge", "--continue").code == 0
    value = plain(divided.value(LOOK + ", open('f.txt').read()"))
    assert value == [3, {"a": 3, "b": 2}, [1, 5], 3, True, "main"]
    assert "gone" not in {each["name"] for each in variables(divided)}


def test_sides_can_be_mixed_by_variable(divided):
    for words in (
        ["theirs", "--var", "c"],
        ["ours", "--var", "w", "--var", "x"],
        ["theirs", ".workspace/data/deep/a"],
        ["ours", "--file", "f.txt"],
        ["theirs", "--var", "gone"],
    ):
        assert divided("merge", "--take", *words).code == 0
    assert divided("merge", "--continue").code == 0
    value = plain(divided.value(LOOK + ", gone, open('f.txt').read()"))
    assert value == [3, {"a": 2, "b": 2}, [1, 5], 2, True, 2, "main"]


@pytest.mark.parametrize(
    ("words", "code", "hint"),
    [
        (["set", ".workspace/data/x", "5"], 2, "--var NAME"),
        (["merge", "--take", "ours", "--var", "nope"], 3, "variable x"),
        (["merge", "--take", "ours", "--file", "x"], 3, "file f.txt"),
        (["merge", "--take", "base", "--var", "c"], 2, "take 'ours' or 'theirs'"),
        (["merge", "--var", "c"], 2, "--help"),
        (["merge", "--continue"], 1, "--take ours|theirs --var NAME"),
    ],
)
def test_a_conflict_of_a_variable_is_not_resolved_by_mistake(divided, words, code, hint):
    before = divided("status", "--json").found["conflicts"]
    done = divided(*words)
    assert done.code == code, done.out
    assert hint in done.err
    assert divided("status", "--json").found["conflicts"] == before


# ---------------------------------------------------------------- shell


def test_each_input_of_the_shell_is_a_commit(lab):
    done = lab("shell", "lab", *QUICK, input="x = 1\ndef f(n):\n    return n + x\n\nf(2)\n")

    assert (done.code, done.out) == (0, "3\n")
    assert lab.messages() == ["f(2)", "def f(n):", "x = 1"]


def test_the_shell_goes_on_after_a_failure_and_what_is_no_python_is_no_step(lab):
    done = lab("shell", "lab", *QUICK, input="1 / 0\nx = = 1\nprint('on')\n")

    assert done.out == "on\n"
    assert "ZeroDivisionError" in done.err
    assert "SyntaxError" in done.err
    assert lab.messages() == ["print('on')", "1 / 0"]


def test_the_shell_takes_a_step_back(lab):
    done = lab("shell", "lab", *QUICK, input="x = 1\nx = 2\n:undo\nx\n")

    assert done.out.splitlines()[-1] == "1"


def test_the_shell_goes_on_on_a_branch(lab):
    lab("shell", "lab", *QUICK, input="x = 1\n:fork other\nx = 2\n")

    assert lab.value("x") == 1
    assert lab("-b", "other", "exec", "-c", "x", *QUICK).out == "2\n"


def test_the_shell_tells_of_variables_files_and_history(lab):
    steps = "x = 1\n:diff\n_ = open('f', 'w').write('four')\nx = 2\n"
    typed = f"{steps}:vars\n:vars x\n:diff\n:log x\n:files\n"
    out = lab("shell", "lab", *QUICK, input=typed).out

    assert "+ x: int 1" in out
    assert "~ x: int 1 -> int 2" in out
    assert "  preview" not in out
    assert "step 3" in out
    assert "f  4 B" in out
    assert [line.split(maxsplit=1)[1] for line in out.splitlines()[-3:-1]] == ["x = 2", "x = 1"]


@pytest.mark.parametrize("typed", [":nope", ":fork", ":fork lab~", ":undo now", ":vars nope"])
def test_the_shell_says_what_is_wrong_with_a_command_and_goes_on(lab, typed):
    done = lab("shell", "lab", *QUICK, input=f"x = 1\n{typed}\nx\n")

    assert (done.code, done.out) == (0, "1\n")
    assert "error: " in done.err


def test_ctrl_c_in_the_shell_interrupts_the_step_only(lab):
    streams = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    with lab.start("shell", "lab", *QUICK, **streams) as process:
        process.stdin.write("import time; x = 1; print('go', flush=True); time.sleep(60)\n")
        process.stdin.flush()
        assert process.stdout.readline() == "go\n"
        process.send_signal(signal.SIGINT)
        out, err = process.communicate("x\n", timeout=HANG_SECONDS)

    assert (process.returncode, out) == (0, "1\n")
    assert "KeyboardInterrupt" in err


def test_a_terminal_is_greeted_and_its_history_kept(lab, tmp_path):
    master, slave = pty.openpty()
    with lab.start("shell", "lab", *QUICK, stdin=slave, stdout=slave, stderr=slave) as process:
        os.close(slave)
        seen = _until(master, "main>>> ")
        os.write(master, b"21 * 2\n")
        seen += _until(master, "main>>> ")
        os.write(master, b"\x04")
        assert process.wait(timeout=HANG_SECONDS) == 0
    os.close(master)

    assert "Session lab, branch main" in seen
    assert "42" in seen
    assert "21 * 2" in (tmp_path / "xdg" / "otolith" / "history").read_text()


def _until(descriptor, prompt):
    """Return what a terminal shows, up to a prompt."""
    seen = ""
    while not seen.endswith(prompt):
        seen += os.read(descriptor, 4096).decode()
    return seen


def test_what_a_terminal_ran_a_program_has(lab):
    lab.exec("x = [1, 2]")

    with otolith.open(lab.store) as repo, repo.session("lab").workspace() as workspace:
        assert workspace["x"] == [1, 2]
