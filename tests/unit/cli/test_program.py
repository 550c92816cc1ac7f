"""The program itself: verbs load late, errors have codes, and the reference names everything."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import click
import pytest
from click.testing import CliRunner

import otolith
from otolith import errors
from otolith.cli import errors as failures
from otolith.cli import program
from otolith.cli.errors import exit_code
from otolith.cli.location import StoreLocation
from otolith.cli.main import COMMANDS
from otolith.cli.options import SessionCommand

REFERENCE = Path(__file__).resolve().parents[3] / "docs" / "reference" / "cli.md"
NAMES = [name for group in COMMANDS.values() for name in group]


@pytest.fixture
def run():
    def invoke(*words, **options):
        return CliRunner().invoke(program, list(words), **options)

    return invoke


def _command(verb: str) -> click.Command:
    command = program.get_command(click.Context(program), verb)
    assert command is not None
    return command


def _options(verb: str) -> list[click.Parameter]:
    """Return the options of a verb, and of those below it; but those of all verbs on a session."""
    parameters = [each for one in _family(verb) for each in one.params]
    return [
        each
        for each in parameters
        if isinstance(each, click.Option) and not str(each.name).startswith("named_")
    ]


def _family(verb: str) -> list[click.Command]:
    """Return a verb, and those below it."""
    command = _command(verb)
    below = command.commands.values() if isinstance(command, click.Group) else ()
    return [command, *below]


def _section(verb: str) -> str:
    pattern = rf"(?ms)^### {verb}\n(.*?)(?=^##|\Z)"
    found = re.search(pattern, REFERENCE.read_text())
    assert found, f"the reference has no section {verb}"
    return found[1]


@pytest.mark.parametrize("verb", NAMES)
def test_a_verb_and_all_its_options_are_in_the_reference(verb):
    section = _section(verb)

    missing = [name for each in _options(verb) for name in each.opts if f"`{name}" not in section]

    assert missing == []


def test_every_verb_on_a_session_is_listed_with_where_it_is_named():
    listed = REFERENCE.read_text().partition("### Sessions on the command line")[2]
    rows = [row for row in listed.partition("###")[0].splitlines() if row.startswith("| `")]
    verbs = set(re.findall(r"`(\w+)", " ".join(row.split(" | ")[0] for row in rows)))

    assert verbs == {
        verb for verb in NAMES if any(isinstance(each, SessionCommand) for each in _family(verb))
    }


def test_the_options_before_the_verb_are_in_the_reference():
    everywhere = REFERENCE.read_text().partition("## Global options")[2].partition("\n## ")[0]

    assert [o for p in program.params for o in p.opts if f"`{o}" not in everywhere] == []


def test_the_reference_describes_no_option_that_is_not_there():
    for verb in NAMES:
        described = re.findall(r"(?m)^\| `(-[^ `]+)(?:[^|]*?`, `(--[\w-]+))?", _section(verb))
        there = {name for each in _options(verb) for name in each.opts}
        assert {name for pair in described for name in pair if name} <= there, verb


def test_every_exit_code_is_told_wherever_they_are_listed():
    walk = REFERENCE.parents[1] / "how-to" / "use-it-from-a-terminal.md"
    listed = re.search(r"Exit codes: (.*?)\. ", walk.read_text().replace("\n", " "))
    assert listed
    table = re.findall(r"(?m)^\| (\d) \|", REFERENCE.read_text())
    known = list(map(str, range(10)))

    assert table == known
    assert re.findall(r"\b\d\b", listed[1]) == known
    assert re.findall(r"(?m)^(\d)  ", failures.__doc__ or "") == known


def test_the_help_of_a_replay_says_the_same_as_the_reference(run):
    assert "where the run began" in " ".join(run("replay", "--help").output.split())
    assert "where the run began" in _section("replay")


@pytest.mark.parametrize("verb", NAMES)
def test_a_verb_explains_itself(verb, run):
    done = run(verb, "--help")

    assert done.exit_code == 0
    assert done.output == run("help", verb).output


def test_no_arguments_show_the_verbs(run):
    done = run()

    assert done.exit_code == 0
    assert all(f"  {verb} " in done.output for verb in NAMES)


@pytest.mark.parametrize(("typed", "meant"), [("staus", "status"), ("comit", "commit")])
def test_a_verb_that_is_nearly_right_is_suggested(typed, meant, run):
    done = run(typed)

    assert done.exit_code == 2
    assert f"did you mean `otolith {meant}`?" in done.stderr


def test_an_option_after_the_verb_that_belongs_before_it_is_explained(run):
    done = run("log", "--store", "x")

    assert done.exit_code == 2
    assert "before the command" in done.stderr


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (errors.MergeConflict("m", paths=()), 1),
        (errors.StaleRef("r", expected=None, actual=None), 1),
        (errors.BadPath("m"), 2),
        (errors.RefExists("m"), 2),
        (errors.StoreNotFound("m"), 3),
        (errors.NoConsent("m", purpose="learning"), 4),
        (errors.Erased("m"), 9),
        (errors.Denied("m"), 4),
        (errors.ReadOnly("m"), 4),
        (errors.Corrupt("m"), 5),
        (errors.Busy("m"), 6),
        (errors.QuotaExceeded("m"), 6),
        (errors.FormatTooNew("m"), 7),
    ],
    ids=lambda value: getattr(value, "kind", value),
)
def test_an_error_has_its_exit_code(error, code):
    assert exit_code(error) == code


@pytest.mark.parametrize(
    ("store", "url"),
    [
        (".otolith/store.db", "/home/x/.otolith/store.db"),
        ("/elsewhere/a.db", "/elsewhere/a.db"),
        ("sqlite:a%20b.db", "/home/x/a b.db"),
        ("sqlite:///elsewhere/a.db", "sqlite:///elsewhere/a.db"),
        ("memory:", "memory:"),
        ("redis://host", "redis://host"),
    ],
)
def test_a_relative_store_is_relative_to_the_directory_of_its_folder(store, url):
    assert StoreLocation(store, None, "main", Path("/home/x")).url == url


@pytest.mark.parametrize("words", [["migrate"], ["merge", "--take", "mine", "x"]])
def test_the_choices_of_an_argument_are_on_one_line(run, words):
    done = run(*words)

    assert done.exit_code == 2
    assert "\t" not in done.stderr
    assert len(done.stderr.splitlines()) == 2


CALLS = re.compile(r"\b(?:state|repo|memory|work)\.\w+\(|\b(?:undo|redo|commit|settle|vars)\(")


def _hints():
    """Yield every hint that is written out in the library, and where."""
    for path in sorted(PACKAGE.rglob("*.py")):
        room = path.relative_to(PACKAGE).parts[0]
        nodes = ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        given = (each for each in nodes if isinstance(each, ast.keyword) and each.arg == "hint")
        parts = (part for each in given for part in ast.walk(each.value))
        texts = (part for part in parts if isinstance(part, ast.Constant))
        yield from ((room, f"{path.name}:{text.lineno}", str(text.value)) for text in texts)


PACKAGE = Path(otolith.__file__).parent
FOR_BOTH = re.compile(r"otolith (fsck|doctor|init)\b")


def test_the_library_speaks_to_programs_and_the_command_line_to_people():
    """Who calls the library reads Python calls; `otolith fsck` and `doctor` have no other name."""
    wrong = [
        (where, hint)
        for room, where, hint in _hints()
        if room != "cli" and "otolith " in FOR_BOTH.sub("", hint)
    ]
    assert wrong == []


@pytest.mark.parametrize(
    ("hint", "told"),
    [
        ("state.log() lists the commits", "`otolith log` lists the commits"),
        ("it has 1; state.log() lists the commits", "it has 1; `otolith log` lists the commits"),
        ("list(state) lists the names at the top", "`otolith ls` lists the names at the top"),
        (
            "repo.branches(id) lists branches, repo.tags() lists tags",
            "`otolith branch` lists branches, `otolith tag` lists tags",
        ),
        ("see vars()", "`otolith vars`"),
        ("wait longer, or see team.leases()", "wait longer, or `otolith team leases`"),
        ("see team.inbox", "`otolith team inbox`"),
        ("list(team.inbox) shows them", "`otolith team inbox` shows them"),
        ("look at team.inbox again, and decide", "look at `otolith team inbox` again, and decide"),
        (
            "its members are: a; team.add('b c') adds one",
            "its members are: a; `otolith team add b c` adds one",
        ),
        (
            "find out, then settle('0123456789abcdef', happened=True or False)",
            "find out, then `otolith effects --settle 0123456789 --happened` (or `--not-happened`)",
        ),
    ],
)
def test_a_hint_of_the_library_is_told_in_commands(hint, told):
    assert failures.hint_of(errors.Invalid("x", hint=hint)) == told
    assert not CALLS.search(told)


@pytest.mark.parametrize(
    ("word", "meant"), [("stauts", "status"), ("stat", "stats"), ("brnach", "branch")]
)
def test_letters_in_another_order_are_the_likeliest_slip(run, word, meant):
    assert f"did you mean `otolith {meant}`?" in run(word).output
