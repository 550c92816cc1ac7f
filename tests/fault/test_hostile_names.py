"""Names that somebody prepared, in every place that takes one: kept as they are, or refused.

A place is what is done with a name that may come from a store: it is joined to a path, shown in
a terminal, drawn, looked up, searched for, or part of a ref. What comes of it is an answer or an
error of ours; nothing is made outside, nothing is imported, no terminal is told anything.
"""

from __future__ import annotations

import json
import shutil
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from click.testing import CliRunner

from otolith import Disk, Repo, Versioned, view
from otolith.cli import program
from otolith.codecs import Codecs
from otolith.errors import UnknownType
from otolith.statecharts import Chart
from otolith.stores import Batch, MemoryStore, Swap
from otolith.workspace import branch_folder
from tests.fault.hostile import LONE_SURROGATE, NASTY_NAMES, outcome

NAMES = {**NASTY_NAMES, "half a character": LONE_SURROGATE}
BIDI = {
    chr(code) for code in (0x061C, 0x200E, 0x200F, *range(0x202A, 0x202F), *range(0x2066, 0x206A))
}
CONTROLS = {chr(code) for code in (*range(32), *range(127, 160))} - {"\n", "\t"}

each_name = pytest.mark.parametrize("name", NAMES.values(), ids=NAMES)


def is_harmless(text: str) -> bool:
    """Tell whether a terminal shows a text, and does nothing else."""
    return not (BIDI | CONTROLS) & set(text)


# ---------------------------------------------------------------- kept under a name


def _session(repo: Repo, name: str) -> None:
    state = repo.session(name)
    state["x"] = 1
    state.commit()
    assert name in [session.id for session in repo.sessions()]
    assert repo.session(name)["x"] == 1


def _branch(repo: Repo, name: str) -> None:
    state = repo.session("s")
    state["x"] = 1
    state.commit()
    state.fork(name)
    assert name in repo.branches("s")


def _tag(repo: Repo, name: str) -> None:
    state = repo.session("s")
    state["x"] = 1
    repo.tag(name, state.commit())
    assert name in repo.tags()


def _key(repo: Repo, name: str) -> None:
    state = repo.session("s")
    state[(name,)] = {name: name}
    state.commit()
    assert repo.session("s")[(name, name)] == name


def _path(repo: Repo, name: str) -> None:
    state = repo.session("s")
    state[name] = 1
    state.commit()
    assert repo.session("s")[name] == 1


def _commit(repo: Repo, name: str) -> None:
    state = repo.session("s")
    state["x"] = 1
    made = state.commit(name, meta={name: name})
    assert (made.message, made.meta) == (name, {name: name})


def _author(repo: Repo, name: str) -> None:
    other = Repo(repo.store, author=name)
    state = other.session("s")
    state["x"] = 1
    assert state.commit().author == name


def _revision(repo: Repo, name: str) -> None:
    state = repo.session("s")
    state["x"] = 1
    state.commit()
    state.at(name)


def _policy(repo: Repo, name: str) -> None:
    state = repo.session("s")
    state.policy(name, "ours")
    state.commit()


def _thread(repo: Repo, name: str) -> None:
    state = repo.session("s")
    chat = state.conversation.thread(name)
    chat.user(name)
    state.commit()
    assert [message.text for message in chat] == [name]


def _search(repo: Repo, name: str) -> None:
    state = repo.session("s")
    state.conversation.user(f"something and {name}")
    list(state.conversation.search(name))
    state.memory.note("key", name)
    state.memory.recall(name)


def _note(repo: Repo, name: str) -> None:
    state = repo.session("s")
    state.memory.note(name, name)
    state.commit()
    assert state.memory.notes[name].value == name


def _plan(repo: Repo, name: str) -> None:
    state = repo.session("s")
    state.memory.plan([name, {"id": f"2{name}", "text": f"{name} again"}])
    state.commit()


def _event(repo: Repo, name: str) -> None:
    state = repo.session("s")
    state.events.append(name, agent=name, text=name)
    state.commit()
    assert [event.kind for event in state.events] == [name]


def _machine(repo: Repo, name: str) -> None:
    state = repo.session("s")
    state.lifecycle(_chart("m", "a", "go"), name=name)
    state.commit()


def _view(repo: Repo, name: str) -> None:
    state = repo.session("s")
    state[("x",)] = {name: name}
    state.commit(name)
    assert isinstance(str(view(state)), str)


KEPT: dict[str, Callable[[Repo, str], None]] = {
    "session": _session, "branch": _branch, "tag": _tag, "key": _key, "path": _path,
    "commit": _commit, "author": _author, "revision": _revision, "policy": _policy,
    "thread": _thread, "search": _search, "note": _note, "plan": _plan, "event": _event,
    "machine": _machine, "view": _view,
}  # fmt: skip


