"""`otolith team`: what members see of each other and do together, from a terminal."""

from __future__ import annotations

import json
from decimal import Decimal
from typing import Any

import pytest
from click.testing import CliRunner, Result

import otolith
from otolith.cli import program
from otolith.errors import Denied


@pytest.fixture
def place(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("OTOLITH_MEMBER", raising=False)
    with otolith.open("a.db") as repo:
        ann = repo.team("research", member="ann")
        ann.transact(lambda state: state.update(plan="A", budget=100), "begin")
        for name in ("bob", "cy"):
            ann.add(name, role="critic" if name == "bob" else None)
    return tmp_path


def run(*words: str, member: str | None = None, **environment: str) -> Result:
    before = ["--store", "a.db"] + ([] if member is None else ["--as", member])
    return CliRunner().invoke(program, [*before, *words], env=environment)


def done(*words: str, member: str | None = None) -> str:
    result = run(*words, member=member)
    assert result.exit_code == 0, (words, result.output)
    return result.stdout


def data(*words: str, member: str | None = None) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(done(*words, "--json", member=member))
    return found


def refused(*words: str, code: int, member: str | None = None) -> str:
    """Return the error and the hint of a command that is refused."""
    result = run(*words, member=member)
    assert (result.exit_code, result.stdout) == (code, ""), (words, result.output)
    return result.stderr


def state() -> dict[str, Any]:
    """Return what the team shares now."""
    with otolith.open("a.db") as repo:
        found: dict[str, Any] = repo.team("research").state.to_dict()
        return found


# ---------------------------------------------------------------- which team, and who acts


def test_the_only_team_of_a_store_needs_no_name(place):
    assert done("team", "show") == done("team", "show", "research")
    assert done("team", "show") == done("--team", "research", "team", "show")
    assert done("team", "show") == done("team", "show", "--team", "research")


def test_one_of_several_teams_is_chosen(place):
    done("team", "add", "zoe", "--team", "design", member="zoe")
    told = refused("team", "show", code=2)
    assert "the store has 2 teams: design, research" in told
    assert "hint: choose one: `--team ID`" in told
    assert "Team design: 1 member" in done("team", "show", "design")


@pytest.mark.parametrize("words", [["team", "show", "researhc"], ["--team", "researhc", "log"]])
def test_a_mistyped_team_is_told_and_not_begun(place, words):
    told = refused(*words, code=3)
    assert "there is no team researhc" in told
    for writes in (["set", "x", "1"], ["team", "send", "ann", "x"], ["team", "remove", "ann"]):
        assert refused("--team", "researhc", *writes, code=3, member="ann")
    assert [each["id"] for each in data("teams")["teams"]] == ["research"]


WRITES = [
    "team add dora", "team remove bob", "team propose t --set plan=B", "team approve t",
    "team reject t", "team withdraw t", "team merge main", "team resolve plan --take ours",
    "team send bob hi", "team messages", "team handoff trip --to bob",
    "--team research set plan B", "--team research rm plan", "--team research commit -m x",
    "--team research undo", "--team research rollback @~1", "--team research merge main",
    "--team research branch idea", "--team research tag v1",
]  # fmt: skip


@pytest.mark.parametrize("words", WRITES)
def test_what_writes_needs_a_member_who_is_one(place, words):
    told = refused(*words.split(), code=2)
    assert "which member acts?" in told
    assert "--as MEMBER, or set $OTOLITH_MEMBER" in told
    told = refused(*words.split(), code=3, member="bo")
    assert "team research has no member bo\nhint: did you mean bob?" in told
    assert [each["name"] for each in data("team", "members")["members"]] == ["ann", "bob", "cy"]


def test_the_member_is_named_before_a_command_or_after_it_or_by_a_variable(place):
    done("team", "send", "cy", "1", member="ann")
    done("team", "send", "cy", "2", "--as", "ann")
    assert run("team", "send", "cy", "3", OTOLITH_MEMBER="bob").exit_code == 0
    assert run("team", "send", "cy", "4", "--as", "ann", OTOLITH_MEMBER="bob").exit_code == 0
    assert run("team", "send", "cy", "5", OTOLITH_MEMBER="").exit_code == 2
    assert "named twice" in refused("team", "send", "cy", "6", "--as", "bob", code=2, member="ann")
    found = data("team", "messages", member="cy")["messages"]
    assert [(each["sender"], each["body"]) for each in found] == [
        ("ann", 1),
        ("ann", 2),
        ("bob", 3),
        ("ann", 4),
    ]


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["-s", "trip", "team", "show"], "on a team, not on a session"),
        (["--user", "ann", "team", "show"], "on a team, not on a user"),
        (["-b", "idea", "team", "show"], "on the branch main of a team"),
        (["--team", "research", "team", "show", "other"], "are both named"),
        (["--team", "research", "--user", "ann", "log"], "are both named"),
        (["--team", "research", "exec", "-c", "1"], "on sessions, not on a team"),
        (["-s", "trip", "--as", "ann", "set", "x", "1"], "--as names a member of a team"),
    ],
)
def test_what_does_not_fit_a_team_is_refused(place, words, told):
    assert told in refused(*words, code=2)


