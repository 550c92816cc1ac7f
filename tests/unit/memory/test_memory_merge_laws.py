"""Memories are merged alike by either side, without a conflict, and nothing settled is undone."""

from __future__ import annotations

import itertools

from hypothesis import given, settings
from hypothesis import strategies as st

from otolith import Versioned
from otolith.memory import (
    Note,
    NoteVersion,
    PlanStep,
    StepState,
    ToolRecord,
    merge_notes,
    merge_plans,
)
from otolith.memory.notes import current_notes

FEWER = settings(max_examples=max(settings().max_examples // 2, 20))

times = st.integers(0, 9)
versions = st.lists(st.builds(NoteVersion, st.integers(0, 3), times, st.just("")), max_size=3)
notes = st.builds(
    Note,
    st.just(""),
    st.integers(0, 3),
    importance=st.sampled_from([0.2, 0.5, 1.0]),
    is_pinned=st.booleans(),
    time=times,
    uses=st.integers(0, 4),
    used=times,
    half_life_seconds=st.sampled_from([None, 5.0]),
    replaced_by=st.sampled_from(["", "other"]),
    is_forgotten=st.booleans(),
    versions=versions.map(tuple),
).map(Note.to_data)
states = st.sampled_from(list(StepState))
plans = st.dictionaries(
    st.sampled_from("abcd"),
    st.builds(PlanStep, st.just(""), st.sampled_from(["x", "y"]), states, st.integers(0, 3), times),
    max_size=4,
).map(lambda plan: {id: step.to_data() for id, step in plan.items()})


@given(st.none() | notes, notes, notes)
def test_a_note_is_merged_the_same_by_either_side(base, ours, theirs):
    merged = merge_notes(base, ours, theirs)

    assert merged == merge_notes(base, theirs, ours)
    assert Note.from_data("", merged).uses >= 0
    assert merged["time"] in (ours["time"], theirs["time"])


@given(notes, notes)
def test_a_note_that_one_side_left_alone_is_that_of_the_other(base, ours):
    merged = merge_notes(base, ours, base)

    if ours["time"] > base["time"]:
        assert merged["value"] == ours["value"]
        assert merged.get("is_forgotten") == ours.get("is_forgotten")


@given(plans, plans, plans)
def test_a_plan_is_merged_the_same_by_either_side(base, ours, theirs):
    merged = merge_plans(base, ours, theirs)

    assert merged == merge_plans(base, theirs, ours)
    places = sorted(step[2] for step in merged.values())
    assert places == list(range(len(merged)))
    for id, step in (*ours.items(), *theirs.items()):
        before = base.get(id)
        if StepState(step[1]).is_settled and (before is None or progress(step) != progress(before)):
            assert StepState(merged[id][1]).is_settled


def progress(step):
    _, state, _, time, why = step
    return state, time, why


def fields_of(step):
    return {"text": step[0], "progress": progress(step), "place": step[2]}


@given(plans, plans, plans)
def test_an_edit_of_a_step_that_one_side_made_is_not_lost(base, ours, theirs):
    merged = merge_plans(base, ours, theirs)

    for id in base.keys() & ours.keys() & theirs.keys():
        before, mine, yours = (fields_of(plan[id]) for plan in (base, ours, theirs))
        found = fields_of(merged[id])
        for name in ("text", "progress"):
            changed = [side[name] for side in (mine, yours) if side[name] != before[name]]
            assert len(changed) != 1 or found[name] == changed[0]
    for id in (ours.keys() | theirs.keys()) - base.keys():
        assert id in merged


@given(notes, notes, notes)
def test_an_edit_of_a_note_that_one_side_made_is_not_lost(base, ours, theirs):
    before, mine, yours = (Note.from_data("", each) for each in (base, ours, theirs))
    found = Note.from_data("", merge_notes(base, ours, theirs))

    written = [(each.value, each.source, each.time, each.is_forgotten) for each in (mine, yours)]
    changed = [
        each
        for each in written
        if each != (before.value, before.source, before.time, before.is_forgotten)
    ]
    if len(changed) == 1:
        assert (found.value, found.source, found.time, found.is_forgotten) == changed[0]
    if not (mine.is_forgotten or yours.is_forgotten):
        for name in ("importance", "is_pinned", "half_life_seconds", "replaced_by"):
            sides = [getattr(each, name) for each in (mine, yours)]
            edits = [each for each in sides if each != getattr(before, name)]
            assert len(edits) != 1 or getattr(found, name) == edits[0]
        lost = {mine.value, yours.value} - {found.value, before.value}
        assert len(found.versions) == 8 or lost <= {each.value for each in found.versions}


@given(
    st.dictionaries(
        st.sampled_from("abcde"), st.tuples(st.sampled_from("abcde"), st.integers(0, 2)), min_size=1
    )
)
def test_notes_that_replace_each_other_never_hide_all_of_them(replaced):
    found = {key: Note(key, 1, time=time, replaced_by=by) for key, (by, time) in replaced.items()}
    left = current_notes(found)

    assert left
    for key in found.keys() - left.keys():  # what is hidden leads to something that is not
        seen, note = {key}, found[key]
        while note.key not in left:
            note = found[note.replaced_by]
            assert note.key in left or note.key not in seen
            seen.add(note.key)


# ---------------------------------------------------------------- in a state

KEYS, STEPS = st.sampled_from(["airline", "seat"]), st.sampled_from(["search", "book", "pay"])
acts = st.lists(
    st.one_of(
        st.tuples(st.just("note"), KEYS, st.integers(0, 3)),
        st.tuples(st.just("replace"), KEYS, st.integers(4, 6)),
        st.tuples(st.sampled_from(["use", "forget", "pin"]), KEYS, st.none()),
        st.tuples(st.just("plan"), st.lists(STEPS, unique=True, max_size=3), st.none()),
        st.tuples(st.sampled_from(["done", "fail", "begin", "reopen"]), STEPS, st.none()),
        st.tuples(st.sampled_from(["start", "goal", "gather", "finish", "call"]), STEPS, st.none()),
    ),
    max_size=6,
)


def act(memory, acts):
    """Do what can be done."""
    for verb, name, value in acts:
        if verb == "note":
            memory.note(name, value)
        elif verb == "replace":
            other = "seat" if name == "airline" else "airline"
            memory.note(name, value, replaces=other if other in memory.notes else "")
        elif verb in ("use", "forget", "pin"):
            if name in memory.notes:
                getattr(memory, verb)(name)
        elif verb in ("done", "fail", "begin", "reopen"):
            if name in [step.id for step in memory.steps]:
                getattr(memory, verb)(name)
        else:
            act_on_the_task(memory, verb, name)


def act_on_the_task(memory, verb, name):
    if verb == "goal":
        memory.goal = name
    elif verb == "gather":
        memory.gather(**{name: name, "which": name})
    elif verb == "call":
        memory.record(ToolRecord(name, name))
    else:
        getattr(memory, verb)("done" if verb == "finish" else name)


@FEWER
@given(acts, acts, acts)
def test_two_that_worked_on_one_memory_have_no_conflict_and_end_alike(base, ours, theirs):
    ticks = itertools.count(1_000_000, 1_000_000)
    state = Versioned(clock=lambda: next(ticks))
    act(state.memory, base)
    state.commit(allow_empty=True)
    other = state.fork("other")
    act(state.memory, ours)
    state.commit(allow_empty=True)
    act(other.memory, theirs)
    other.commit(allow_empty=True)
    mine, yours = state.fork("mine"), other.fork("yours")
    calls = len(state.memory.tool_calls) + len(other.memory.tool_calls)
    shared = sum(verb == "call" for verb, _, _ in base)

    assert mine.merge(other).ok
    assert yours.merge(state).ok

    assert mine.memory.to_dict() == yours.memory.to_dict()
    assert mine.memory.task == yours.memory.task or mine.memory.task.id != yours.memory.task.id
    assert len(mine.memory.tool_calls) == calls - shared
    assert {note.key: note for note in mine.memory.notes.all()} == {
        note.key: note for note in yours.memory.notes.all()
    }
    recalled = [{each.key for each in side.memory.recall("")} for side in (mine, yours)]
    assert recalled[0] == recalled[1]
    assert bool(recalled[0]) == bool(len(mine.memory.notes))
