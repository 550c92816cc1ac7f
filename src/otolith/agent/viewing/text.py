"""View: what an agent knows, as text for a prompt or a person, within a budget of tokens.

`full` shows every name with its type, size and value; `recent` what the last commits changed, what
is not committed yet, and the latest events. Neither loads a long value, nor any pickle.
"""

from __future__ import annotations

from typing import Literal

from otolith.agent.live import Live
from otolith.agent.state import State
from otolith.agent.tokens import count, cut
from otolith.agent.viewing.layout import cost, lay_out
from otolith.agent.viewing.looks import Item, Parts, bytes_text, number_of, printable
from otolith.agent.viewing.mind import mind
from otolith.agent.viewing.objects import ObjectLooks
from otolith.agent.viewing.recent import live_sections, recent_sections, sections_within
from otolith.agent.viewing.stored import StoredLooks
from otolith.core import Branch, Reading, Snapshot
from otolith.errors import Invalid

FOCUSES = ("recent", "full")


def view(
    state: State | Reading | None,
    focus: Literal["recent", "full"] = "recent",
    *,
    max_tokens: int = 4096,
) -> str:
    """Return what is in a state, as text of at most about so many tokens.

    `focus="recent"` shows what changed lately and what happened; "full" shows everything there is,
    as far as it fits, and says how much does not.

    Raises:
        Invalid: the focus is not one of the two, or there is no room for anything.
    """
    if focus not in FOCUSES:
        raise Invalid(f"focus {focus!r} is not known", hint=f"use {' or '.join(FOCUSES)}")
    if max_tokens < 1:
        raise Invalid(f"max_tokens={max_tokens} is no room", hint="give at least 1")
    if state is None:
        return cut("no state: nothing is kept", max_tokens)
    lines = _lines(state, focus, max_tokens)
    while len(lines) > 1 and count("\n".join(lines)) > max_tokens:
        lines.pop()
    return cut("\n".join(lines), max_tokens)


def _lines(state: State | Reading, focus: str, budget: int) -> list[str]:
    if isinstance(state, Reading):
        with state.turn():
            return _kept(state, focus, budget)
    if isinstance(state, Live):
        with state.turn():
            return _live(state, focus, budget)
    raise Invalid(
        f"a {type(state).__name__} is no state", hint="use Versioned, Live, a snapshot or None"
    )


def _kept(state: Reading, focus: str, budget: int) -> list[str]:
    root = state.cell_at(())
    looks = StoredLooks(state.cells)
    title = _title(state, bytes_text(state.cells.full_size(root or b"")))
    left = budget - cost(title)
    if focus == "full":
        named, own = looks.top(root or b"\x80", len(state)), mind(state)
        every = Parts([*own, *named.items], len(own) + named.total) if own else named
        return [title, *lay_out(every, left)]
    return [title, *sections_within(recent_sections(state, looks), left)]


def _title(state: Reading, size: str) -> str:
    keys = f"{number_of(len(state), 'keys')}, {size}"
    if isinstance(state, Snapshot):
        return f"as it was at {state.commit.short}: {keys}"
    if not isinstance(state, Branch):
        return keys
    head = f"at {state.head.short}" if state.head is not None else "no commit yet"
    changes = "" if state.is_clean else ", with uncommitted changes"
    merging = ", in the middle of a merge" if state.merging is not None else ""
    return printable(f"{state.session}/{state.name} {head}: {keys}{changes}{merging}")


def _live(state: Live, focus: str, budget: int) -> list[str]:
    looks = ObjectLooks()
    title = f"{type(state).__name__}: {number_of(len(state), 'keys')}, in memory only"
    left = budget - cost(title)
    if focus == "full":
        items = (Item(name, state[name], looks) for name in state)
        return [title, *lay_out(Parts(items, len(state)), left)]
    return [title, *sections_within(live_sections(state, looks), left)]