def test_a_team_is_begun_and_joined_by_adding_oneself(place):
    begun = done("team", "add", "zoe", "--team", "design", "--role", "person", "--as", "zoe")
    assert begun == "Team design begins.\nzoe is a member now, as person.\n"
    assert done("team", "add", "yan", "--team", "design", "--as", "yan") == "yan is a member now.\n"
    again = done("team", "add", "zoe", "--team", "design", "--role", "lead", "--as", "yan")
    assert again == "zoe is a member already, as lead.\n"
    none = done("team", "add", "zoe", "--team", "design", "--role", "", "--as", "yan")
    assert none == "zoe is a member already, without a role.\n"
    assert "has no member xi" in refused(
        "team", "add", "wim", "--team", "design", code=3, member="xi"
    )


def test_two_begin_a_team_when_one_adds_another(place):
    done("team", "add", "yan", "--team", "design", "--as", "zoe")
    found = data("team", "members", "design")["members"]
    assert [each["name"] for each in found] == ["yan", "zoe"]


def test_a_removed_member_acts_no_more_until_it_is_taken_back(place):
    done("team", "remove", "bob", member="ann")
    assert "has no member bob" in refused("team", "send", "ann", "hi", code=3, member="bob")
    assert "no member 'bob'" in refused("team", "remove", "bob", code=3, member="ann")
    done("team", "add", "bob", member="ann")
    done("team", "send", "ann", "hi", member="bob")


# ---------------------------------------------------------------- the state of a team


def test_the_commands_on_a_state_work_on_that_of_a_team_as_the_member(place):
    done("--team", "research", "set", "plan", "B", member="bob")
    assert '+ "B"' in done("--team", "research", "diff")
    assert "Team research, branch main" in done("--team", "research", "status")
    assert data("--team", "research", "status")["team"] == "research"
    done("--team", "research", "commit", "-m", "chose", member="bob")
    (last,) = data("--team", "research", "log", "-n", "1")["commits"]
    assert (last["author"], last["message"]) == ("bob", "chose")
    assert done("--team", "research", "cat", "plan") == "B\n"
    assert "bob" in done("--team", "research", "blame", "plan")
    done("--team", "research", "undo", member="bob")
    assert done("--team", "research", "cat", "plan") == "A\n"


@pytest.mark.parametrize("words", [["commit", "-m", "x"], ["merge", "other"]])
def test_the_author_of_a_commit_to_a_team_is_the_member(place, words):
    done("--team", "research", "branch", "other", member="bob")
    done("--team", "research", "set", "plan", "B", member="bob")
    if words[0] == "merge":
        done("--team", "research", "commit", "-m", "x", member="bob")
    told = refused("--team", "research", *words, "--author", "zed", code=2, member="bob")
    assert "--author does not apply to a team" in told


