"""The chapters of the demo: each does something real, shows it, and checks what it claims.

A voice for the demo: chapters, what is done, and checks that count.
"""

from __future__ import annotations

import pickle
import random
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable, Iterator
from pathlib import Path

import click

from otolith import care
from otolith.cli.demo import booking
from otolith.cli.demo.job import SESSION, STEPS
from otolith.cli.format.history import (
    Lanes,
    changes_text,
    conflict_lines,
    first_line,
    labels,
    oneline,
    size,
)
from otolith.cli.format.values import one_line
from otolith.cli.location import opened
from otolith.core import Branch, Commit, Repo
from otolith.session import Versioned
from otolith.views import words_of


class Teller:
    """Prints the story, with pauses on a terminal, and remembers which checks failed."""

    def __init__(self, *, pause_seconds: float) -> None:
        self._pause_seconds = pause_seconds if sys.stdout.isatty() else 0.0
        self._is_live = sys.stdout.isatty()
        self._chapter = 0
        self.held = 0
        self.failed: list[str] = []

    def chapter(self, title: str) -> None:
        """Begin the next part."""
        self._chapter += 1
        if self._chapter > 1:
            time.sleep(self._pause_seconds)
        click.echo(f"\n{click.style(f'{self._chapter}. {title}', bold=True)}")

    def say(self, text: str) -> None:
        """Say what happens."""
        click.echo(f"   {text}")

    def lines(self, lines: Iterable[str]) -> None:
        """Show what a verb would show."""
        for line in lines:
            click.echo(f"     {line}")

    def code(self, text: str) -> None:
        """Show the line of Python that does it."""
        click.echo(f"   {click.style('>>> ' + text, fg='cyan')}")

    def live(self, text: str, *, last: bool = False) -> None:
        """Show work going by: on a terminal in place, elsewhere only how it ended."""
        if self._is_live:
            click.echo(f"\r\x1b[K   {text}", nl=last)
        elif last:
            self.say(text)

    def check(self, held: bool, claim: str) -> None:
        """State a claim with the proof just made."""
        if held:
            self.held += 1
            click.echo(f"   {click.style('ok', fg='green', bold=True)}  {claim}")
        else:
            self.failed.append(claim)
            click.echo(f"   {click.style('FAILED', fg='red', bold=True)}  {claim}")


_KILL_AFTER = 11
_AT_MOST_SECONDS = 60
_MESSAGES, _FEW_TOKENS = 6, 120


def tell(url: str, teller: Teller) -> None:
    """Tell the whole story on a store that is empty."""
    said = _killed(url, teller)
    with opened(url) as repo:
        _nothing_lost(repo.session(SESSION), said, teller)
    _resumed(url, teller)
    with opened(url) as repo:
        state = repo.session(SESSION)
        _as_it_was(state, teller)
        _merged(state, teller)
        _decided(state, teller)
        _undone(state, teller)
    _booked(url, teller)
    with opened(url) as repo:
        state = repo.session(SESSION)
        _weighed(repo, state, teller)


def _agent(url: str) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "otolith.cli.demo.job", url]
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True)  # noqa: S603 - our own job


def _said(agent: subprocess.Popen[str], teller: Teller) -> Iterator[tuple[int, str]]:
    """Yield the steps that the agent says are committed, and show them go by."""
    assert agent.stdout is not None
    for line in agent.stdout:
        number, id = line.split()
        task = STEPS[int(number) - 1] if int(number) else "plan the trip"
        teller.live(f"step {number:>2} of {len(STEPS)}   {task:32} {id[:10]}")
        yield int(number), id


def _killed(url: str, teller: Teller) -> list[tuple[int, str]]:
    teller.chapter("An agent plans a trip. Each step it takes is a commit.")
    said = []
    with _agent(url) as agent:
        for number, id in _said(agent, teller):
            said.append((number, id))
            if number == _KILL_AFTER:
                time.sleep(random.uniform(0.0, 0.03))  # anywhere within the next step
                agent.kill()
    number, id = said[-1]
    teller.live(f"step {number:>2} of {len(STEPS)}   {STEPS[number - 1]:32} {id[:10]}", last=True)
    teller.say(f"kill -9 {agent.pid}: it dies in the middle of the next one")
    teller.check(agent.returncode != 0, "the process is gone, without a chance to clean up")
    return said