@each_name
@pytest.mark.parametrize("place", KEPT)
def test_a_name_is_kept_as_it_is_or_refused(place, name):
    modules = set(sys.modules)
    outcome(KEPT[place], Repo(MemoryStore(), author="test"), name)
    assert not {"antigravity", "this"} & (set(sys.modules) - modules)


@pytest.mark.parametrize("place", KEPT)
def test_most_names_are_no_harm_to_anybody(place):
    """So that the table above cannot be all refusals because a verb was renamed."""
    assert outcome(KEPT[place], Repo(MemoryStore(), author="test"), "main-2") in (
        "ok",
        "ref_not_found",
    )


# ---------------------------------------------------------------- in a file system


@each_name
@pytest.mark.parametrize("part", ["session", "branch"])
def test_a_folder_of_any_name_is_one_folder_below(tmp_path: Path, name, part):
    if name == LONE_SURROGATE:
        pytest.skip("no ref can be called so")
    found = branch_folder(Path("below"), name or "x").name
    assert Path(found).name == found
    assert found not in ("", ".", "..")
    assert len(found.encode()) < 256
    (tmp_path / found).mkdir()
    assert (tmp_path / found).resolve().parent == tmp_path.resolve()


def test_two_names_never_share_a_folder():
    names = [name for name in NASTY_NAMES.values() if name]
    assert len({branch_folder(Path("below"), name).name.lower() for name in names}) == len(names)


# ---------------------------------------------------------------- looked up


@each_name
def test_the_name_of_a_class_finds_none_and_imports_nothing(name):
    modules = set(sys.modules)
    for written in (name, f"{name}:x", f"otolith:{name}", f"os:{name}", f"antigravity:{name}"):
        with pytest.raises(UnknownType):
            Codecs().find(written)
    assert set(sys.modules) == modules


# ---------------------------------------------------------------- drawn


def _chart(name: str, state: str, event: str) -> Chart:
    return Chart.from_data(
        {
            "id": name,
            "initial": state,
            "description": name,
            "states": {
                state: {
                    "id": state,
                    "on": {event: {"target": "#end", "actions": [event]}},
                    "description": event,
                    "entry": [event],
                    "tags": [event],
                },
                "other": {"id": "end"},
            },
        }
    )


@each_name
@pytest.mark.parametrize("form", ["to_mermaid", "to_dot", "to_scxml", "to_xstate"])
def test_a_chart_of_any_names_is_drawn_without_letting_them_out(form, name):
    def draw() -> None:
        drawn = getattr(_chart(name, name, name), form)()
        text = drawn if isinstance(drawn, str) else json.dumps(drawn)
        if form == "to_dot":
            assert _unquoted_braces(text) == 0
        if form == "to_mermaid":
            assert "<script" not in text
            assert len(text.splitlines()) == len(
                _chart("m", "s", "e").to_mermaid().splitlines()
            ) or name in ("", "\n")
        if form == "to_scxml":
            assert "<script>alert" not in text
            assert Chart.from_scxml(text).hash

    outcome(draw)


def _unquoted_braces(text: str) -> int:
    """Return how many braces are open at the end, not counting those in quotes."""
    depth, quoted, escaped = 0, False, False
    for sign in text:
        if escaped:
            escaped = False
        elif sign == "\\":
            escaped = quoted
        elif sign == '"':
            quoted = not quoted
        elif not quoted:
            depth += (sign == "{") - (sign == "}")
    return depth + (1 if quoted else 0)


# ---------------------------------------------------------------- in a terminal


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A store in which every name that can be is one of the list."""
    file = tmp_path_factory.mktemp("names") / "a.db"
    with Versioned(Disk(file), session="s", author="\x1b[31mme\u202e") as state:
        state["quiet"] = 1
        for name in NASTY_NAMES.values():
            state[("names", name)] = {name: name, "lines": f"{name}\n{name}"}
            state.commit(f"{name}\n\n{name}", meta={name: name})
            for put in (
                lambda name=name: state.memory.note(name, name),
                lambda name=name: state.events.append(name, agent=name, text=name),
                lambda name=name: state.conversation.user(name),
                lambda name=name: state.fork(name),
                lambda name=name: state.repo.tag(name, str(state.head and state.head.id)),
            ):
                outcome(put)
        state.memory.plan([name for name in NASTY_NAMES.values() if name])
        state.commit("all")
        for name in NASTY_NAMES.values():
            outcome(_session, state.repo, name)
    return file


VERBS: list[list[str]] = [
    ["log"], ["log", "--oneline"], ["log", "--graph"], ["show"], ["show", "@~1"], ["ls"],
    ["ls", "-l"], ["diff", "@~3", "@"], ["diff", "--stat", "@~3", "@"], ["blame"], ["sessions"],
    ["status"], ["stats"], ["branch"], ["tag"], ["chat", "show"], ["chat", "threads"], ["memory"],
    ["chat", "search", "x"], ["chat", "topics"], ["events"], ["effects"], ["fsck"],
    ["log", "--json"], ["sessions", "--json"], ["show", "--json"], ["ls", "--json"],
]  # fmt: skip


@pytest.mark.parametrize("words", VERBS, ids=" ".join)
def test_no_verb_lets_a_name_out(store, words):
    before = ["--color", "never", "--store", str(store), "-s", "s"]
    result = CliRunner().invoke(program, [*before, *words])
    assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
    assert result.output
    assert is_harmless(result.output)


@pytest.fixture(scope="module")
def team_store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A store with a team in which every name that can be is one of the list."""
    file = tmp_path_factory.mktemp("team") / "a.db"
    with Repo(Disk(file)) as repo, ExitStack() as leases:
        team = repo.team("r", member="ann")
        team.transact(lambda state: state.update(x=0))
        for at, name in enumerate(NASTY_NAMES.values()):
            team.state["n", name] = name
            team.state.commit()
            for put in (
                lambda name=name: team.add(name, role=name),
                lambda name=name: leases.enter_context(team.lease(name)),
                lambda name=name: leases.enter_context(team.queue(name)),
                lambda at=at, name=name: team.propose(name, lambda state: state.update(x=at)),
                lambda name=name: team.send("ann", {name: name}),
                lambda name=name: team.session(name),
                lambda name=name: team.handoff(name, to=name, note=name),
            ):
                outcome(put)
            idea = repo.team("r", member="ann").state.fork(f"idea{at}")
            idea["n", name] = f"theirs {name}"
            idea.commit(name)
            team.state["n", name] = f"ours {name}"
            team.state.commit()
            team.merge(idea)
        yield file