def test_a_branch_of_a_team_is_worked_on_by_name(place):
    made = done("--team", "research", "branch", "idea", member="bob")
    assert "`otolith --team research -b idea …` works on it." in made
    done("--team", "research", "-b", "idea", "set", "plan", "C", member="bob")
    done("--team", "research", "-b", "idea", "commit", "-m", "an idea", member="bob")
    (last,) = data("--team", "research", "-b", "idea", "log", "-n", "1")["commits"]
    assert last["author"] == "bob"
    assert done("--team", "research", "cat", "idea:plan") == "C\n"
    assert done("--team", "research", "cat", "plan") == "A\n"


def test_teams_are_listed_and_counted(place):
    listed = data("teams")["teams"]
    assert [(each["id"], each["branches"]) for each in listed] == [("research", ["main"])]
    assert done("teams").startswith("research  1 branch")
    stats = data("--team", "research", "stats")
    assert (stats["sessions"], stats["teams"], stats["branches"]) == (0, 1, 1)
    assert stats["commits"] == len(data("--team", "research", "log")["commits"])
    assert {each["path"] for each in stats["largest"]} == {"plan", "budget"}


# ---------------------------------------------------------------- looking


def test_one_page_shows_what_a_team_shares(place):
    with otolith.open("a.db") as repo:
        ann = repo.team("research", member="ann")
        ann.transact(lambda state: state.update(long=["x" * 1000] * 9))
        ann.propose("plan B", lambda state: state.update(plan="B"), quorum=2).approve()
        with ann, ann.lease("browser"), ann.queue("gpu", slots=2):
            page = done("team", "show")
            found = data("team", "show")
    assert "Team research: 3 members, 1 present" in page
    for line in ("ann", "bob     critic", "browser  ann", "gpu    1 of 2  ann", "plan B"):
        assert f"\n{line}" in page or f"  {line}" in page, (line, page)
    assert "1 of 2" in page
    assert "list, 9.0 kB" in page
    assert "x" * 30 not in page
    assert set(found) == {
        "team", "head", "members", "values", "leases", "queues", "proposals", "inbox",
    }  # fmt: skip
    assert [each["is_present"] for each in found["members"]] == [True, False, False]
    assert {each["path"] for each in found["values"]} == {"plan", "budget", "long"}
    assert found["queues"][0]["used"][0]["member"] == "ann"
    assert (found["leases"][0]["name"], found["inbox"]) == ("browser", 0)


def test_a_page_lists_the_first_of_many(place):
    with otolith.open("a.db") as repo:
        ann = repo.team("research", member="ann")
        ann.transact(lambda state: state.update({f"key {n:03}": n for n in range(50)}))
    page = done("team", "show")
    assert "key 000" in page
    assert "key 040" not in page
    assert "… `otolith --team research ls -l` lists all" in page


def test_leases_and_queues_are_listed(place):
    assert done("team", "leases") == "Nobody has a lease.\n"
    assert done("team", "queues") == "Nobody has asked for a queue.\n"
    with otolith.open("a.db") as repo:
        ann = repo.team("research", member="ann")
        with ann.lease("browser", ttl="90s"), ann.queue("gpu") as slot:
            (lease,) = data("team", "leases")["leases"]
            assert (lease["name"], lease["member"], lease["ttl_seconds"]) == ("browser", "ann", 90)
            assert done("team", "leases").splitlines()[1].split()[:2] == ["browser", "ann"]
            gpu = data("team", "queue", "gpu")
            assert gpu["used"] == [
                {"index": 0, "member": "ann", "token": slot.token, "since": slot.since}
            ]
            assert (gpu["slots"], gpu["waiting"]) == (1, [])
            shown = done("team", "queue", "gpu").splitlines()
            assert shown[0] == "Queue gpu: 1 of 1 slot used, 0 requests wait"
            assert shown[1].startswith("  slot 0  ann  since 20")
    assert "0 of 1" in done("team", "queues")
    told = refused("team", "queue", "gpus", code=3)
    assert "team research has no queue gpus\nhint: the queues are: gpu" in told


