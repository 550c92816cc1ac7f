"""Code of the user's that is run by a verb: what it raises is theirs, and how to go on is told."""

from __future__ import annotations

import pytest

from otolith import Disk, Versioned
from otolith.agent import Task
from otolith.cli.errors import hint_of
from otolith.cli.options import GlobalOptions
from otolith.cli.run.agents import ResumeHint, load_code, parse_inputs, run_errors
from otolith.errors import MergeConflict
from tests.unit.cli.terminal import data, run

STEP = """
import sys
from otolith.agent import Orchestrator

class Bot(Orchestrator):
    def step(self, s):
        {}
"""

RAISED = [
    ('sys.exit("no API key")', "SystemExit: no API key"),
    ('open("missing")', "FileNotFoundError: "),
    ("raise ConnectionRefusedError(111, 'refused')", "ConnectionRefusedError: "),
    ("raise BrokenPipeError(32, 'broken')", "BrokenPipeError: "),
    ("raise KeyError('seat')", "KeyError: 'seat'"),
]


@pytest.fixture
def begun(place):
    """A store with a session, and nothing that runs in it."""
    with Versioned(Disk("a.db"), session="trip") as state:
        state.commit("there is a store", allow_empty=True)
    return place


@pytest.mark.parametrize(("line", "told"), RAISED)
def test_what_a_step_raises_is_the_users(begun, line, told):
    (begun / "bad.py").write_text(STEP.format(line))
    for words in (["run", "bad.py:Bot", "Fly"], ["resume", "trip", "--with", "bad.py:Bot"]):
        result = run(*words)
        assert result.exit_code == 1
        assert told in result.stderr
        assert 'bad.py", line 7, in step' in result.stderr
        assert "otolith/" not in result.stderr
        assert "check the path" not in result.stderr
        assert "resume trip --with bad.py:Bot" in result.stderr


def test_what_a_replay_raises_is_the_users(begun):
    (begun / "bad.py").write_text(STEP.format("sys.exit('no API key')"))
    run("run", "bad.py:Bot", "Fly", "--max-steps", 0)
    result = run("replay", "trip", "--with", "bad.py:Bot")
    assert (result.exit_code, "SystemExit: no API key" in result.stderr) == (1, True)


@pytest.mark.parametrize(("line", "told"), RAISED)
@pytest.mark.parametrize("named", ["bad_{}.py:Bot", "bad_{}:Bot"])
def test_what_an_import_raises_is_the_users(begun, line, told, named):
    number = RAISED.index((line, told))
    (begun / f"bad_{number}.py").write_text(f"import sys\n{line}\n")
    result = run("run", named.format(number), "Fly")
    assert result.exit_code == 1
    assert told in result.stderr
    assert f'bad_{number}.py", line 2' in result.stderr
    assert "otolith/" not in result.stderr
    assert "importlib" not in result.stderr


def test_the_errors_that_led_to_another_are_told_with_the_users_lines(begun):
    line = "try: int('x')\n        except ValueError as e: raise RuntimeError('no') from e"
    (begun / "bad.py").write_text(STEP.format(line))
    told = run("run", "bad.py:Bot", "Fly").stderr
    assert "ValueError: invalid literal" in told
    assert "RuntimeError: no" in told


def test_an_error_of_otolith_keeps_its_hint(begun):
    (begun / "bad.py").write_text(STEP.format("return s.to_planning()"))
    result = run("run", "bad.py:Bot", "Fly")
    assert (result.exit_code, "Traceback" in result.stderr) == (2, False)
    assert "hint: " in result.stderr


def test_a_module_that_imports_what_is_not_there_is_told_apart_from_no_module(begun):
    (begun / "needy.py").write_text("import nothing_like_this\n")
    needy, missing = run("run", "needy:Bot", "Fly"), run("run", "needier:Bot", "Fly")
    assert (needy.exit_code, missing.exit_code) == (1, 2)
    assert "No module named 'nothing_like_this'" in needy.stderr
    assert "there is no module needier" in missing.stderr


# ---------------------------------------------------------------- interrupts


PAYING = """
from otolith.agent import Agent, ScriptedModel

agent = Agent(ScriptedModel([{"call": "pay", "amount": 5}]))

@agent.tool(effects="once")
def pay(amount: int) -> str:
    "Pay."
    raise KeyboardInterrupt
"""


