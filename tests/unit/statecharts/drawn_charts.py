"""Random charts: nested, parallel, with history, guards, delays, data, children and odd names."""

from __future__ import annotations

from dataclasses import replace
from random import Random
from typing import Any

from hypothesis import strategies as st

from otolith.statecharts.definition import (
    Action,
    Assign,
    Block,
    Call,
    Cancel,
    Datum,
    Definition,
    Emit,
    Expression,
    ForEach,
    If,
    IfBranch,
    Invoke,
    Kind,
    Literal,
    Log,
    NamedGuard,
    Param,
    Payload,
    Raise,
    Script,
    Send,
    State,
    Transition,
)

HOSTILE = (
    'say "hi"',
    "a --> b",
    "]]>",
    "line\nbreak",
    "tab\there",
    "<script>alert(1)</script>",
    "&amp;",
    "%%{init}%%",
    "a:b;c",
    "#35;",
    "{box}",
    "état 漢字 🙂",
    "end",
    "state",
    "note",
    "constructor",
    "__proto__",
    "p_start",
    "x.y",
    ".dot",
    "trailing.",
    "#hash",
    "back\\slash",
    "*",
    "two words",
    "1",
    "null",
    "'single'",
    "[*]",
    "--",
)
PLAIN = tuple("abcdefghijklmnopqrstuvwxyz")

dialects = st.sampled_from(["python", "ecmascript"])
numbers = st.integers(-5, 5) | st.floats(0, 3, allow_nan=False).map(lambda x: round(x, 2))
scalars = st.none() | st.booleans() | numbers | st.sampled_from(["", "word", *HOSTILE])
json_values = st.recursive(
    scalars,
    lambda inner: (
        st.lists(inner, max_size=2)
        | st.dictionaries(st.sampled_from(["k", "@expr", "@value", "two words"]), inner, max_size=2)
    ),
    max_leaves=4,
)
literals = st.builds(Literal, json_values)
texts = st.sampled_from(["n < 3", "n + 1", "true", "x > 'a' && y", "n  <\n 2", "[n, 1]", "-1"])
expressions = st.builds(Expression, texts, dialects)
values = literals | expressions
names = st.sampled_from(["n", "x", "type", "two words", *HOSTILE[:6]])
params = st.lists(st.builds(Param, names, values), max_size=2).map(tuple)
payloads = st.builds(Payload, params, st.none() | values)
words = st.sampled_from(["go", "stop", "done.invoke.k", "xstate.done.actor.k", *HOSTILE])
guards = expressions | st.builds(NamedGuard, words, params.map(lambda found: found[:1]))
delays = st.builds(Literal, st.sampled_from([0, 100, 2.5, "2s", "150ms", "100"])) | expressions
texts_or_none = st.none() | words
remarks = (
    st.none() | st.fixed_dictionaries({"layout": json_values}) | st.just({"otolith": {"a": 1}})
)


def actions() -> st.SearchStrategy[Action]:
    """Draw any action; `if` and `foreach` hold others."""
    simple: st.SearchStrategy[Action] = st.one_of(
        st.builds(Assign, st.sampled_from(["n", "n.k", "n[0]"]), values),
        st.builds(Script, st.sampled_from(["n = 1", "\n  n = n + 1;\n", "x = '<&>'", ""])),
        st.builds(Raise, words, payloads),
        st.builds(
            Send,
            st.none() | values | st.builds(Literal, words),
            target=st.none() | values | st.just(Literal("#_parent")),
            type=st.none() | values,
            id=texts_or_none,
            id_location=st.none() | st.just("n"),
            delay=st.none() | delays,
            payload=payloads,
        ),
        st.builds(Send, st.builds(Literal, words), delay=delays, payload=st.just(Payload())),
        st.builds(Cancel, values),
        st.builds(Log, words | st.just(""), st.none() | values),
        st.builds(Emit, values | st.builds(Literal, words), payloads),
        st.builds(Call, words | st.sampled_from(["@xstate.log", "@otolith.call"]), params),
    )
    return st.recursive(simple, _around, max_leaves=3)


def _around(inner: st.SearchStrategy[Action]) -> st.SearchStrategy[Action]:
    block = st.lists(inner, max_size=2).map(tuple)
    branches = st.lists(st.builds(IfBranch, st.none() | guards, block), min_size=1, max_size=3)
    return st.builds(If, branches.map(tuple)) | st.builds(
        ForEach, values, st.just("x"), st.none() | st.just("i"), block
    )


blocks: st.SearchStrategy[Block] = st.lists(actions(), max_size=2).map(tuple)


@st.composite
def charts(draw: st.DrawFn, *, is_hostile: bool = True, depth: int = 0) -> Definition:
    """Draw a chart that is valid; with `is_hostile` its names are odd."""
    pool = [*(HOSTILE if is_hostile else ()), *PLAIN]
    Random(draw(st.integers(0, 1_000))).shuffle(pool)  # cheaper than drawing a permutation
    name = draw(st.sampled_from(["", "m", "a.b", *(HOSTILE if is_hostile else ())]))
    root_id = draw(st.sampled_from([f"#{name or 'machine'}", f"#{name or 'scxml'}", "the root"]))
    root = _tree(draw, root_id, pool, level=0)
    root = _filled(draw, root, root, depth)
    script: Any = draw(st.just(()) | st.just((Script("n = 1"),)) | blocks)
    return Definition(
        name,
        root,
        dialect=draw(dialects),
        matching=draw(st.sampled_from(["exact", "prefix"])),
        binding=draw(st.sampled_from(["early", "late"])),
        is_scxml=draw(st.booleans()),
        script=script,
        version=draw(st.sampled_from(["", "1"])),
    )