# ---------------------------------------------------------------- proposals


def test_a_proposal_lands_with_the_votes_of_a_terminal(place):
    words = ["--set", "plan=B", "--set", 'more={"a": [1]}', "--rm", "budget"]
    made = done("team", "propose", "plan B", *words, "--quorum", "2", member="ann")
    assert "open, 0 of 2 approvals" in made
    assert '~ plan\n    - "A"\n    + "B"' in made
    (listed,) = data("team", "proposals")["proposals"]
    done("team", "approve", listed["id"][:5], "--why", "cheaper", member="bob")
    shown = done("team", "proposal", "plan B")
    assert "approves" in shown
    assert "cheaper" in shown
    landed = done("team", "approve", "plan B", member="cy")
    assert "landed, 2 of 2 approvals" in landed
    assert "Landed" in landed
    assert state() == {"plan": "B", "more": {"a": [1]}}
    assert done("team", "proposals") == "No open proposals.\n"
    found = data("team", "proposal", "plan B")
    assert {each["path"] for each in found["changes"]} == {"plan", "more", "budget"}
    assert (found["status"], found["landing"]["author"]) == ("landed", "cy")
    assert [each["status"] for each in data("team", "proposals", "--all")["proposals"]] == [
        "landed"
    ]


def test_a_branch_is_proposed(place):
    done("--team", "research", "branch", "idea", member="ann")
    done("--team", "research", "-b", "idea", "set", "plan", "C", member="ann")
    done("--team", "research", "-b", "idea", "commit", "-m", "idea", member="ann")
    found = data("team", "propose", "C", "--branch", "idea", "--of", "bob", member="ann")
    assert (found["voters"], found["needed"], found["by"]) == (["bob"], 1, "ann")
    assert [(each["path"], each["new"]) for each in found["changes"]] == [("plan", "C")]
    assert "ann may not vote" in refused("team", "approve", "C", code=4, member="ann")
    done("team", "approve", "C", member="bob")
    assert state()["plan"] == "C"
    assert "did you mean idea?" in refused(
        "team", "propose", "t", "--branch", "ide", code=3, member="ann"
    )


def test_what_has_expired_is_not_withdrawn(place):
    made = data("team", "propose", "B", "--set", "x=1", "--until", "1us", member="ann")
    assert "is expired" in refused("team", "withdraw", "B", code=2, member="ann")
    assert data("team", "proposal", made["id"])["status"] == "expired"


def test_what_has_several_lines_is_one_row_of_a_table(place):
    done("team", "propose", "a\nb", "--set", "x=1", "--until", "2h", member="ann")
    heading, row = done("team", "proposals").splitlines()
    assert row.index("a\\nb") == heading.index("title")


def test_rejecting_withdrawing_and_vetoes(place):
    for title in ("one", "two", "three"):
        done("team", "propose", title, "--set", f"x={title}", "--veto", "cy", member="ann")
    done("team", "reject", "one", member="ann")
    assert "rejected" in done("team", "reject", "one", "--why", "no", member="bob")
    assert "vetoed" in done("team", "reject", "two", member="cy")
    assert "ann made proposal" in refused("team", "withdraw", "three", code=4, member="bob")
    assert "withdrawn" in done("team", "withdraw", "three", "--why", "too early", member="ann")
    told = refused("team", "approve", "one", code=2, member="cy")
    assert "is rejected" in told
    assert "hint: `otolith team proposals` lists those that are open" in told
    assert "x" not in state()