def test_an_interrupt_says_how_to_go_on_and_what_may_have_happened(begun):
    (begun / "paying.py").write_text(PAYING)
    result = run("run", "paying.py:agent", "Pay")
    key = data("effects")["effects"][0]["key"]
    assert result.exit_code == 130
    assert "the run of session trip was interrupted" in result.stderr
    assert "`otolith --store a.db resume trip --with paying.py:agent` resumes it" in result.stderr
    assert "pay {amount: 5}" in result.stderr
    assert f"effects trip --settle {key[:10]} --happened   (or --not-happened)" in result.stderr


def test_an_interrupt_where_nothing_was_done_lists_nothing(begun):
    (begun / "bad.py").write_text(STEP.format("raise KeyboardInterrupt"))
    result = run("run", "bad.py:Bot", "Fly")
    assert result.exit_code == 130
    assert "was interrupted" in result.stderr
    assert "may have happened" not in result.stderr


# ---------------------------------------------------------------- arguments


TYPED = """
from dataclasses import dataclass
from otolith.agent import Agent, ScriptedModel

seen = []
agent = Agent(ScriptedModel(["ok", "ok", "ok"]))

@dataclass
class Order:
    id: int
    lines: list[str]

@agent.task
def ship(order: Order, fast: bool = False, state: object = None) -> str:
    "Ship an order."
"""


def test_arguments_are_made_into_what_a_task_asks_for(begun):
    (begun / "typed_task.py").write_text(TYPED)
    task, name = load_code(GlobalOptions(), "typed_task.py:ship")
    assert name == "typed_task:ship"
    assert isinstance(task, Task)
    made = parse_inputs(task, '{"order": {"id": 7, "lines": ["pen"]}}')
    assert type(made["order"]).__name__ == "Order"
    assert (made["order"].lines, made["fast"]) == (["pen"], False)


def test_a_task_is_told_its_arguments_as_python_tells_them(begun):
    (begun / "typed_task.py").write_text(TYPED)
    done = run("run", "typed_task.py:ship", '{"order": {"id": 7, "lines": ["pen"]}}')
    assert done.exit_code == 0, done.stderr
    said = run("chat", "show", "-n", 2).output
    assert 'order = {"id":7,"lines":["pen"]}' in said
    assert "fast = false" in said


@pytest.mark.parametrize(
    ("given", "named"),
    [
        ('{"order": 7}', "order"),
        ('{"order": {"id": "x", "lines": []}}', "order.id"),
        ('{"fast": true}', "order"),
        ('{"order": {"id": 1, "lines": []}, "slow": true}', "slow"),
    ],
)
def test_an_argument_that_does_not_fit_is_named(begun, given, named):
    (begun / "typed_task.py").write_text(TYPED)
    result = run("run", "typed_task.py:ship", given)
    assert result.exit_code == 2
    assert named in result.stderr
    assert 'write {"order": …, "fast": …}' in result.stderr


# ---------------------------------------------------------------- options


@pytest.mark.parametrize(
    "option",
    [
        ["--sandbox", "docker"], ["--image", "x"], ["--memory", "1K"], ["--wall", "1"],
        ["--network"], ["--folder", "x"], ["--untracked", "adopt"], ["--figures", "x"],
        ["--from", "7"], ["--fresh"], ["--keep-going"],
    ],
)  # fmt: skip
def test_an_option_for_cells_is_refused_for_an_agent(begun, option):
    result = run("run", "bot.py:agent", "Pay", *option)
    assert result.exit_code == 2
    assert f"{option[0]} applies to the cells of a script or notebook" in result.stderr
    assert not (begun / "paid").exists()


@pytest.mark.parametrize("option", [["--max-steps", "1"], ["--max-seconds", "1"], ["--again"]])
def test_an_option_for_agents_is_refused_for_cells(begun, option):
    (begun / "script.py").write_text("x = 1\n")
    result = run("run", "script.py", *option)
    assert result.exit_code == 2
    assert f"{option[0]} applies to an agent, FILE.py:NAME" in result.stderr


@pytest.mark.parametrize(
    "words",
    [
        ["resume", "trip", "--force"],
        ["resume", "trip", "--max-steps", "1"],
        ["resume", "trip", "--abandon", "--answer", "x"],
        ["replay", "trip", "--act"],
        ["replay", "trip", "--to", "x"],
    ],
)
def test_an_option_that_would_be_ignored_is_refused(said, words):
    assert run(*words).exit_code == 2


# ---------------------------------------------------------------- words


