"""What comes from a store tells a terminal nothing but itself: no colours, no turned lines."""

from __future__ import annotations

import json

import pytest
from click.testing import CliRunner

from otolith import Disk, Versioned
from otolith.cli import program
from otolith.cli.terminal import dumps, escape, escape_line

EVIL = "e\x1b[31mvil\x9b2J\u202eeno\u2066x"
BIDI = [0x061C, 0x200E, 0x200F, *range(0x202A, 0x202F), *range(0x2066, 0x206A)]


@pytest.fixture
def evil(place):
    """A store in which everything that can be named is named to do harm."""
    with Versioned(Disk("a.db"), session=EVIL, author=EVIL) as state:
        state["quiet"] = 1
        state[EVIL] = {EVIL: EVIL, "lines": f"{EVIL}\n{EVIL}"}
        state.commit(f"{EVIL}\n\n{EVIL}", meta={EVIL: EVIL})
        state.conversation.user(EVIL)
        state.memory.start(EVIL)
        state.memory.plan([EVIL])
        state.memory.note("key", EVIL)
        state.events.append(EVIL, agent=EVIL, text=EVIL)
        state[EVIL] = {EVIL: 2, "lines": "other\nlines"}
        state.commit(EVIL)
    return place


VERBS = [
    ["log"], ["log", "--oneline"], ["log", "--graph"], ["log", "--json"],
    ["show"], ["show", "@~1"], ["show", "@:quiet"], ["show", "--json"], ["show", f"@:{EVIL}"],
    ["diff", "@~1", "@"], ["diff", "--stat", "@~1", "@"], ["diff", "--name-only", "@~1", "@"],
    ["ls"], ["ls", "-l"], ["ls", EVIL], ["blame"], ["sessions"], ["status"], ["stats"], ["branch"],
    ["chat", "show"], ["chat", "threads"], ["memory"], ["chat", "search", "vil"],
    ["chat", "topics"], ["chat", "context", "--budget", "900"], ["events"], ["cat", "nothing"],
    ["log", EVIL], ["-s", f"{EVIL}2", "log"], ["resume"], ["effects"],
]  # fmt: skip


@pytest.mark.parametrize("words", VERBS, ids=" ".join)
def test_no_verb_passes_on_what_a_store_would_tell_a_terminal(evil, words):
    before = [] if words[0] == "-s" else ["-s", EVIL]
    result = CliRunner().invoke(program, ["--color", "always", "--store", "a.db", *before, *words])
    shown = result.stdout + result.stderr
    assert shown
    assert "\x1b[31mvil" not in shown
    assert "\x9b" not in shown
    assert not {chr(code) for code in BIDI} & set(shown)


def test_json_means_the_same_as_before(evil):
    shown = CliRunner().invoke(program, ["--store", "a.db", "-s", EVIL, "log", "--json"]).output
    assert json.loads(shown)["commits"][0]["message"] == EVIL


@pytest.mark.parametrize("code", BIDI)
def test_what_turns_a_line_around_is_shown(code):
    assert escape(f"a{chr(code)}b") == f"a\\u{code:04x}b"
    assert json.loads(dumps(f"a{chr(code)}b")) == f"a{chr(code)}b"


def test_lines_and_tabs_stay():
    assert escape("a\n\tb") == "a\n\tb"


def test_colours_of_ours_stay_and_nothing_else_does():
    assert escape_line("\x1b[31mred\x1b[0m \x1b[2J\x07\u202e") == (
        "\x1b[31mred\x1b[0m \N{REPLACEMENT CHARACTER}[2J\N{REPLACEMENT CHARACTER}\\u202e"
    )
