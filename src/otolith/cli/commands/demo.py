"""`demo`: an agent that is killed, resumed, inspected, branched and merged, with checks.

This is the longest example of the API, in one file. Two parts run as processes that get killed:

    python -m otolith.cli.commands.demo trip STORE               commits one step after the other
    python -m otolith.cli.commands.demo booking STORE RECEIPTS   calls a tool that pays

Every claim is checked on the store that was just written; a failed check is exit code 1. Chapters
print what they do as Python, so that a reader can try it. They share one store: each begins with
the state that the one before it left. Without a terminal there are no pauses.
"""

from __future__ import annotations

import pickle
import random
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import click

from otolith import care
from otolith.agent import Agent, ScriptedModel
from otolith.cli.format.history import Lanes, changes_text, labels, oneline, path_conflict_lines
from otolith.cli.location import FOLDER, STORE, StoreLocation, save
from otolith.cli.options import GlobalOptions
from otolith.errors import Exists
from otolith.opening import open
from otolith.session import Repo, Versioned
from otolith.text import size_text
from otolith.views import message_line

SESSION = "trip-42"
CITIES = ("Lisbon", "Porto", "Sevilla", "Granada", "Valencia", "Marseille")
TASKS = ("look for trains to", "compare hotels in", "read reviews of", "plan the days in")
STEPS = tuple(f"{task} {city}" for city in CITIES for task in TASKS)
KILL_AFTER_STEP = 11
THINKING_SECONDS = 0.02  # of the agent for each step, so that a kill can land inside one

BOOKING_SESSION = "booking"
BOOKING_TASK = "Book the night train to Lisbon"
BOOKING_MESSAGES = 6  # the task, two calls with their results, and the answer
FEW_TOKENS = 120  # a context that does not fit all of them


# ---------------------------------------------------------------- the agents, each a process


def plan_trip(url: str) -> None:
    """Do the steps that are not done yet, a commit each; print `number id` after each commit."""
    with open(url, author="agent") as repo:
        state = repo.session(SESSION)
        if state.head is None:
            state["goal"] = "two weeks by train along the coast, for less than 2000"
            state["plan/steps"] = list(STEPS)
            state["hotel"] = "undecided"
            state["memory"] = {f"fact-{n:03}": f"{_fact(n)} (seen {n} times)" for n in range(300)}
            state["done"] = 0
            print("0", state.commit("plan the trip").id, flush=True)
        for number in range(int(str(state["done"])), len(STEPS)):
            task = STEPS[number]
            time.sleep(THINKING_SECONDS)
            found = {"step": number + 1, "did": task, "found": _fact(number) * 4}
            state.list("events").append(found)
            state.counter("spent").add(7 + number * 5 % 11)
            state[f"found/{task.rpartition(' ')[2]}"] = f"{1 + number % len(TASKS)} of 4 answered"
            state["done"] = number + 1
            print(number + 1, state.commit(task).id, flush=True)


def _fact(number: int) -> str:
    """Return a sentence of some length, so that the state has a size worth storing."""
    kinds = ("prefers window seats", "dislikes early starts", "likes the sea", "walks a lot")
    return f"The traveller {kinds[number % len(kinds)]}; noted in conversation {number * 37 % 101}."


def book_train(url: str, receipts: Path) -> None:
    """Let a scripted model find a train and pay. Paying appends a line to the receipts.

    The first process prints `paid` and waits to be killed, before its payment is recorded.
    """
    agent = Agent(
        ScriptedModel([
            {"call": "find_trains", "to": "Lisbon"},
            {"call": "pay", "train": "310", "price": 89},
            "Booked: train 310 to Lisbon, at 21:25, for 89.",
        ]),
        instructions="You book trains.",
    )  # fmt: skip

    @agent.tool
    def find_trains(to: str) -> list[dict[str, Any]]:
        """Find night trains."""
        return [{"train": "310", "to": to, "leaves": "21:25", "price": 89}]

    def has_paid(key: str, arguments: Mapping[str, Any]) -> str | None:
        """Ask the world whether a payment happened: the ledger calls this after a crash."""
        return "paid" if receipts.exists() and key in receipts.read_text() else None

    @agent.tool(effects="once", asks=has_paid)
    def pay(train: str, price: int, idempotency_key: str) -> str:
        """Pay for a train."""
        is_first = not receipts.exists()
        with receipts.open("a") as file:
            file.write(f"{idempotency_key} train {train} {price}\n")
        if is_first:
            print("paid", flush=True)
            time.sleep(60)
        return "paid"

    with open(url, author="agent") as repo:
        print(
            agent.orchestrator(repo).run(BOOKING_TASK, session=BOOKING_SESSION).answer, flush=True
        )


# ---------------------------------------------------------------- output


