"""A text that several edit: its handle, and how it is staged, committed, merged and taken back."""

from __future__ import annotations

import os
import sys
import threading
from dataclasses import dataclass

import pytest

import otolith
from otolith import Disk, Live, Versioned, care
from otolith.codecs import Document
from otolith.errors import (
    BadPath,
    BadValue,
    Corrupt,
    Invalid,
    KeyNotFound,
    MergeConflict,
    MissingExtra,
    ReadOnly,
    SchemaMismatch,
)
from otolith.types import Tag


@dataclass
class Paper:
    report: Document
    title: str = ""


@pytest.fixture
def state():
    return Versioned()


@pytest.fixture
def report(state):
    """A text that is committed: "The cat sat."."""
    report = state.text("report")
    report.insert(0, "The cat sat.")
    state.commit("wrote")
    return report


# ---------------------------------------------------------------- the handle


@pytest.fixture(params=["versioned", "live"])
def any_text(request):
    return {"versioned": Versioned, "live": Live}[request.param]().text("notes/report")


def test_a_text_that_is_not_there_yet_is_empty(any_text):
    assert (str(any_text), len(any_text), any_text.value, bool(any_text)) == ("", 0, "", False)


def test_text_is_put_in_where_one_says(any_text):
    any_text.insert(0, "world")
    any_text.insert(0, "hello ")
    any_text.append("!")
    any_text.insert(-1, "?")
    any_text.insert(1000, " End.")

    assert str(any_text) == "hello world?! End."


def test_text_is_taken_out_and_replaced_like_a_slice(any_text):
    any_text.append("0123456789")
    any_text.delete(8)
    any_text.delete(-2, -1)
    any_text.delete(5, 2)
    any_text.replace(1, 3, "ab")
    any_text.replace(-1, None, "end")

    assert str(any_text) == "0ab345end"


def test_parts_of_a_text_are_read_like_those_of_a_str(any_text):
    any_text.append("a😀b")

    assert (any_text[1], any_text[-1], any_text[0:2], any_text[::-1]) == ("😀", "b", "a😀", "b😀a")
    assert "😀b" in any_text
    with pytest.raises(IndexError):
        any_text[3]


@pytest.mark.parametrize(
    "text", ["", "e\u0301 👩‍🚀 \u202e", "a\r\nb\rc\n", "\0", "\ufeff", "𝄞" * 300]
)
def test_any_text_comes_out_as_it_went_in(any_text, text):
    any_text.edit(text)

    assert (str(any_text), len(any_text)) == (text, len(text))


@pytest.mark.parametrize(
    "edit",
    [
        lambda text: text.insert(1, "x\ud800"),
        lambda text: text.append("\udfff"),
        lambda text: text.replace(0, 2, "\ud83d\ude00"),
        lambda text: text.edit("ab\ud800"),
    ],
)
def test_lone_surrogates_are_refused_and_nothing_is_edited(any_text, edit):
    any_text.append("ab")
    with pytest.raises(BadValue, match="notes/report: a text cannot hold lone surrogates"):
        edit(any_text)

    assert str(any_text) == "ab"


@pytest.mark.parametrize("part", [None, b"x", 1])
def test_a_text_is_edited_by_str(any_text, part):
    with pytest.raises(BadValue, match=f"edited by str, got {type(part).__name__}"):
        any_text.append(part)
    with pytest.raises(BadValue, match="notes/report"):
        any_text.insert(0, part)
    with pytest.raises(BadValue, match="edited by str"):
        any_text.edit(part)


@pytest.mark.parametrize(
    "edit",
    [
        lambda text: text.insert(1.5, "x"),
        lambda text: text.insert(None, "x"),
        lambda text: text.delete("a", "b"),
        lambda text: text.delete(0, 1.5),
        lambda text: text.replace("a", 2, "x"),
    ],
)
def test_a_position_is_a_whole_number(any_text, edit):
    any_text.append("ab")
    with pytest.raises(Invalid, match="notes/report: a position must be a whole number"):
        edit(any_text)
    assert str(any_text) == "ab"