def test_a_session_is_worked_on_as_the_member_that_it_was_handed_to(place):
    done("-s", "report", "set", "title", "Draft")
    done("team", "handoff", "report", "--to", "bob", member="ann")
    assert "no team works on session other" in refused(
        "-s", "other", "set", "x", "1", code=2, member="bob"
    )
    denied = refused("-s", "report", "set", "title", "Mine", code=4, member="ann")
    assert "bob works on session report" in denied
    assert "did you mean bob?" in refused("-s", "report", "set", "x", "1", code=3, member="bo")
    done("-s", "report", "set", "pages", "3", member="bob")
    assert "[main" in done("-s", "report", "commit", "-m", "goes on", member="bob")
    assert "goes on" in done("-s", "report", "log", member="bob")
    with otolith.open("a.db") as repo:
        report = repo.session("report")
        assert report.to_dict() == {"title": "Draft", "pages": 3}
        assert [each.author for each in report.log()] == ["bob"]
    done("team", "handoff", "report", "--to", "ann", member="bob")
    refused("-s", "report", "set", "pages", "4", code=4, member="bob")


def test_a_session_of_one_of_several_teams(place):
    done("team", "add", "bob", "--team", "design", "--as", "bob")
    done("-s", "report", "set", "title", "Draft")
    done("--team", "design", "team", "handoff", "report", "--to", "bob", member="bob")
    done("-s", "report", "commit", "-m", "mine", member="bob")
    done("--team", "research", "team", "handoff", "report", "--to", "bob", member="ann")
    told = refused("-s", "report", "set", "x", "1", code=2, member="bob")
    assert "teams design, research work on session report" in told


def test_a_value_is_read_from_standard_input_as_by_set(place):
    for words in (["send", "bob", "-"], ["propose", "B", "--set", "plan=-"]):
        typed = ["--store", "a.db", "--as", "ann", "team", *words]
        assert CliRunner().invoke(program, typed, input='{"a": 1}').exit_code == 0
    assert data("team", "messages", member="bob")["messages"][0]["body"] == {"a": 1}
    assert data("team", "proposal", "B")["changes"][0]["new"] == {"a": 1}


def test_hints_name_what_they_are_about(place):
    made = data("team", "propose", "B", "--set", "plan=B", member="ann")
    told = refused("team", "withdraw", "B", code=4, member="bob")
    assert f"`otolith team reject {made['id']}`" in told
    told = refused("team", "propose", "t", "--branch", "xyz", code=3, member="ann")
    assert "`otolith --team research branch` lists them" in told


def test_what_is_empty_does_not_count_as_left_out(place):
    done("team", "propose", "B", "--set", "plan=B", "--quorum", "1", member="ann")
    for word in ("approve", "reject"):
        assert "--effect is empty" in refused(
            "team", word, "B", "--effect", "", code=2, member="ann"
        )
    for words in (["--as", "", "team", "approve", "B"], ["team", "approve", "B", "--as", ""]):
        result = run(*words, OTOLITH_MEMBER="ann")
        assert (result.exit_code, "which member acts?" in result.stderr) == (2, True)
    assert state()["plan"] == "A"


def test_a_veto_of_one_who_does_not_vote(place):
    words = ["--set", "x=1", "--quorum", "1", "--of", "ann", "--veto", "bob"]
    shown = done("team", "propose", "B", *words, member="ann")
    assert "bob (veto)  no vote" in shown
    assert "vetoed" in done("team", "reject", "B", member="bob")
    assert "x" not in state()


def test_an_effect_that_has_changed_is_not_voted_for(place):
    done("team", "propose", "B", "--set", "plan=B", "--quorum", "2", member="ann")
    shown = data("team", "proposal", "B")
    done("team", "approve", "B", "--effect", shown["effect"][:8], member="ann")
    done("--team", "research", "set", "plan", "B", member="bob")
    done("--team", "research", "commit", "-m", "meanwhile", member="bob")
    told = refused("team", "approve", "B", "--effect", shown["effect"][:8], code=1, member="cy")
    assert "would change something else now" in told
    assert f"`otolith team proposal {shown['id']}`" in told
    told = refused("team", "approve", "B", "--effect", shown["effect"][:8], code=1, member="cy")
    assert "has another effect now" in told
    found = data("team", "proposal", "B")
    assert (found["lapsed"], found["votes"], found["changes"]) == (1, [], [])
    assert "1 vote has lapsed" in done("team", "proposal", "B")