class Narrator:
    """Prints chapters, with pauses on a terminal, and counts the checks that passed and failed."""

    def __init__(self, *, pause_seconds: float) -> None:
        self._is_terminal = sys.stdout.isatty()
        self._pause_seconds = pause_seconds if self._is_terminal else 0.0
        self._chapters = 0
        self.passed = 0
        self.failed = 0

    def chapter(self, title: str) -> None:
        """Begin the next part."""
        self._chapters += 1
        if self._chapters > 1:
            time.sleep(self._pause_seconds)
        click.echo(f"\n{click.style(f'{self._chapters}. {title}', bold=True)}")

    def say(self, text: str) -> None:
        """Print one sentence."""
        click.echo(f"   {text}")

    def lines(self, lines: Iterable[str]) -> None:
        """Print what a command of the CLI would print."""
        for line in lines:
            click.echo(f"     {line}")

    def code(self, text: str) -> None:
        """Print the line of Python that is run."""
        click.echo(f"   {click.style('>>> ' + text, fg='cyan')}")

    def progress(self, text: str, *, last: bool = False) -> None:
        """Overwrite one line on a terminal; elsewhere print only the last text."""
        if self._is_terminal:
            click.echo(f"\r\x1b[K   {text}", nl=last)
        elif last:
            self.say(text)

    def check(self, passed: bool, claim: str) -> None:
        """Print a claim, and whether it is true."""
        self.passed += passed
        self.failed += not passed
        mark = ("ok", "green") if passed else ("FAILED", "red")
        click.echo(f"   {click.style(mark[0], fg=mark[1], bold=True)}  {claim}")


# ---------------------------------------------------------------- the chapters


def tell(url: str, narrator: Narrator) -> None:
    """Run all chapters on an empty store."""
    acknowledged = _kill(url, narrator)
    with open(url) as repo:
        _nothing_lost(repo.session(SESSION), acknowledged, narrator)
    _resume(url, narrator)
    with open(url) as repo:
        state = repo.session(SESSION)
        _time_travel(state, narrator)
        _merge(state, narrator)
        _conflict(state, narrator)
        _undo(state, narrator)
    _pay_once(url, narrator)
    with open(url) as repo:
        _conversation(repo.session(BOOKING_SESSION), narrator)
        _cost(repo, repo.session(SESSION), narrator)


def _process(*arguments: str) -> subprocess.Popen[str]:
    """Start this file as a program of its own, which can be killed."""
    command = [sys.executable, "-m", "otolith.cli.commands.demo", *arguments]
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True)  # noqa: S603 - this file


def _steps_of(agent: subprocess.Popen[str], narrator: Narrator) -> Iterator[tuple[int, str, str]]:
    """Yield number, commit and description of each step that the agent says it committed."""
    assert agent.stdout is not None
    for line in agent.stdout:
        number, id = line.split()
        task = STEPS[int(number) - 1] if int(number) else "plan the trip"
        text = f"step {number:>2} of {len(STEPS)}   {task:32} {id[:10]}"
        narrator.progress(text)
        yield int(number), id, text


def _kill(url: str, narrator: Narrator) -> list[tuple[int, str, str]]:
    """Let the agent work, and kill it within a step; return the steps that it acknowledged."""
    narrator.chapter("An agent plans a trip. Each step it takes is a commit.")
    steps = []
    with _process("trip", url) as agent:
        for step in _steps_of(agent, narrator):
            steps.append(step)
            if step[0] == KILL_AFTER_STEP:
                time.sleep(random.uniform(0.0, 0.03))  # anywhere within the next step
                agent.kill()
    narrator.progress(steps[-1][2], last=True)
    narrator.say(f"kill -9 {agent.pid}: it dies in the middle of the next step")
    narrator.check(agent.returncode != 0, "the process is gone, without a chance to clean up")
    return steps


def _nothing_lost(state: Versioned, steps: list[tuple[int, str, str]], narrator: Narrator) -> None:
    """Check that every acknowledged commit is stored, and that the last state is whole."""
    narrator.chapter("Every acknowledged commit is there.")
    stored = {commit.id for commit in state.log()}
    found = sum(id in stored for _, id, _ in steps)
    narrator.check(found == len(steps), f"{len(steps)} commits acknowledged, {found} found")
    done, events = state["done"], state.list("events")
    is_whole = len(events) == done and events[-1]["step"] == done
    narrator.check(is_whole, f"the state is consistent: {done} steps done, {len(events)} events")
    last = steps[-1][0]
    landed = "was committed as a whole" if done != last else "left nothing behind"
    narrator.say(f"step {last + 1}, which was interrupted, {landed}")