def test_an_edit_replaces_only_the_words_that_differ(any_text):
    any_text.append("one two three\nfour five\n")
    any_text.edit("one 2 three\nfour five six\n")

    assert str(any_text) == "one 2 three\nfour five six\n"


@pytest.mark.parametrize("value", [1, "a str", ["a"], {"a": 1}, {1}])
def test_another_value_is_not_taken_for_a_document(state, value):
    state["report"] = value
    with pytest.raises(BadPath, match=r"report is a .*, not a document"):
        state.text("report")


def test_what_is_not_a_str_is_no_text_of_a_live_state():
    with pytest.raises(BadPath, match="report is a list, not a str"):
        Live({"report": []}).text("report")


def test_a_live_text_is_a_str_in_its_state():
    live = Live()
    live.text("report").append("ab")

    assert (live["report"], live.kind("report")) == ("ab", "str")


def test_a_name_that_belongs_to_otolith_has_no_text(state):
    with pytest.raises(BadPath):
        state.text(".secret")


def test_the_value_at_the_path_is_a_document(state, report):
    value = state["report"]

    assert isinstance(value, Document)
    assert (str(value), value.value, len(value)) == (str(report), str(report), len(report))
    assert (state.kind("report"), repr(value)) == ("document", "<Document 'The cat sat.'>")
    assert state.to_dict() == {"report": value}


def test_a_document_that_was_read_does_not_change(state, report):
    before = state["report"]
    report.append(" It left.")

    assert (str(before), str(state["report"])) == ("The cat sat.", "The cat sat. It left.")
    assert before != state["report"]


def test_a_document_can_be_put_at_another_path(state, report):
    state["copy"] = state["report"]
    state.text("copy").append(" Copied.")
    state.commit("copied")

    assert (str(report), str(state["copy"])) == ("The cat sat.", "The cat sat. Copied.")


def test_a_document_may_be_part_of_other_values(state, report):
    state["all"] = {"reports": [state["report"], 1]}
    state.commit("listed")
    state.text("all/reports/0").append(" Listed.")
    state.commit("edited")

    assert str(state.at("@")["all"]["reports"][0]) == "The cat sat. Listed."
    assert str(state["all/reports/0"]) == "The cat sat. Listed."


def test_two_handles_on_a_path_are_on_one_text(state, report):
    other = state.text("report")
    other.append(" Twice.")

    assert str(report) == "The cat sat. Twice."


def test_many_threads_edit_one_text(state, report):
    def write(letter):
        for _ in range(100):
            report.append(letter)

    threads = [threading.Thread(target=write, args=(letter,)) for letter in "abc"]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    state.commit("by all")

    assert sorted(str(state.at("@").text("report"))[12:]) == sorted("abc" * 100)


# ---------------------------------------------------------------- snapshots


def test_a_snapshot_reads_the_text_of_its_time(state, report):
    report.append(" It left.")
    state.commit("more")
    then = state.at("@~1").text("report")

    assert (str(then), then[4:7], len(then)) == ("The cat sat.", "cat", 12)
    assert str(state.at("@").text("report")) == "The cat sat. It left."


def test_a_text_that_was_not_there_is_empty_in_a_snapshot(state, report):
    assert str(state.at("@").text("later")) == ""


@pytest.mark.parametrize(
    "edit",
    [
        lambda text: text.insert(0, "x"),
        lambda text: text.delete(0),
        lambda text: text.edit("x"),
        lambda text: text.append("x"),
    ],
)
@pytest.mark.parametrize("path", ["report", "later"])
def test_a_snapshot_is_not_edited(state, report, edit, path):
    with pytest.raises(ReadOnly, match=f"{path}: a snapshot cannot be changed"):
        edit(state.at("@").text(path))


# ---------------------------------------------------------------- what a state notices


@pytest.mark.parametrize(
    "notices",
    [
        lambda state: not state.is_clean,
        lambda state: [change.path for change in state.status()] == ["report"],
        lambda state: str(state.diff()[0].new) == "The cat sat down.",
        lambda state: str(state["report"]) == "The cat sat down.",
        lambda state: str(state.to_dict()["report"]) == "The cat sat down.",
        lambda state: str(state.commit("more") and state.at("@")["report"]) == "The cat sat down.",
        lambda state: state.size("report") > 0 and not state.is_clean,
    ],
)
def test_edits_that_were_not_staged_are_noticed(state, report, notices):
    report.insert(11, " down")

    assert notices(state)