def _tree(draw: st.DrawFn, id: str, pool: list[str], level: int) -> State:
    """Draw states inside one another, without what they do."""
    leaves: list[Kind] = ["atomic", "atomic", "final"] if level else []
    boxes: list[Kind] = ["compound", "parallel"] if level < 3 else []
    kind = draw(st.sampled_from([*leaves, *boxes]))
    if kind in {"atomic", "final"} or len(pool) < 3:
        return State(id, kind if kind == "final" else "atomic")
    children = []
    for _ in range(draw(st.integers(1, 3))):
        if pool:
            below = pool.pop()
            child = f"{id}.{below}" if level and draw(st.booleans()) else below
            children.append(_tree(draw, child, pool, level + 1))
    if kind == "parallel":
        children = [
            replace(child, kind="atomic") if child.kind == "final" else child for child in children
        ]
    state = State(id, kind, tuple(children))
    targets = _start(draw, state)
    has_history = draw(st.booleans())
    if pool and has_history:
        default = Transition((), targets, is_internal=False)
        history = State(pool.pop(), "history", initial=default, is_deep=draw(st.booleans()))
        state = replace(state, children=(*children, history))
    if kind == "compound":
        state = replace(state, initial=Transition((), targets, is_internal=draw(st.booleans())))
    return state


def _start(draw: st.DrawFn, state: State) -> tuple[str, ...]:
    """Draw where a state begins: a child, one deeper, or several in regions of a parallel one."""
    is_all = draw(st.booleans())
    if state.kind == "parallel" and is_all:
        return tuple(child.id for child in state.children if child.kind != "history")
    child = draw(st.sampled_from([child for child in state.children if child.kind != "history"]))
    is_deeper = draw(st.booleans())
    return _start(draw, child) if child.children and is_deeper else (child.id,)


def _filled(draw: st.DrawFn, state: State, root: State, depth: int) -> State:
    """Return a state with what it does, and so all below."""
    if state.kind == "history":
        actions = draw(blocks)
        assert state.initial is not None
        return replace(state, initial=replace(state.initial, actions=actions))
    children = tuple(_filled(draw, child, root, depth) for child in state.children)
    changes: dict[str, Any] = {"children": children}
    if state.initial is not None:
        changes["initial"] = replace(state.initial, actions=draw(blocks))
    for side in ("entry", "exit"):
        changes[side] = draw(st.lists(blocks, max_size=2).map(tuple))
    data = st.builds(Datum, st.sampled_from(["n", "x", "two words"]), st.none() | values)
    changes["data"] = draw(st.lists(data, max_size=2).map(tuple))
    changes["tags"] = tuple(draw(st.lists(words, max_size=1)))
    changes["meta"] = draw(remarks)
    changes["description"] = draw(st.sampled_from(["", *HOSTILE])) if state is not root else ""
    if state.kind == "final" or draw(st.booleans()):
        changes["output"] = draw(st.none() | payloads)
    if state.kind != "final":
        changes["invokes"] = tuple(_invoke(draw, depth) for _ in range(draw(st.integers(0, 1))))
        found = [_way(draw, state, root) for _ in range(draw(st.integers(0, 3)))]
        changes["transitions"] = tuple(found)
    return replace(state, **changes)


def _way(draw: st.DrawFn, state: State, root: State) -> Transition:
    everyone = [found.id for found in every_state(root)]
    boxes = [found for found in every_state(root) if found.kind == "parallel"]
    targets: tuple[str, ...] = tuple(draw(st.lists(st.sampled_from(everyone), max_size=1)))
    if boxes and draw(st.integers(0, 4)) == 0:
        regions = draw(st.sampled_from(boxes)).children
        targets = tuple(child.id for child in regions if child.kind != "history")
    own = [f"done.state.{state.id}", "done.invoke.kid", "error.invoke.kid", "done.state.x"]
    events = draw(st.lists(words | st.sampled_from(own), max_size=2, unique=True).map(tuple))
    delay = None if events else draw(st.none() | delays)
    return Transition(
        events,
        targets,
        is_internal=draw(st.booleans()),
        guard=draw(st.none() | guards),
        actions=draw(blocks),
        delay=delay,
        description=draw(st.sampled_from(["", "why <not>"])),
        meta=draw(remarks),
    )


def _invoke(draw: st.DrawFn, depth: int) -> Invoke:
    content: Any = draw(st.none() | values)
    if depth < 1 and draw(st.integers(0, 3)) == 0:
        content = draw(charts(depth=depth + 1))
    return Invoke(
        id=draw(st.sampled_from([None, "kid", "two words"])),
        id_location=draw(st.sampled_from([None, "n"])),
        source=draw(st.none() | values | st.builds(Literal, words)),
        content=content,
        type=draw(st.none() | values),
        payload=draw(payloads),
        finalize=draw(st.none() | blocks),
        is_forwarding=draw(st.booleans()),
    )


def every_state(state: State) -> list[State]:
    """Return a state and all below it, in document order."""
    return [state, *(found for child in state.children for found in every_state(child))]
