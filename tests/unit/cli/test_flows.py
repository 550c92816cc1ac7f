"""`otolith flow`: runs of flows, seen and steered from a terminal."""

from __future__ import annotations

import json
from typing import Any

import pytest
from click.testing import CliRunner, Result

import otolith
from otolith.cli import program
from otolith.core import Branch
from otolith.flows import Flow
from otolith.flows.storage import StoredFlow

CONTROL = "\x1b[31mred\u202e"


def trip() -> Flow:
    flow = Flow("book-flight")

    @flow.task
    def search(dest: str) -> list[str]:
        return [f"{dest} 7:40", f"{dest} 9:15"]

    @flow.task(after=search, retries=1, pause="1ms")
    def pay(search):
        raise ConnectionError(f"the bank {CONTROL} is down")

    @flow.task(after=search)
    def seat(task):
        return task.ask(f"Aisle? {CONTROL}")

    @flow.task(after=[pay, seat])
    def book(seat):
        return seat

    return flow


@pytest.fixture
def place(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with otolith.open("a.db") as repo:
        repo.session("ann").flow(trip(), key="trip-42", dest="NYC").work()
    return tmp_path


def begin(session: str, key: str, flow: Flow | None = None) -> None:
    with otolith.open("a.db") as repo:
        if flow is None:
            repo.session(session).flow(trip(), key=key, dest="Rome")
        else:
            repo.session(session).flow(flow, key=key)


def run(*words: str) -> Result:
    return CliRunner().invoke(program, ["--store", "a.db", *words])


def done(*words: str) -> str:
    result = run(*words)
    assert result.exit_code == 0, (words, result.output)
    assert "\x1b" not in result.stdout
    assert "\u202e" not in result.stdout
    return result.stdout


def data(*words: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(done(*words, "--json"))
    return found


def refused(*words: str, code: int) -> str:
    """Return the error and the hint of a command that is refused."""
    result = run(*words)
    assert (result.exit_code, result.stdout) == (code, ""), (words, result.output)
    return result.stderr


# ---------------------------------------------------------------- looking


def test_the_runs_of_a_session_are_listed(place):
    begin("ann", "trip-43")
    lines = done("flow", "list").splitlines()

    assert [line.split()[:3] for line in lines] == [
        ["run", "flow", "status"],
        ["trip-42", "book-flight", "waiting"],
        ["trip-43", "book-flight", "running"],
    ]
    assert "1 of 4" in lines[1]


def test_the_runs_of_all_sessions_are_listed(place):
    begin("bob", "trip-9")
    with otolith.open("a.db") as repo:
        state = repo.session("cy")
        state["x"] = 1
        state.commit()

    runs = data("flow", "list", "--all")["runs"]

    assert [(each["session"], each["key"]) for each in runs] == [
        ("ann", "trip-42"),
        ("bob", "trip-9"),
    ]
    assert (
        done("flow", "list", "-s", "cy")
        == "No runs; a run begins in Python: state.flow(flow, key=…).\n"
    )
    assert "--all is of all sessions" in refused("-s", "ann", "flow", "list", "--all", code=2)


def test_a_run_as_json_is_an_object_of_these_names(place):
    (found,) = data("flow", "list")["runs"]

    assert found.keys() == {
        "session", "key", "flow", "status", "why", "done", "total", "percent", "created", "counts",
        "running", "questions", "failures",
    }  # fmt: skip
    assert found["counts"] == {"done": 1, "failed": 1, "waiting": 1, "pending": 1}
    assert found["failures"]["pay"].startswith("ConnectionError: the bank")
    assert found["questions"] == {"seat": f"Aisle? {CONTROL}"}


def test_a_run_is_shown_with_its_tasks_and_what_to_do_next(place):
    page = done("flow", "show", "trip-42")

    assert page.startswith("Run trip-42 of book-flight: waiting, 1 of 4 tasks done")
    rows = {line.split()[0]: line.split()[1] for line in page.splitlines() if line}
    assert rows["search"] == "done"
    assert rows["pay"] == "failed"
    assert "ConnectionError: the bank" in page
    assert "    otolith --store a.db flow answer trip-42 seat VALUE" in page


def test_the_tasks_that_are_shown_can_be_chosen(place):
    shown = data("flow", "show", "trip-42", "--status", "failed", "--status", "waiting")
    assert [each["name"] for each in shown["tasks"]] == ["pay", "seat"]
    assert len(data("flow", "show", "trip-42", "-n", "1")["tasks"]) == 1
    assert "… and 3 more tasks: --limit 4 lists them" in done("flow", "show", "trip-42", "-n", "1")


def test_a_task_as_json_is_an_object_of_these_names(place):
    tasks = {each["name"]: each for each in data("flow", "show", "trip-42")["tasks"]}

    assert tasks["pay"].keys() == {
        "name", "status", "after", "call", "goal", "attempt", "failures", "lost", "worker", "began",
        "ended", "waited", "ran", "retried", "error", "feedback", "question",
        "asked", "answered", "answered_by",
    }  # fmt: skip
    assert (tasks["pay"]["attempt"], tasks["pay"]["failures"]) == (2, 2)
    assert tasks["pay"]["retried"] > 0
    assert tasks["book"]["after"] == ["pay", "seat"]


def test_one_task_is_shown_with_its_result_or_its_error(place):
    assert data("flow", "show", "trip-42", "search")["result"] == ["NYC 7:40", "NYC 9:15"]
    assert 'result    ["NYC 7:40", "NYC 9:15"]' in done("flow", "show", "trip-42", "search")
    page = done("flow", "show", "trip-42", "pay")
    assert "attempts  2 of 2 (2 failed)" in page
    assert "ConnectionError: the bank" in page
    assert "result" not in data("flow", "show", "trip-42", "pay")


def test_a_run_can_be_seen_on_another_branch(place):
    with otolith.open("a.db") as repo:
        idea = repo.session("ann").fork("idea")
        idea.flow(key="trip-42").answer("seat", "window")

    assert data("-b", "idea", "flow", "show", "trip-42")["questions"] == {}
    assert data("flow", "show", "trip-42")["questions"] != {}


# ---------------------------------------------------------------- steering


def test_an_answer_is_read_as_by_set(place):
    assert data("flow", "answer", "trip-42", "seat", "[3]")["questions"] == {}
    with otolith.open("a.db") as repo:
        run = repo.session("ann").flow(trip(), key="trip-42")
        run.work()
        assert run.result("seat") == [3]


def test_an_answer_can_be_a_text_that_looks_like_json(place):
    done("flow", "answer", "trip-42", "seat", "3", "--type", "str")
    with otolith.open("a.db") as repo:
        run = repo.session("ann").flow(trip(), key="trip-42")
        run.work()
        assert run.result("seat") == "3"


def test_what_failed_is_tried_again(place):
    found = data("flow", "retry", "trip-42")
    assert found["again"] == ["pay"]
    assert found["counts"] == {"done": 1, "waiting": 1, "pending": 2}
    assert "No task has failed." in done("flow", "retry", "trip-42")
    assert data("flow", "retry", "trip-42", "search")["again"] == ["search", "seat"]


def test_a_run_is_paused_and_resumed(place):
    begin("ann", "trip-43")
    page = done("flow", "pause", "trip-43", "--why", f"lunch {CONTROL}")
    assert page.startswith("Run trip-43 of book-flight: paused (lunch")
    assert "`otolith --store a.db flow resume trip-43` lets it go on." in done(
        "flow", "show", "trip-43"
    )
    assert data("flow", "resume", "trip-43")["status"] == "running"


def test_a_run_or_a_task_is_cancelled(place):
    begin("ann", "trip-43")
    found = data("flow", "cancel", "trip-43", "search", "--why", "no")
    assert found["counts"] == {"cancelled": 1, "pending": 3}
    assert data("flow", "cancel", "trip-43", "--why", "too dear")["why"] == "too dear"
    assert data("flow", "list")["runs"][1]["status"] == "cancelled"


def test_what_is_staged_stays_staged(place):
    done("set", "x", "1")
    done("flow", "pause", "trip-42")
    assert [each["path"] for each in data("status")["changes"]] == ["x"]


# ---------------------------------------------------------------- bad input


@pytest.mark.parametrize("verb", ["show", "retry", "cancel", "pause", "resume"])
def test_an_unknown_run_is_told(place, verb):
    told = refused("flow", verb, "trip-24", code=3)
    assert "session ann has no run trip-24\nhint: did you mean trip-42?" in told
    told = refused("flow", verb, "other", code=3)
    assert "hint: `otolith --store a.db flow list` lists the runs" in told


def test_an_unknown_task_is_told(place):
    for words in (["show", "trip-42", "x"], ["retry", "trip-42", "x"], ["cancel", "trip-42", "x"],
                  ["answer", "trip-42", "x", "1"]):  # fmt: skip
        told = refused("flow", *words, code=3)
        assert "run trip-42 has no task 'x'" in told
        assert "it has: search, pay, seat, book" in told


def test_what_a_task_cannot_is_told(place):
    shows = "hint: `otolith --store a.db flow show trip-42` shows its tasks"
    told = refused("flow", "retry", "trip-42", "book", code=2)
    assert "task book is pending, and cannot be done again" in told
    assert shows in told
    told = refused("flow", "answer", "trip-42", "search", "1", code=2)
    assert "task search is done, and asks nothing" in told
    assert shows in told
    told = refused("flow", "cancel", "trip-42", "search", code=2)
    assert "task search is done, and cannot be cancelled" in told


def test_a_session_without_runs_says_how_one_begins(place):
    with otolith.open("a.db") as repo:
        state = repo.session("cy")
        state["x"] = 1
        state.commit()
    assert "a run begins in Python" in refused("-s", "cy", "flow", "show", "x", code=3)


def test_a_team_has_no_runs(place):
    assert "works on sessions" in refused("--team", "t", "flow", "list", code=2)


def test_looking_changes_nothing(place):
    with otolith.open("a.db") as repo:
        before = repo.session("ann").head
    done("flow", "list")
    done("flow", "show", "trip-42")
    with otolith.open("a.db") as repo:
        assert repo.session("ann").head == before


# ---------------------------------------------------------------- figures and pictures


def timed(seconds: dict[str, float], key: str = "timed") -> None:
    """Do a run of tasks that take as long as they are said to, by the record."""
    flow = Flow("timed")
    for name, after in {"a": (), "b": (), "c": ("a", "b"), "d": ("c",)}.items():
        flow.task(lambda: 1, name=name, after=after)
    with otolith.open("a.db") as repo:
        state = repo.session("ann")
        state.flow(flow, key=key).work()
        branch = Branch(repo.backend, state.ref)
        stored = StoredFlow(branch, key)

        def rewrite(_: Branch) -> None:
            created = stored.head().created
            starts = {"a": 0.0, "b": 0.0, "c": 3.0, "d": 4.0}
            for name, took in seconds.items():
                record = stored.record(name).after(
                    name,
                    ran=round(took * 1e6),
                    began=created + round(starts[name] * 1e6),
                    ended=created + round((starts[name] + took) * 1e6),
                )
                stored.put_record(name, record)

        branch.transact(rewrite)


SECONDS = {"a": 1.0, "b": 3.0, "c": 1.0, "d": 2.0}


def test_the_path_of_a_run_says_what_takes_how_long(place):
    timed(SECONDS)

    found = data("flow", "path", "timed")
    assert (found["seconds"], [(each["name"], each["seconds"]) for each in found["path"]]) == (
        6.0,
        [("b", 3.0), ("c", 1.0), ("d", 2.0)],
    )
    lines = done("flow", "path", "timed").splitlines()
    assert lines[0] == "Run timed takes 6 s or longer, because of these tasks:"
    assert lines[2].split() == ["b", "done", "3.000", "50", "%"]
    assert "Path    b > c > d" in done("flow", "show", "timed")


def test_what_if_says_what_a_factor_saves(place):
    timed(SECONDS)

    found = data("flow", "what-if", "timed", "b=0.5")
    assert (found["factors"], found["before"], found["after"], found["saved"]) == (
        {"b": 0.5},
        7.0,
        5.5,
        1.5,
    )
    assert data("flow", "what-if", "timed", "b=0.5", "d=2")["after"] == 7.5
    assert done("flow", "what-if", "timed", "b=0.5").splitlines() == [
        "It takes 7 s.",
        "With b x 0.5 it would be 5.5 s: 1.5 s less.",
    ]


@pytest.mark.parametrize(
    ("word", "code", "told"),
    [
        ("b", 2, "b is not a factor\nhint: write search=0.5 for half of the time"),
        ("b=half", 2, "b=half is not a factor"),
        ("b=nan", 2, "b=nan is not a factor"),
        ("=2", 2, "=2 is not a factor"),
        ("b=-1", 2, "cannot take -1.0 times as long"),
        ("x=2", 3, "there is no task and no function 'x'\nhint: the tasks are: a, b, c, d"),
    ],
)
def test_a_factor_that_makes_no_sense_is_told(place, word, code, told):
    timed(SECONDS)
    assert told in refused("flow", "what-if", "timed", word, code=code)


def test_a_graph_is_a_tree_with_each_task_once(place):
    timed(SECONDS)
    assert done("flow", "graph", "timed").splitlines() == [
        "  a  done 1 s",
        "*   c  done 1 s  (also after b)",
        "*     d  done 2 s",
        "* b  done 3 s",
    ]
    found = data("flow", "graph", "timed")
    assert found["path"] == ["b", "c", "d"]
    assert {each["name"]: each["after"] for each in found["tasks"]}["c"] == ["a", "b"]


def test_pictures_are_written_where_they_are_wanted(place):
    timed(SECONDS)
    result = run("flow", "graph", "timed", "--svg", "g.svg", "--gantt", "t.svg", "--html", "g.html")

    assert (result.exit_code, result.stdout) == (0, "")
    assert result.stderr.splitlines() == ["Wrote g.svg.", "Wrote t.svg.", "Wrote g.html."]
    for name in ("g.svg", "t.svg"):
        assert (place / name).read_text().startswith("<svg")
    assert "<h2>Time</h2>" in (place / "g.html").read_text()
    assert run("-C", str(place), "flow", "graph", "timed", "--svg", "-").stdout.startswith("<svg")
    assert done("flow", "graph", "timed", "--mermaid").startswith("flowchart LR\n")
    told = refused("flow", "graph", "timed", "--mermaid", "--svg", "g.svg", code=2)
    assert "choose one of them" in told
    assert run("flow", "graph", "timed", "--svg", "none/g.svg").exit_code == 2


def test_the_pictures_of_a_run_that_waits_have_no_control_characters(place):
    for words in (["--mermaid"], ["--svg", "-"], ["--html", "-"], ["--gantt", "-"]):
        assert "book" in done("flow", "graph", "trip-42", *words)


def test_a_deep_graph_and_a_wide_one_are_drawn(place):
    flow = Flow("large")
    for at in range(300):
        flow.task(lambda: 1, name=f"deep{at}", after=[f"deep{at - 1}"] if at else [])
        flow.task(lambda: 1, name=f"wide{at}", after=["deep0"])
    begin("ann", "large", flow)

    lines = done("flow", "graph", "large").splitlines()
    assert len(lines) == 600
    assert max(map(len, lines)) < 100
    assert "deep0 > deep1 > deep2 > deep3 > … 292 more … > deep296" in done("flow", "show", "large")


def test_when_a_run_ends_is_expected_from_what_its_tasks_took(place):
    flow = Flow("f")
    flow.task(lambda: 1, name="one")
    flow.task(lambda task: task.ask("?"), name="two", after="one")
    begin("ann", "f", flow)
    shown = data("flow", "show", "f")
    assert shown["estimate"].keys() == {"low", "expected", "high"}
    page = done("flow", "show", "f")
    assert "Ends    in about " in page
    assert "in 8 of 10 cases" in page
    assert "Workers none: `otolith worker --code FILE.py:FLOW` works on it" in page
    with otolith.open("a.db") as repo:
        repo.session("ann").flow(flow, key="f").work()
    assert data("flow", "show", "f")["estimate"] is None


def test_a_run_that_cannot_be_read_is_listed_with_the_others(place):
    with otolith.open("a.db") as repo:
        state = repo.session("ann")
        stored = StoredFlow(state, "bad")
        stored.put({"flow": "bad", "created": 1}, "head")
        stored.put({"call": "a", "after": ["self"]}, "plan", "self")
        state.commit()

    found = {each["key"]: each for each in data("flow", "list", "-s", "ann")["runs"]}
    assert found["trip-42"]["status"] == "waiting"
    assert found["bad"]["status"] == "corrupt"
    assert "the plan of the run bad is not sound" in found["bad"]["why"]
    assert "corrupt" in done("flow", "list", "--all")