def test_an_edit_without_a_difference_is_none(state, report):
    report.edit(str(report))
    report.insert(3, "")
    report.delete(2, 2)

    assert state.is_clean


def test_a_new_text_is_there_before_it_is_committed(state):
    state.text("notes/new").edit("")

    assert ("notes/new" in state, list(state), state.is_clean) == (True, ["notes"], False)
    state.commit("empty")
    assert str(state.at("@")["notes/new"]) == ""


def test_edits_that_are_lost_are_warned_of(tmp_path):
    state = Versioned(Disk(tmp_path / "s.db"))
    text = state.text("report")
    text.append("x")
    state.commit("x")
    text.append("y")

    with pytest.warns(ResourceWarning, match="staged edits, which are lost: report"):
        state.close()


def test_a_schema_names_a_text_by_its_type():
    state = Versioned(schema=Paper)
    state.text("report").append("x")
    state["title"] = "X"
    state.commit("fits")
    with pytest.raises(SchemaMismatch, match="title does not fit"):
        state["title"] = state["report"]
    state.text("other").append("x")
    with pytest.raises(SchemaMismatch, match="other"):
        state.commit("has no such field")


def test_discarding_takes_the_text_back(state, report):
    report.append(" Unstaged.")
    state.discard()
    assert str(report) == "The cat sat."
    report.append(" Staged.")
    assert not state.is_clean
    state.discard()

    assert (str(report), state.is_clean) == ("The cat sat.", True)
    report.append(" It left.")
    state.commit("after")
    assert str(state.at("@")["report"]) == "The cat sat. It left."


def test_a_text_that_is_discarded_whole_is_empty_again(state):
    text = state.text("new")
    text.append("x")
    state.discard()

    assert ("new" in state, str(text)) == (False, "")
    text.append("y")
    state.commit("y")
    assert str(state.at("@")["new"]) == "y"


def test_a_rollback_takes_the_text_back_in_place(state, report):
    report.append(" It left.")
    state.commit("more")
    state.rollback()

    assert str(report) == "The cat sat."
    report.insert(0, "Then: ")
    state.commit("went on")
    assert [str(state.at(f"@~{n}")["report"]) for n in (0, 1, 2)] == [
        "Then: The cat sat.",
        "The cat sat.",
        "The cat sat. It left.",
    ]


def test_undo_and_redo_are_followed(state, report):
    report.append(" It left.")
    state.commit("more")
    state.undo()
    assert str(report) == "The cat sat."
    state.redo()
    assert str(report) == "The cat sat. It left."
    report.append(" Again.")
    state.commit("again")

    assert str(state.at("@")["report"]) == "The cat sat. It left. Again."


def test_a_rollback_with_discard_drops_edits(state, report):
    report.append(" It left.")
    state.commit("more")
    report.append(" Dropped.")
    state.rollback(discard=True)

    assert (str(report), state.is_clean) == ("The cat sat.", True)


def test_a_stash_has_the_edits(state, report):
    report.append(" Stashed.")
    state.stash()
    other = Versioned(state.repo)
    other.unstash()
    other.text("report").append(" Resumed.")
    other.commit("resumed")

    assert str(other.at("@")["report"]) == "The cat sat. Stashed. Resumed."


def test_a_transaction_that_fails_leaves_the_text(state, report):
    def edit(state):
        state.text("report").append(" Never.")
        raise ValueError("no")

    with pytest.raises(ValueError, match="no"):
        state.transact(edit)

    assert (str(report), state.is_clean) == ("The cat sat.", True)


def test_a_transaction_edits_what_others_committed(state, report):
    other = Versioned(state.repo)
    other.text("report").insert(0, "Yes: ")
    other.commit("other")
    state.transact(lambda state: state.text("report").append(" It left."))

    assert str(report) == "Yes: The cat sat. It left."


def test_edits_of_others_appear_in_place(state, report):
    other = Versioned(state.repo)
    other.text("report").insert(0, "Yes: ")
    other.commit("other")
    assert str(report) == "The cat sat."
    state.refresh()

    assert str(report) == "Yes: The cat sat."