def test_what_ended_a_run_is_named_as_it_was_typed(begun):
    (begun / "slow.py").write_text(STEP.format("return s.to_executing()"))
    steps = run("run", "slow.py:Bot", "Fly", "--max-steps", 3)
    assert steps.output.splitlines() == [
        "stopped by --max-steps after 3 steps (3 in all)",
        "to resume: otolith --store a.db resume trip --with slow.py:Bot",
    ]
    seconds = run("run", "slow.py:Bot", "Fly", "--max-seconds", 0)
    assert "stopped by --max-seconds after 0 steps (3 in all)" in seconds.output


def test_a_question_is_told_with_the_command_that_answers_it(begun):
    asked = run("run", "bot.py:Asker", "A seat", session="seat")
    question, command = asked.output.splitlines()[1:]
    assert question == "Which seat?"
    start, _, id = command.rpartition(" ")
    answer = "to answer: otolith --store a.db resume seat --with bot.py:Asker --answer TEXT --to"
    assert start == answer
    shown = run("resume", session="seat").output.splitlines()
    assert shown[-1].endswith(f"--answer TEXT --to {id}")


def test_an_answer_that_is_sent_twice_does_not_answer_the_next_question(begun):
    body = "return s.to_executing().ask(f'Delete {s.iteration}?') if s.phase == 'planning' "
    body += "else s.ask('Delete PRODUCTION?')"
    (begun / "wipe.py").write_text(STEP.format(body))
    run("run", "wipe.py:Bot", "Clean", session="wipe")
    answer = ("resume", "--with", "wipe.py:Bot", "--answer", "yes")
    assert "PRODUCTION" in run(*answer, session="wipe").output
    again = run(*answer, session="wipe")
    assert again.exit_code != 8
    assert "must name its question" in again.stderr
    id = again.stderr.rpartition("--to ")[2].strip().rstrip(")")
    assert run(*answer, "--to", id, session="wipe").exit_code == 8


# ---------------------------------------------------------------- ending a run


@pytest.mark.parametrize("code", [[], ["--with", "bot.py:agent"]])
def test_a_session_that_is_stuck_is_freed(said, code):
    stuck = run("run", "bot.py:agent", "Fly")
    assert stuck.exit_code == 1
    assert "`otolith --store a.db resume trip --abandon` ends it" in stuck.stderr
    assert "resume trip --with bot.py:agent` resumes it" in stuck.stderr

    run("set", "note", "1")
    assert "main is ended" in run("resume", "trip", "--abandon", *code).output
    assert "abandoned from a terminal" in run("resume", "trip").output
    assert data("status")["clean"] is False
    assert run("run", "bot.py:agent", "Fly").exit_code == 0
    assert run("resume", "trip", "--abandon").output.startswith("nothing to end")


def test_hints_speak_the_language_of_a_terminal(said):
    taken = run("replay", "trip", "--with", "bot.py:agent", "--to", "main")
    assert (taken.exit_code, "session(" in taken.stderr) == (2, False)
    assert "--to" in taken.stderr


def test_a_session_in_which_nothing_ran_is_told_with_the_command_that_begins(begun):
    result = run("resume", "trip", "--with", "bot.py:agent")
    assert result.exit_code == 3
    begin = "otolith --store a.db run bot.py:agent TASK --session trip"
    assert f"hint: `{begin}` begins one" in result.stderr


def test_a_replay_says_how_many_calls_it_refused(begun):
    run("run", "bot.py:agent", "Pay", "--max-steps", 0)
    refused = run("replay", "trip", "--with", "bot.py:agent")
    assert "1 call refused: --act lets them happen" in refused.output
    assert data("replay", "trip", "--with", "bot.py:agent")["refused"] == 1


def test_an_error_keeps_its_own_hint(begun):
    line = "return self.call('pay', amount=5) and s"
    (begun / "bad.py").write_text(STEP.format(line))
    told = run("run", "bad.py:Bot", "Pay").stderr
    assert "there is no tool 'pay'" in told
    assert "otolith ls" not in told
    assert "the tools are" in told


def test_what_a_sub_agent_did_is_merged_by_a_command(begun):
    going = ResumeHint(GlobalOptions(), "trip", "bot.py:agent")
    told = "the changes on branch main.worker conflict with those of main"
    conflict = MergeConflict(told, paths=("x",), hint="state.merge('main.worker')")
    state = Versioned(Disk("a.db"), session="trip")
    with state, pytest.raises(MergeConflict), run_errors(going, state):
        raise conflict
    assert hint_of(conflict) == (
        "`otolith -s trip merge main.worker`, resolve the conflicts, "
        "then `otolith resume trip --with bot.py:agent`"
    )