def _resume(url: str, narrator: Narrator) -> None:
    """Let a new process finish the plan, and check that no step is missing or done twice."""
    narrator.chapter("A new process resumes where the old one stopped.")
    with _process("trip", url) as agent:
        numbers = [number for number, _, _ in _steps_of(agent, narrator)]
    narrator.progress(f"steps {numbers[0]} to {numbers[-1]}, by process {agent.pid}", last=True)
    with open(url) as repo:
        steps = [event["step"] for event in repo.session(SESSION).list("events")]
    is_complete = steps == list(range(1, len(STEPS) + 1))
    narrator.check(is_complete, f"all {len(STEPS)} steps are done, each of them once")


def _time_travel(state: Versioned, narrator: Narrator) -> None:
    """Read an old state, compare two states, and ask which step set a value."""
    narrator.chapter("Every earlier state can be read.")
    past = state.at(f"main~{len(STEPS) - 3}")
    narrator.code(f'state.at("main~{len(STEPS) - 3}")["spent"], state["spent"]')
    narrator.say(f"({past['spent']}, {state['spent']})")
    narrator.check(past["done"] == 3, "an old commit reads like the present: 3 steps were done")
    narrator.code('state.diff("main~1", "main")')
    narrator.lines(changes_text(state.diff("main~1", "main"), width=66))
    narrator.code('state.blame("found")')
    blames = state.blame("found")
    for path, commit in blames[:3]:
        narrator.say(f"{commit.short}  {path:16} {commit.message}")
    blamed = dict(blames)["found/Lisbon"].message
    narrator.check(blamed == STEPS[3], f'blame names the step that set "found/Lisbon": {blamed!r}')


def _merge(state: Versioned, narrator: Narrator) -> None:
    """Change two branches, and check that counters and lists are merged without conflict."""
    narrator.chapter("Two ideas at once: a branch, and a merge without conflicts.")
    narrator.code('cheaper = state.fork("cheaper")')
    spent = int(str(state["spent"]))
    cheaper = state.fork("cheaper")
    cheaper.counter("spent").add(-60)
    cheaper.list("events").append({"step": 25, "did": "swap the flight for a night train"})
    cheaper.commit("find a night train")
    state.counter("spent").add(25)
    state.list("events").append({"step": 25, "did": "book the museum"})
    state["found/Lisbon"] = "museum booked"
    state.commit("book the museum")
    narrator.say("main: spends 25, adds one event.   cheaper: saves 60, adds another.")
    narrator.code('state.merge("cheaper")')
    is_merged = state.merge("cheaper").ok and state["spent"] == spent + 25 - 60
    narrator.check(is_merged, f"the counter adds up: {spent} + 25 - 60 = {state['spent']}")
    last = sorted(event["did"] for event in state.list("events")[-2:])
    narrator.check(len(set(last)) == 2, f"the list has both: {', '.join(last)}")


def _conflict(state: Versioned, narrator: Narrator) -> None:
    """Change one value on two branches; see the conflict, and resolve it."""
    narrator.chapter("When both sides change one value, it asks.")
    hostel = state.fork("hostel")
    hostel["hotel"] = "Hostel Luna"
    hostel.commit("choose the hostel")
    state["hotel"] = "Hotel Aurora"
    state.commit("choose the hotel")
    narrator.code('state.merge("hostel")')
    before = state.head
    result = state.merge("hostel")
    for conflict in result.conflicts:
        narrator.lines(path_conflict_lines(conflict))
    is_open = not result.ok and state.head == before
    narrator.check(is_open, "one conflict, a value with all three sides; nothing is committed yet")
    narrator.code('state.resolve_conflict("hotel", take="theirs"); state.commit("sleep cheap")')
    state.resolve_conflict("hotel", take="theirs")
    state.commit("sleep cheap")
    narrator.check(state["hotel"] == "Hostel Luna", "resolved, and the decision is in the history")


def _undo(state: Versioned, narrator: Narrator) -> None:
    """Go two steps back and forward again, to exactly the same commit."""
    narrator.chapter("Every step can be undone.")
    head = state.head
    narrator.code("state.undo(); state.undo(); state.redo(); state.redo()")
    state.undo()
    state.undo()
    hotel = state["hotel"]
    state.redo()
    state.redo()
    narrator.check(hotel == "undecided", f"two steps back the hotel was {hotel!r}")
    narrator.check(state.head == head, "and two forward again: exactly the same commit")


def _pay_once(url: str, narrator: Narrator) -> None:
    """Kill an agent between a payment and its record; check that it does not pay twice."""
    narrator.chapter("A model calls tools. Its process dies right after it has paid.")
    with tempfile.TemporaryDirectory(prefix="otolith-demo-") as folder:
        receipts = Path(folder) / "receipts"
        with _process("booking", url, str(receipts)) as agent:
            assert agent.stdout is not None
            narrator.code(f"agent.orchestrator(repo).run({BOOKING_TASK!r})")
            is_paid = agent.stdout.readline() == "paid\n"
            agent.kill()
        narrator.say(f"kill -9 {agent.pid}: the money is gone, and the payment is not recorded")
        with _process("booking", url, str(receipts)) as agent:
            answer, _ = agent.communicate()
        narrator.say(f"a new process: {answer.strip()}")
        payments = len(receipts.read_text().splitlines()) if receipts.exists() else 0
        narrator.check(is_paid and payments == 1, f"the ledger asked first: {payments} payment")