def test_a_proposal_that_cannot_land_shows_the_conflict(place):
    done("team", "propose", "B", "--set", "plan=B", member="ann")
    done("--team", "research", "set", "plan", "Z", member="bob")
    done("--team", "research", "commit", "-m", "meanwhile", member="bob")
    refused("team", "approve", "B", code=1, member="ann")
    told = refused("team", "approve", "B", code=1, member="ann")
    assert "hint: withdraw it, and propose a change of what is there now" in told
    assert "It cannot land: others have changed\n! plan  edit/edit" in done("team", "proposal", "B")
    assert [each["path"] for each in data("team", "proposal", "B")["conflicts"]] == ["plan"]


def test_two_proposals_of_one_title_are_told_apart_by_id(place):
    for value in "BC":
        done("team", "propose", "plan", "--set", f"plan={value}", member="ann")
    told = refused("team", "approve", "plan", code=3, member="ann")
    first, second = (each["id"] for each in data("team", "proposals")["proposals"])
    assert f"2 proposals are called 'plan'\nhint: name one by its id: {first}, {second}" in told
    done("team", "withdraw", first, member="ann")
    assert data("team", "proposal", "plan")["id"] == second


@pytest.mark.parametrize(
    ("words", "code", "told"),
    [
        (["t"], 2, "say what would change"),
        (["t", "--set", "plan"], 2, "write --set PATH=VALUE"),
        (["t", "--set", "plan=B", "--branch", "main"], 2, "omit --set and --rm, or --branch"),
        (["t", "--set", "plan=A"], 2, "propose another value than the one that is there"),
        (["t", "--rm", "nothing"], 3, "`otolith --team research ls` lists the names"),
        (["t", "--set", ".team/x=1"], 2, "without a dot in front"),
        (["t", "--set", "plan=B", "--quorum", "9"], 2, "a number from 1 to 3"),
        (["t", "--set", "plan=B", "--quorum", "most"], 2, "got 'most'"),
        (["t", "--set", "plan=B", "--of", "zed"], 3, "`otolith team add zed` adds one"),
        (["t", "--set", "plan=B", "--until", "soon"], 2, "got 'soon'"),
        ([" ", "--set", "plan=B"], 2, "say what it would change"),
        (["t", "--set", 'x={"$type": "no"}'], 2, "cannot be written from a terminal"),
    ],
)
def test_a_proposal_that_makes_no_sense_is_refused(place, words, code, told):
    assert told in refused("team", "propose", *words, code=code, member="ann")
    assert done("team", "proposals", "--all") == "No proposals.\n"


# ---------------------------------------------------------------- conflicts


@pytest.fixture
def torn(place):
    """A branch that contradicts the team."""
    with otolith.open("a.db") as repo:
        bob = repo.team("research", member="bob")
        idea = bob.state.fork("idea")
        idea.update(plan="C", more=1)
        del idea["budget"]
        idea.commit("an idea")
        ann = repo.team("research", member="ann")
        ann.transact(lambda state: state.update(plan="B", budget=50), "refined")
    return place


def test_conflicts_of_a_merge_wait_in_the_inbox_until_they_are_decided(torn):
    merged = done("team", "merge", "idea", member="cy")
    assert "2 conflicts for the inbox:" in merged
    shown = done("team", "inbox")
    assert shown in merged
    assert '    base         "A"\n    ours    ann  "B"\n    theirs  bob  "C"\n' in shown
    assert "    theirs  bob  absent\n" in shown
    assert "2 conflicts to decide: `otolith team inbox`" in done("team", "show")

    left = done("team", "resolve", "plan", "--take", "theirs", member="cy")
    assert left == "plan is decided; 1 conflict left: `otolith team inbox`.\n"
    (last,) = data("team", "inbox")["inbox"]
    assert (last["path"], last["ours"], last["theirs"]) == ("budget", 50, None)
    assert (last["absent"], last["our_author"]) == (["theirs"], "ann")
    value = '{"$type": "decimal", "value": "7.5"}'
    done("team", "resolve", last["id"][:4], "--value", value, member="cy")
    assert done("team", "inbox") == "No conflicts.\n"
    assert state() == {"plan": "C", "budget": Decimal("7.5"), "more": 1}
    assert data("--team", "research", "log", "-n", "1")["commits"][0]["author"] == "cy"
    assert "Already merged" in done("team", "merge", "idea", member="cy")


