"""Messages that are added and committed one at a time: what each takes, in time and on disk."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterator
from typing import NamedTuple

import otolith
from bench.agent.talk import Say, chat_in, turns, turns_with_tools
from bench.commits import label
from bench.disk import resting_bytes
from bench.ground import SESSION, Ground, tell
from bench.peers import attempt, start
from bench.table import Absent, Budget, Figure, Row, against, compared
from bench.timing import Samples, Step, alternate
from bench.words import Words
from otolith import conversation

Talk = Callable[[conversation.Conversation, int], Say]
LONG_BYTES = 1000
PEERS = {
    "langgraph": "LangGraph SqliteSaver",
    "burr": "Burr SQLitePersister",
    "openai_agents": "OpenAI Agents SQLiteSession",
}
NOTE = (
    "A user and an assistant speak in turn, 500 bytes each, a commit for each message; with tools,"
    " each user's message leads to a call with 80 bytes of arguments and a result of 500 bytes."
)
TURNS = "OpenAI's session keeps the messages alone: no versions, no commits, nothing to go back to."


def rows(ground: Ground) -> Iterator[Row]:
    count = ground.sizes.many_messages
    for name, talk in (("text", turns), ("tools", turns_with_tools)):
        yield from _grown(ground, name, talk, count)
    yield from _beside(ground)


def _grown(ground: Ground, name: str, talk: Talk, count: int) -> Iterator[Row]:
    """Measure several stores: each has a salt of its own, and so its own shape."""
    grown = [_one(ground, name, talk, count) for _ in range(ground.sizes.logs)]
    last = Samples([block for each in grown for block in each.last.blocks])
    first = Samples([block for each in grown for block in each.first.blocks])
    flat, long = Budget(1.5, "x", of="ratio"), f"{label(count)} messages, {name}"
    work = f"{long}: one more, committed"
    yield compared(f"say-{name}", work, last, "message 10 on", first, budget=flat, note=NOTE)
    stored = sorted(each.stored for each in grown)
    figure = Figure(statistics.median(stored), "x", stored[0], stored[-1])
    work = f"{long}: disk / bytes said"
    yield Row(f"stored-{name}", work, figure, budget=Budget(2.0, "x"), note=NOTE)


class Grown(NamedTuple):
    """What a thread took: bytes stored per byte said, and the time of its messages."""

    stored: float
    first: Samples
    last: Samples


def _one(ground: Ground, name: str, talk: Talk, count: int) -> Grown:
    """Add messages; the last twentieth alternates with the first of another thread."""
    tell(f"{count:,} messages, {name}")
    end = max(2, count // 20)
    blocks = min(end // 2, 10)
    place, young = ground.place("old"), ground.place("young")
    with (
        otolith.open(place, durability="fast") as repo,
        otolith.open(young, durability="fast") as fresh,
    ):
        old, said = _saying(repo, talk, 6)
        empty = resting_bytes(place)
        new, _ = _saying(fresh, talk, 7)
        for _ in range(count - end):
            old()
        Samples().run(new, 10)  # the budget is from message 10 on
        took = alternate({"last": old, "first": new}, blocks=blocks, times=end // blocks)
        stored = (resting_bytes(place) - empty) / sum(said)
    return Grown(stored, took["first"], took["last"])


def _saying(repo: otolith.Repo, talk: Talk, seed: int) -> tuple[Step, list[int]]:
    state = repo.session(SESSION)
    say, said = talk(chat_in(state), seed), [0]
    state.commit("begun")

    def step() -> None:
        said.append(say())
        state.commit()

    return step, said


def _beside(ground: Ground) -> Iterator[Row]:
    """Store a kilobyte each way, turn by turn, as we do and as others do."""
    times = max(ground.sizes.some_messages // 5, 2)
    tell(f"{times} turns, ours and those of {', '.join(PEERS.values())}")
    place = ground.place("turns")
    with otolith.open(place, durability="fast") as repo:
        state = repo.session(SESSION)
        say = turns(chat_in(state), 6, LONG_BYTES)
        state.commit("begun")
        empty = resting_bytes(place)
        for _ in range(2 * times):
            say()
            state.commit()
        ours = Figure((resting_bytes(place) - empty) / (2 * times * LONG_BYTES), "x")
    work = f"{times} turns of two messages of 1 KB: disk / bytes said"
    for name, peer in PEERS.items():
        theirs = attempt(_stored_by, name, ground, times)
        yield against(f"stored-turns-{name}", work, ours, peer, theirs, note=TURNS)


def _stored_by(name: str, ground: Ground, times: int) -> Figure | Absent:
    keeper = start(name, ground.place(name))
    if isinstance(keeper, Absent):
        return keeper
    words = Words(6)
    keeper.settle()
    empty = resting_bytes(keeper.place)
    for _ in range(2 * times):
        keeper.append(words.text(LONG_BYTES))
    keeper.settle()
    stored = (resting_bytes(keeper.place) - empty) / (2 * times * LONG_BYTES)
    keeper.close()
    return Figure(stored, "x")