def test_a_lost_race_merges_the_text(state, report):
    other = Versioned(state.repo)
    other.text("report").replace(4, 7, "dog")
    other.commit("other")
    report.append(" It left.")
    state.commit("mine")

    assert str(report) == "The dog sat. It left."
    assert str(state.at("@")["report"]) == str(report)


# ---------------------------------------------------------------- other values at the path


def test_a_str_that_is_assigned_takes_the_place_of_the_text(state, report):
    report.append(" Unstaged.")
    state["report"] = "plain"

    assert (state["report"], state.kind("report")) == ("plain", "str")
    with pytest.raises(BadPath, match="report is a str"):
        str(report)
    state.commit("plain")
    assert state.at("@")["report"] == "plain"


def test_a_text_that_is_removed_is_gone_and_may_begin_anew(state, report):
    report.append(" Unstaged.")
    del state["report"]
    assert ("report" in state, str(report)) == (False, "")
    report.append("New.")
    state.commit("new")

    assert str(state.at("@")["report"]) == "New."


def test_what_cannot_be_removed_leaves_edits(state, report):
    report.append(" It left.")
    with pytest.raises(KeyNotFound):
        del state["nothing"]

    assert str(state["report"]) == "The cat sat. It left."


def test_a_dict_above_that_is_assigned_takes_the_place_of_the_text(state):
    state.text("notes/a").append("x")
    state["notes"] = {"b": 1}
    state.commit("replaced")

    assert state.at("@").to_dict() == {"notes": {"b": 1}}


def test_what_the_program_put_into_a_dict_is_not_overwritten(state):
    text = state.text("notes/a")
    text.append("x")
    notes = state["notes"]
    notes["a"] = "by the program"
    state.commit("replaced")

    assert state.at("@")["notes"] == {"a": "by the program"}


def test_a_text_in_a_dict_that_was_read_is_edited_in_place(state):
    state.text("notes/a").append("x")
    notes = state["notes"]
    notes["b"] = 1
    state.text("notes/a").append("y")
    state.commit("both")

    assert (str(notes["a"]), notes["b"]) == ("xy", 1)
    assert str(state.at("@")["notes"]["a"]) == "xy"


def test_a_handle_that_writes_another_value_ends_the_text(state, report):
    state.map("notes")["a"] = state["report"]
    state.text("notes/a").append(" Unstaged.")
    state.map("notes")["a"] = 1

    assert state["notes"] == {"a": 1}


# ---------------------------------------------------------------- merges


def test_edits_inside_one_line_merge(state, report):
    fork = state.fork("fork")
    fork.text("report").replace(4, 7, "dog")
    fork.commit("dog")
    report.edit("The cat sat down.")
    state.commit("down")

    assert state.merge(fork).ok
    assert str(report) == "The dog sat down."


def test_two_texts_that_began_apart_become_one(state):
    state["x"] = 1
    state.commit("x")
    forks = [state.fork(name) for name in "ab"]
    for fork in forks:
        fork.text("report").append(f"By {fork.name}. ")
        fork.commit("began")
        state.merge(fork)

    assert sorted(str(state["report"]).split(". ")) == ["", "By a", "By b"]


def test_a_text_that_one_side_removed_is_a_conflict(state, report):
    fork = state.fork("fork")
    del fork["report"]
    fork.commit("removed")
    report.append(" It left.")
    state.commit("edited")
    (conflict,) = state.merge(fork).conflicts

    assert (conflict.path, conflict.kind, str(conflict.ours)) == (
        "report",
        "edit/delete",
        "The cat sat. It left.",
    )
    state.resolve_conflict("report", take="theirs")
    state.commit("gone")
    assert str(report) == ""


def test_a_conflict_is_settled_by_an_edit(state, report):
    fork = state.fork("fork")
    fork["report"] = "plain"
    fork.commit("plain")
    report.append(" It left.")
    state.commit("edited")
    state.merge(fork)
    report.append(" For good.")
    state.commit("settled")

    assert str(state.at("@")["report"]) == "The cat sat. It left. For good."