def _nothing_lost(state: Branch, said: list[tuple[int, str]], teller: Teller) -> None:
    teller.chapter("What it said was done, is done.")
    there = {commit.id for commit in state.log()}
    kept = sum(id in there for _, id in said)
    teller.check(kept == len(said), f"{len(said)} commits were acknowledged, {kept} are there")
    done, events = state["done"], state.list("events")
    whole = len(events) == done and events[-1]["step"] == done
    teller.check(whole, f"the state is whole: {done} steps done, {len(events)} events")
    last = said[-1][0]
    landed = "is there, as a whole" if done != last else "is not there, not even in part"
    teller.say(f"step {last + 1}, which it was busy with, {landed}")


def _resumed(url: str, teller: Teller) -> None:
    teller.chapter("A new process goes on where the old one stopped.")
    with _agent(url) as agent:
        numbers = [number for number, _ in _said(agent, teller)]
    teller.live(f"steps {numbers[0]} to {numbers[-1]}, by process {agent.pid}", last=True)
    with opened(url) as repo:
        steps = [event["step"] for event in repo.session(SESSION).list("events")]
    every = list(range(1, len(STEPS) + 1))
    teller.check(steps == every, f"all {len(STEPS)} steps were done, each of them once")


def _as_it_was(state: Branch, teller: Teller) -> None:
    teller.chapter("Every state it was in is still there.")
    then = state.at(f"main~{len(STEPS) - 3}")
    teller.code(f'state.at("main~{len(STEPS) - 3}")["spent"], state["spent"]')
    teller.say(f"({then['spent']}, {state['spent']})")
    teller.check(then["done"] == 3, "the past is read like the present: 3 steps were done then")
    teller.code('state.diff("main~1", "main")')
    teller.lines(changes_text(state.diff("main~1", "main"), width=66))
    teller.code('state.blame("found")')
    blames = state.blame("found")
    for path, commit in blames[:3]:
        teller.say(f"{commit.short}  {path:16} {first_line(commit)}")
    blamed = dict(blames)["found/Lisbon"].message
    teller.check(blamed == STEPS[3], f'blame finds who set "found/Lisbon": "{blamed}"')


def _merged(state: Branch, teller: Teller) -> None:
    teller.chapter("Two ideas at once: a branch, and a merge that needs no help.")
    teller.code('cheaper = state.fork("cheaper")')
    spent = int(str(state["spent"]))
    cheaper = state.fork("cheaper")
    cheaper.counter("spent").add(-60)
    cheaper.list("events").append({"step": 25, "did": "swap the flight for a night train"})
    cheaper.commit("find a night train")
    state.counter("spent").add(25)
    state.list("events").append({"step": 25, "did": "book the museum"})
    state["found/Lisbon"] = "museum booked"
    state.commit("book the museum")
    teller.say("main: spends 25, notes one event.   cheaper: saves 60, notes another.")
    teller.code('state.merge("cheaper")')
    ok = state.merge("cheaper").ok
    last = [event["did"] for event in state.list("events")[-2:]]
    sums = state["spent"] == spent + 25 - 60
    teller.check(ok and sums, f"the counter adds up: {spent} + 25 - 60 = {state['spent']}")
    teller.check(len(set(last)) == 2, f"the list has both: {one_line(sorted(last))}")