def test_the_inbox_shows_a_value_that_was_changed_since(torn):
    done("team", "merge", "idea", member="cy")
    done("--team", "research", "set", "plan", "Z", member="ann")
    done("--team", "research", "rm", "budget", member="ann")
    done("--team", "research", "commit", "-m", "went on", member="ann")
    shown = done("team", "inbox")
    assert '    now          "Z"\n' in shown
    assert "    now          absent\n" in shown
    found = {each["path"]: each["now"] for each in data("team", "inbox")["inbox"]}
    assert found == {"plan": "Z", "budget": None}


@pytest.mark.parametrize(
    ("words", "code", "told"),
    [
        (["nothing", "--take", "ours"], 3, "`otolith team inbox` shows them"),
        (["plan"], 2, "give --take SIDE or --value VALUE"),
        (["plan", "--take", "ours", "--value", "1"], 2, "give --take SIDE or --value VALUE"),
        (["plan", "--take", "mine"], 2, "'mine' is not one of"),
    ],
)
def test_a_decision_that_makes_no_sense_is_refused(torn, words, code, told):
    done("team", "merge", "idea", member="cy")
    assert told in refused("team", "resolve", *words, code=code, member="cy")
    assert len(data("team", "inbox")["inbox"]) == 2


def test_conflicts_of_a_pull_go_to_the_inbox_by_the_command_that_is_printed(place):
    done("clone", "a.db", "copy")
    copy = str(place / "copy/.otolith/store.db")
    for store, value in ((copy, "B"), ("a.db", "C")):
        with otolith.open(store) as repo:
            ann = repo.team("research", member="ann")
            ann.state["plan"] = value
            ann.state.commit()
    pulled = run("pull", copy)
    assert pulled.exit_code == 1
    line = next(line for line in pulled.stdout.splitlines() if line.startswith("`otolith "))
    command = line.split("`")[1].removeprefix("otolith ").split()
    assert command[:4] == ["--team", "research", "team", "merge"]
    assert "1 conflict for the inbox" in done(*command, member="ann")
    assert "up to date" not in done("push", copy)
    with otolith.open(copy) as repo:
        assert repo.team("research").inbox["plan"].theirs == "B"


# ---------------------------------------------------------------- messages and sessions


def test_messages_are_read_once(place):
    done("team", "send", "bob", '{"please": "look"}', member="ann")
    done("team", "send", "*", "hello", member="cy")
    assert len(data("team", "messages", "--keep", member="bob")["messages"]) == 2
    shown = done("team", "messages", member="bob").splitlines()
    assert [line.split("  ", 1)[1] for line in shown] == ['ann  {please: "look"}', 'cy   "hello"']
    assert done("team", "messages", member="bob") == "No new messages.\n"
    assert "no member 'zed'" in refused("team", "send", "zed", "hi", code=3, member="ann")


def test_a_session_is_handed_over_with_what_is_staged_for_it(place):
    done("-s", "trip", "set", "from", "Rome")
    done("-s", "trip", "commit", "-m", "began")
    done("-s", "trip", "set", "to", "Oslo")
    given = done("team", "handoff", "trip", "--to", "bob", "--note", "book it", member="ann")
    assert given == "bob works on session trip now; its staged edits come along.\n"

    (owner,) = data("team", "sessions")["sessions"]
    assert (owner["owner"], owner["giver"], owner["note"]) == ("bob", "ann", "book it")
    (message,) = data("team", "messages", member="bob")["messages"]
    assert message["body"] == {"handoff": "trip", "note": "book it"}
    with otolith.open("a.db") as repo:
        theirs = repo.team("research", member="bob").session("trip")
        assert theirs.to_dict() == {"from": "Rome", "to": "Oslo"}
        assert [each.path for each in theirs.status()] == ["to"]
        assert theirs.commit("booked").author == "bob"
        with pytest.raises(Denied):
            repo.team("research", member="ann").session("trip")