@pytest.mark.parametrize("policy", ["text", "append", "max", "set", "map", "error"])
def test_a_policy_that_is_not_of_documents_is_a_conflict(state, report, policy):
    state.policy("report", policy)
    state.commit("policy")
    fork = state.fork("fork")
    fork.text("report").append("a")
    fork.commit("a")
    report.append("b")
    state.commit("b")

    assert [each.path for each in state.merge(fork).conflicts] == ["report"]


def test_a_rule_for_all_paths_can_except_documents(state, report):
    state.policy("**", "error")
    state.policy("report", "document")
    state.commit("policies")
    fork = state.fork("fork")
    fork.text("report").append("a")
    fork.commit("a")
    report.append("a")
    state.commit("b")

    assert state.merge(fork).ok
    assert str(report) == "The cat sat.aa"


def test_the_policy_document_is_for_documents(state):
    state["report"] = "a"
    state.policy("report", "document")
    state.commit("a")
    fork = state.fork("fork")
    fork["report"] = "b"
    fork.commit("b")
    state["report"] = "c"
    state.commit("c")
    (conflict,) = state.merge(fork).conflicts

    assert conflict.why == "policy document needs two documents"
    with pytest.raises(MergeConflict):
        state.commit("unsettled")


def test_what_was_rolled_back_stays_away(state, report):
    older = state.fork("older")
    report.append(" Wrong.")
    state.commit("wrong")
    newer = state.fork("newer")
    older.text("report").insert(0, "Yes: ")
    older.commit("on the text before")
    newer.merge(older)
    state.rollback("@~1")
    report.append(" Right.")
    state.commit("right")
    state.merge(newer)

    assert str(report) == "Yes: The cat sat. Right."


def test_what_others_built_on_comes_back_with_it(state, report):
    report.append(" It left.")
    state.commit("more")
    fork = state.fork("fork")
    fork.text("report").append(" In a car.")
    fork.commit("built on it")
    state.rollback()
    state.merge(fork)

    assert str(report) == "The cat sat. It left. In a car."


# ---------------------------------------------------------------- in a store


@pytest.fixture
def repo(tmp_path):
    with otolith.open(tmp_path / "here.db") as repo:
        yield repo


def test_a_text_is_read_by_another_process(repo, tmp_path):
    state = repo.session("s")
    state.text("report").append("The cat sat. " * 5000)
    state.commit("wrote")
    with otolith.open(tmp_path / "here.db") as again:
        assert str(again.session("s").text("report")) == "The cat sat. " * 5000


def test_what_garbage_collection_leaves_can_be_read(repo):
    state = repo.session("s")
    report = state.text("report")
    for number in range(30):
        report.append(f"{number} " * 200)
        state.commit("more")
    state.rollback("@~25")
    state.fork("dropped").text("report").append("never committed")
    care.prune(repo)

    assert str(repo.session("s").text("report")) == str(report)
    assert care.verify(repo, level="deep").ok


def test_stores_that_edit_apart_have_one_text_after_push_and_pull(repo, tmp_path):
    state = repo.session("s")
    state.text("report").append("The cat sat.")
    state.commit("wrote")
    repo.clone(str(tmp_path / "there.db"))
    with otolith.open(tmp_path / "there.db") as there:
        other = there.session("s")
        other.text("report").replace(4, 7, "dog")
        other.commit("there")
        state.text("report").edit("The cat sat down.")
        state.commit("here")
        repo.pull(str(tmp_path / "there.db"))
        state.refresh()
        repo.push(str(tmp_path / "there.db"))
        other.refresh()

        assert str(state.text("report")) == str(other.text("report")) == "The dog sat down."
        assert state.resolve("@").id == other.resolve("@").id


def test_a_damaged_document_is_named_by_its_path(state, report):
    cells = state.cells
    runs = {key.dump(): [b"", [[0, [], [0, 7], "short"]]] for key in state["report"].runs}
    form = cells.edit_map(
        cells.tag(state.cell_at(("report",))).data,
        {cells.encoding.key(key): cells.put(run) for key, run in runs.items()},
        is_table=True,
    )
    state.write_cell(("notes", "bad"), cells.tagged_cell(Tag.DOCUMENT, form))

    with pytest.raises(Corrupt, match="notes/bad: a document cannot be read"):
        state.text("notes/bad")
    assert str(report) == "The cat sat."