def _decided(state: Branch, teller: Teller) -> None:
    teller.chapter("When two really disagree, it asks.")
    cheaper = state.fork("hostel")
    cheaper["hotel"] = "Hostel Luna"
    cheaper.commit("choose the hostel")
    state["hotel"] = "Hotel Aurora"
    state.commit("choose the hotel")
    teller.code('state.merge("hostel")')
    before = state.head
    result = state.merge("hostel")
    for conflict in result.conflicts:
        teller.lines(conflict_lines(conflict))
    waits = not result.ok and state.head == before
    teller.check(waits, "one conflict, as a value with all three sides; nothing is committed yet")
    teller.code('state.resolve_conflict("hotel", take="theirs"); state.commit("sleep cheap")')
    state.resolve_conflict("hotel", take="theirs")
    state.commit("sleep cheap")
    teller.check(state["hotel"] == "Hostel Luna", "decided, and the decision is part of history")


def _undone(state: Branch, teller: Teller) -> None:
    teller.chapter("Nothing is final.")
    head = state.head
    teller.code("state.undo(); state.undo(); state.redo(); state.redo()")
    state.undo()
    state.undo()
    undecided = str(state["hotel"])
    state.redo()
    state.redo()
    teller.check(undecided == "undecided", f"two steps back the hotel was {undecided!r}")
    teller.check(state.head == head, "and two forward again: exactly the same commit")


def _booked(url: str, teller: Teller) -> None:
    teller.chapter("A model calls tools. It dies right after it has paid.")
    with tempfile.TemporaryDirectory(prefix="otolith-demo-") as folder:
        receipts = Path(folder) / "receipts"
        command = [sys.executable, "-m", "otolith.cli.demo.booking", url, str(receipts)]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as agent:  # noqa: S603
            assert agent.stdout is not None
            teller.code(f"agent.acting(repo).run({booking.TASK!r})")
            is_paid = agent.stdout.readline() == "paid\n"
            agent.kill()
        teller.say(f"kill -9 {agent.pid}: the money is gone, and nobody has written that down")
        again = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=False)  # noqa: S603
        teller.say(f"a new process: {again.stdout.strip()}")
        lines = receipts.read_text().splitlines() if receipts.exists() else []
        teller.check(is_paid and len(lines) == 1, f"the ledger asked first: {len(lines)} payment")
    with opened(url) as repo:
        _talked(repo.session(booking.SESSION), teller)


def _talked(state: Versioned, teller: Teller) -> None:
    chat = state.conversation
    teller.code("for message in state.conversation: ...")
    for message in chat:
        teller.say(f"{message.role:10} {words_of(message)}"[:76])
    said = [str(message.role) for message in chat]
    teller.check(len(said) == _MESSAGES, f"all {len(said)} messages are there, each of them once")
    context = chat.context(_FEW_TOKENS, for_="openai")
    teller.code(f'state.conversation.context({_FEW_TOKENS}, for_="openai")')
    fits = context.tokens <= _FEW_TOKENS and 0 < len(context.messages) < len(chat)
    sent = f"{len(context.messages)} of {len(chat)} messages, {context.tokens} tokens"
    teller.check(fits, f"what fits is sent, and no call without its result: {sent}")


def _weighed(repo: Repo, state: Branch, teller: Teller) -> None:
    teller.chapter("What it cost.")
    names = labels(repo, SESSION, here="main")
    lanes = Lanes()
    for commit in list(state.log(limit=9)):
        teller.lines(lanes.rows(commit, [oneline(commit, names)]))
    commits = list(state.log())
    stored = repo.store.usage().stored_bytes
    pickled = sum(_pickled(repo, commit) for commit in commits)
    each, whole = size(stored / len(commits)), size(pickled / len(commits))
    teller.say(f"{len(commits)} commits of a state of {size(state.size())}: {size(stored)} at rest")
    teller.say(f"that is {each} for each; pickling the state at each would be {whole}")
    ratio = pickled / stored
    teller.check(ratio > 2, f"{ratio:.0f} times less than a pickle per step, with all of history")
    report = care.verify(repo, level="deep")
    teller.check(report.ok, f"every one of {report.objects} objects was read back and re-hashed")


def _pickled(repo: Repo, commit: Commit) -> int:
    return len(pickle.dumps(repo.at(commit).to_dict()))