def _conversation(state: Versioned, narrator: Narrator) -> None:
    """Show the messages of the booking, and those that fit a small context."""
    chat = state.conversation
    narrator.code("for message in state.conversation: ...")
    for message in chat:
        narrator.say(f"{message.role:10} {message_line(message)}"[:76])
    is_complete = len(chat) == BOOKING_MESSAGES
    narrator.check(is_complete, f"all {len(chat)} messages are stored, each of them once")
    context = chat.context(FEW_TOKENS, for_="openai")
    narrator.code(f'state.conversation.context({FEW_TOKENS}, for_="openai")')
    fits = context.tokens <= FEW_TOKENS and 0 < len(context.messages) < len(chat)
    sent = f"{len(context.messages)} of {len(chat)} messages, {context.tokens} tokens"
    narrator.check(fits, f"what fits the budget, and no call without its result: {sent}")


def _cost(repo: Repo, state: Versioned, narrator: Narrator) -> None:
    """Compare the size of the store with a pickle per step, and verify every object."""
    narrator.chapter("What it cost.")
    names = labels(repo.branches(SESSION), repo.tags(), here="main")
    lanes = Lanes()
    for commit in list(state.log(limit=9)):
        narrator.lines(lanes.rows(commit, [oneline(commit, names)]))
    commits = list(state.log())
    stored = repo.store.usage().stored_bytes
    pickled = sum(len(pickle.dumps(repo.at(commit).to_dict())) for commit in commits)
    each, pickle_each = size_text(stored / len(commits)), size_text(pickled / len(commits))
    total = f"{size_text(state.size())}: {size_text(stored)}"
    narrator.say(f"{len(commits)} commits of a state of {total} on disk")
    narrator.say(f"that is {each} per commit; a pickle of the state would be {pickle_each}")
    ratio = pickled / stored
    narrator.check(ratio > 2, f"{ratio:.0f} times less than a pickle per step, history included")
    report = care.verify(repo, level="deep")
    narrator.check(report.ok, f"all {report.objects} objects were read back and hashed again")


# ---------------------------------------------------------------- the command


@click.command("demo")
@click.option("--keep", metavar="DIR", help="Keep the store in this directory, to look around.")
@click.option("--fast", is_flag=True, help="No pauses.")
@click.pass_context
def demo(ctx: click.Context, keep: str | None, fast: bool) -> None:
    """Kill an agent, resume it, branch and merge its state: about twenty seconds."""
    options: GlobalOptions = ctx.obj
    narrator = Narrator(pause_seconds=0.0 if fast else 1.2)
    began = time.monotonic()
    with _store_folder(options, keep) as root:
        location = StoreLocation(STORE, SESSION, "main", root)
        save(location)
        click.echo(click.style("otolith: version control for what an agent knows", bold=True))
        click.echo(f"Everything below happens now, in {location.url}")
        tell(location.url, narrator)
    colour = "red" if narrator.failed else "green"
    verdict = f"{narrator.passed} of {narrator.passed + narrator.failed} checks passed"
    seconds = time.monotonic() - began
    click.echo(f"\n{click.style(verdict, fg=colour, bold=True)}, in {seconds:.1f} seconds.")
    click.echo(LOOK_AROUND.format(keep) if keep else "To keep the store:  otolith demo --keep trip")
    ctx.exit(1 if narrator.failed else 0)


LOOK_AROUND = """
Look around:  cd {}
  otolith log --graph --oneline
  otolith show main~3
  otolith diff main~20 main --stat
  otolith blame
  otolith cat main~10:events
  otolith -s booking chat show
  otolith switch -c mine && otolith set hotel tent && otolith commit -m camping"""


@contextmanager
def _store_folder(options: GlobalOptions, keep: str | None) -> Iterator[Path]:
    """Yield the directory for the store: one that is removed afterwards, or the user's.

    Raises:
        Exists: the user's directory has a store already.
    """
    if keep is None:
        with tempfile.TemporaryDirectory(prefix="otolith-demo-") as scratch:
            yield Path(scratch)
        return
    root = options.directory / keep
    if (root / FOLDER).exists():
        raise Exists(f"{root / FOLDER} already exists", hint="choose another directory")
    root.mkdir(parents=True, exist_ok=True)
    yield root.resolve()


if __name__ == "__main__":
    match sys.argv[1:]:
        case ["trip", url]:
            plan_trip(url)
        case ["booking", url, receipts]:
            book_train(url, Path(receipts))