TEAM_VERBS: list[list[str]] = [
    ["show"], ["members"], ["leases"], ["queues"], ["sessions"], ["proposals"], ["inbox"],
    ["messages", "--keep"], ["watch", "--since", "@~90", "-n", "9"],
    ["show", "--json"], ["inbox", "--json"], ["watch", "--since", "@~90", "-n", "9", "--json"],
]  # fmt: skip


@pytest.mark.parametrize("words", TEAM_VERBS, ids=" ".join)
def test_no_verb_of_a_team_lets_a_name_out(team_store, words):
    before = ["--color", "never", "--store", str(team_store), "--as", "ann", "team"]
    result = CliRunner().invoke(program, [*before, *words])
    assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
    assert result.exit_code == 0, result.output
    assert result.output
    assert is_harmless(result.output)


@pytest.mark.parametrize(
    "words",
    ["show", "watch -n 0", "queue", "proposal", "add", "remove", "handoff --to ann", "merge"],
)
def test_no_argument_of_a_team_lets_a_name_out(team_store, tmp_path, words):
    copy = shutil.copytree(team_store.parent, tmp_path / "copy") / team_store.name
    before = ["--color", "never", "--store", str(copy), "--as", "ann", "team", *words.split()]
    for name in NAMES.values():
        result = CliRunner().invoke(program, [*before, "--", name])
        assert result.exception is None or isinstance(result.exception, SystemExit), name
        assert is_harmless(result.output), name


@each_name
@pytest.mark.parametrize("words", [["show"], ["ls"], ["-s"]], ids=" ".join)
def test_no_argument_lets_a_name_out(store, words, name):
    before = ["--color", "never", "--store", str(store)]
    given = ["-s", name, "log"] if words == ["-s"] else [*words, "--", name]
    result = CliRunner().invoke(program, [*before, *given])
    assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
    assert is_harmless(result.output)


# ---------------------------------------------------------------- as refs of a store


@pytest.mark.parametrize(
    "ref",
    [
        *[form.format(name) for name in NASTY_NAMES.values() if len(name) < 500 and "{" not in name
          for form in ("{}", "session/{}", "session/{}/main", "session/a/{}", "tag/{}",
                       "user/{}/main", "stage/{}/main", "session/{0}/{0}")],
        "session", "session/", "session//", "session//main", "tag", "tag/", "/", "session/%/main",
        "session/%ff/main", "session/%00/main", ".config/x", "user/a", "app/%2e%2e/main",
    ],
    ids=str.encode,
)  # fmt: skip
def test_a_ref_of_any_form_in_a_store_is_listed_or_passed_over(ref):
    store = MemoryStore()
    repo = Repo(store, author="test")
    state = repo.session("good")
    state["x"] = 1
    commit = state.commit()
    outcome(store.write, Batch(swaps=[Swap(ref, None, commit.hash)]))
    fresh = Repo(store, author="test")
    assert "good" in [session.id for session in fresh.sessions()]
    assert all(outcome(fresh.session, session.id) == "ok" for session in fresh.sessions())
    for call in (
        fresh.tags,
        lambda: [fresh.session(each.id).get("x") for each in fresh.sessions()],
        lambda: [fresh.branches(each.id) for each in fresh.sessions()],
        lambda: fresh.session("good").at(ref),
        lambda: list(fresh.session("good").log()),
    ):
        outcome(call)