def test_damage_that_comes_by_a_merge_is_named_by_its_path(state, report):
    fork = state.fork("fork")
    cell = fork.cells.put(fork["report"])
    form = fork.cells.edit_map(fork.cells.tag(cell).data, {b"x": fork.cells.put(1)}, is_table=True)
    fork.write_cell(("report",), fork.cells.tagged_cell(Tag.DOCUMENT, form))
    fork.commit("damaged")
    report.append(" It left.")
    state.commit("more")

    with pytest.raises(Corrupt, match="report: a document is not stored as runs"):
        state.merge(fork)
    assert str(report) == "The cat sat. It left."


# ---------------------------------------------------------------- writers and their runs


def runs_of(state, path="report"):
    return sorted(state[path].runs)


def test_commits_of_one_handle_are_runs_of_one_writer(state, report):
    for _ in range(3):
        report.append("x")
        state.commit("x")

    assert [(run.start, run.stop) for run in runs_of(state)] == [
        (0, 12),
        (12, 13),
        (13, 14),
        (14, 15),
    ]
    assert len({run.writer for run in runs_of(state)}) == 1


def test_edits_between_two_commits_are_one_run_however_often_they_are_staged(state, report):
    for _ in range(5):
        report.append("x")
        assert not state.is_clean

    assert [(run.start, run.stop) for run in runs_of(state)] == [(0, 12), (12, 17)]


def test_many_short_runs_become_one(state, report):
    for number in range(200):
        report.append(str(number % 10))
        state.commit("x")

    assert len(runs_of(state)) < 70
    assert str(state.at("@")["report"])[12:] == "0123456789" * 20


def test_long_runs_are_not_written_again(state, report):
    for number in range(70):
        report.append(f"{number:02d}" * 600)
        state.commit("x")

    assert len(runs_of(state)) >= 70


def test_who_goes_back_is_another_writer(state, report):
    report.append("x")
    state.commit("x")
    state.rollback()
    report.append("y")
    state.commit("y")

    assert len({run.writer for run in runs_of(state)}) == 2


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")
def test_a_forked_process_is_another_writer(tmp_path):
    with otolith.open(tmp_path / "s.db") as repo:
        state = repo.session("s")
        report = state.text("report")
        report.append("shared ")
        state.commit("shared")
        report.append("unstaged ")
        child = os.fork()
        if child == 0:
            try:
                state.text("report").append("child ")
                fork = repo.session("child")
                fork["report"] = state["report"]
                fork.commit("child")
                os._exit(0)
            finally:
                os._exit(1)
        assert os.waitpid(child, 0)[1] == 0
        report.append("parent ")
        state.commit("parent")
        mine, theirs = repo.session("s")["report"], repo.session("child")["report"]

    assert (str(mine), str(theirs)) == ("shared unstaged parent ", "shared unstaged child ")
    assert len({run.writer for run in mine.runs | theirs.runs}) == 2


# ---------------------------------------------------------------- without the library


@pytest.fixture
def no_library(monkeypatch):
    monkeypatch.setitem(sys.modules, "loro", None)


def test_without_the_library_a_text_says_what_to_install(state, report, no_library):
    with pytest.raises(MissingExtra, match="needs loro") as missing:
        Versioned(state.repo).text("report")
    assert missing.value.hint == "pip install 'otolith[crdt]'"
    with pytest.raises(MissingExtra):
        state.text("new").append("x")


def test_without_the_library_documents_are_read_merged_and_copied(state, report, no_library):
    fork = state.fork("fork")
    fork["copy"] = fork["report"]
    fork.commit("copied")
    state["x"] = 1
    state.commit("x")
    state.merge(fork)

    assert state.at("@")["copy"] == state["report"]
    assert repr(Document(state["report"].runs)) == (
        "<Document of 12 edits, not readable: pip install 'otolith[crdt]'>"
    )
    with pytest.raises(MissingExtra):
        str(Document(state["report"].runs))