def test_a_session_that_is_not_there_or_not_yours_is_not_handed_over(place):
    done("-s", "trip", "set", "x", "1")
    told = refused("team", "handoff", "tripp", "--to", "bob", code=3, member="ann")
    assert "there is no session tripp" in told
    assert "no member 'zed'" in refused(
        "team", "handoff", "trip", "--to", "zed", code=3, member="ann"
    )
    done("team", "handoff", "trip", "--to", "bob", member="ann")
    told = refused("team", "handoff", "trip", "--to", "cy", code=4, member="ann")
    assert "hint: bob can give it to you: `otolith team handoff trip --to MEMBER`" in told
    done("team", "handoff", "trip", "--to", "cy", member="bob")


# ---------------------------------------------------------------- watching


def test_a_watch_prints_a_line_for_each_change_after_a_commit(place):
    first = data("--team", "research", "log")["commits"][0]["id"]
    with otolith.open("a.db") as repo:
        bob = repo.team("research", member="bob")
        bob.transact(lambda state: state.update(plan="B", text="a\nb"))
        bob.transact(lambda state: state.pop("budget"))
    shown = done("team", "watch", "--since", first, "--limit", "3").splitlines()
    assert [line.split("  ", 1)[1] for line in shown] == [
        'bob  ~ plan  "A" -> "B"',
        'bob  + text  "a\\nb"',
        "bob  - budget  100",
    ]


def test_a_watch_goes_on_after_the_cursor_of_a_change(place):
    with otolith.open("a.db") as repo:
        bob = repo.team("research", member="bob")
        start = bob.state.resolve("@")
        bob.transact(lambda state: state.update(plan="B", tasks={"a": 1}))
        bob.transact(lambda state: state.update({"tasks/a": 2}))
    lines = done("team", "watch", "--since", start.id, "-n", "3", "--json").splitlines()
    first, second, third = map(json.loads, lines)
    assert (first["path"], first["old"], first["new"], first["by"]) == ("plan", "A", "B", "bob")
    assert (second["path"], second["kind"]) == ("tasks", "added")
    assert "old" not in second
    again = done("team", "watch", "--since", first["cursor"], "-n", "2", "--json").splitlines()
    assert list(map(json.loads, again)) == [second, third]


@pytest.mark.parametrize(
    ("words", "paths"),
    [
        ([], ["research/a", "tasks"]),
        (["research"], ["research/a", "tasks"]),
        (["tasks"], ["tasks"]),
        (["research/"], ["research/a"]),
        (["research", "tasks/"], ["tasks"]),
        (["--team", "research", "research"], ["research/a"]),
    ],
)
def test_a_word_of_a_watch_is_the_team_if_there_is_one_and_else_a_path(place, words, paths):
    with otolith.open("a.db") as repo:
        ann = repo.team("research", member="ann")
        ann.transact(lambda state: state.update(research={"a": 0}))
        start = ann.state.resolve("@")
        ann.transact(lambda state: state.update({"research/a": 1, "tasks": 2}))
    limit = str(len(paths))
    lines = done("team", "watch", *words, "--since", start.id, "-n", limit, "--json").splitlines()
    assert [json.loads(line)["path"] for line in lines] == paths


def test_a_watch_refuses_what_it_cannot_begin_at(place):
    assert "'nowhere'" in refused("team", "watch", "--since", "nowhere", code=3)
    assert "takes two" in refused("team", "watch", "a", "b", "c", code=2)
    assert done("team", "watch", "--limit", "0") == ""
