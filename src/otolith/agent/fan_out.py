"""Fan-out: several sub-agents do tasks at the same time, as members of a team.

    tasks = {"scout": (agent, "Look for flights"), "critic": (agent, "Look for risks")}
    found = fan_out(team, tasks, budget=50_000, queues={"browse": 1})

Each works on a branch of the team's state, which it commits to as a member. When it is done, its
branch is merged into the team's state; what conflicts goes to the team's inbox. The tokens of all
models are counted in the team's state, where everybody sees them, and a budget ends all runs before
their next step. A tool that is scarce is called by as many of them at once as its queue has slots.

Everything is found again after kill -9: made again with the same name, `fan_out` resumes the tasks
that are not over, and returns the outcomes of those that are.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import contextmanager
from contextvars import copy_context
from copy import copy
from dataclasses import dataclass, field
from functools import wraps
from threading import Lock
from typing import Any

from otolith.agent.models.base import Messages, Model, OnText, Reply, Tools
from otolith.agent.orchestrator import Orchestrator, OrchestratorFactory
from otolith.agent.state import Outcome
from otolith.agent.timeouts import await_if_needed
from otolith.agent.tools import Tool, Toolbox
from otolith.core import format_path
from otolith.errors import Invalid, RefExists
from otolith.session import Versioned
from otolith.shapes import NOTHING, check_argument
from otolith.teams import FairQueue, InboxConflict, Team
from otolith.types import short_repr

_BUDGETS = "budgets"


@short_repr("outcomes", "conflicts", "failures", "spent")
@dataclass(frozen=True, slots=True)
class FanOut:
    """How the tasks of a fan-out ended."""

    outcomes: dict[str, Outcome]
    """How the run of each sub-agent ended, by its name; one that raised an error is not here."""
    failures: dict[str, Exception]
    """What was raised by a sub-agent or by merging its work."""
    conflicts: list[InboxConflict] = field(default_factory=list)
    """The new entries of the team's inbox."""
    spent: int = 0
    """The tokens that all calls of models have cost, those of earlier attempts included."""

    @property
    def is_done(self) -> bool:
        """Whether every task is over; if not, the same call resumes those that are not."""
        return not self.failures and all(each.state.is_over for each in self.outcomes.values())


class TokenBudget:
    """Counts the tokens of several runs in the state of a team, and stops them at a limit."""

    def __init__(self, team: Team[Versioned], name: str, limit: int | None) -> None:
        self.path = format_path((_BUDGETS, name))
        self._team = team
        self._limit = limit
        self._lock = Lock()
        self._running: set[Orchestrator] = set()

    @property
    def spent(self) -> int:
        """The tokens that were spent, by all processes."""
        with self._lock:
            self._team.state.refresh()
            return int(self._team.state.get(self.path, 0))

    @contextmanager
    def count(self, runner: Orchestrator) -> Iterator[None]:
        """Stop a run when the budget is spent, also by others."""
        with self._lock:
            self._running.add(runner)
        try:
            yield
        finally:
            with self._lock:
                self._running.discard(runner)

    @property
    def is_spent(self) -> bool:
        """Whether nothing is left."""
        return self._limit is not None and self.spent >= self._limit

    def spend(self, tokens: int) -> None:
        """Count tokens; if none are left, all runs end before their next step."""
        with self._lock:
            total = self._team.transact(
                lambda state: state.counter(self.path).add(tokens), f"{tokens} tokens"
            )
            if self._limit is not None and total >= self._limit:
                self._stop_all()

    def stop(self) -> None:
        """End all runs before their next step."""
        with self._lock:
            self._stop_all()

    def _stop_all(self) -> None:
        for runner in self._running:
            runner.stop()


class MeteredModel:
    """A model whose tokens are counted in a budget."""

    def __init__(self, model: Model, budget: TokenBudget) -> None:
        self._model = model
        self._budget = budget

    def __getattr__(self, name: str) -> Any:
        return getattr(self._model, name)

    @property
    def name(self) -> str:
        """The name of the model."""
        return self._model.name

    def complete(
        self, messages: Messages, *, tools: Tools = (), on_text: OnText | None = None
    ) -> Reply:
        """Return the answer of the model, and count what it cost."""
        reply = self._model.complete(messages, tools=tools, on_text=on_text)
        self._budget.spend(reply.usage.input_tokens + reply.usage.output_tokens)
        return reply


def fan_out(
    team: Team[Versioned],
    tasks: Mapping[str, tuple[Orchestrator | OrchestratorFactory, str]],
    *,
    name: str = "fan-out",
    budget: int | None = None,
    queues: Mapping[str, int] | None = None,
    at_once: int = 4,
    **limits: Any,
) -> FanOut:
    """Let sub-agents do tasks at the same time, and merge what they did.

    `tasks` has, by the name of the member, an agent and what it has to do. `name` tells one fan-out
    of a team from another. `budget` is how many tokens all of them may spend together, `queues` how
    many of them may use a tool at once, by its name, `at_once` how many run at once here. `limits`
    are those of a run: `max_steps`, `max_seconds`.

    A sub-agent that fails, or whose work cannot be merged, does not end the others.

    Raises:
        Invalid: there are no tasks, or a queue is for a tool that nobody has.
    """
    _check(tasks, budget, queues, at_once)
    meter = TokenBudget(team.as_member(team.member), name, budget)
    team.state.refresh()
    if team.state.head is None:
        team.state.commit(f"fan out {name}", allow_empty=True)

    def work(member: str) -> tuple[Outcome, list[InboxConflict]]:
        worker, task = tasks[member]
        return _SubAgent(team, member, name, meter, queues or {}).run(worker, task, limits)

    outcomes: dict[str, Outcome] = {}
    failures: dict[str, Exception] = {}
    conflicts: list[InboxConflict] = []
    with ThreadPoolExecutor(at_once, thread_name_prefix=f"otolith {name}") as pool:
        jobs = {member: pool.submit(copy_context().run, work, member) for member in tasks}
        try:
            wait(jobs.values())
        except BaseException:
            for job in jobs.values():
                job.cancel()
            meter.stop()  # the runs end before their next step, and can be resumed
            raise
    for member, job in jobs.items():
        try:
            outcomes[member], found = job.result()
        except Exception as error:  # noqa: BLE001 - of one, and the others have done their work
            failures[member] = error
        else:
            conflicts += found
    team.state.refresh()
    return FanOut(outcomes, failures, conflicts, meter.spent)


class _SubAgent:
    """One member of a fan-out: its branch, its tools and its budget."""

    def __init__(
        self,
        team: Team[Versioned],
        member: str,
        name: str,
        budget: TokenBudget,
        queues: Mapping[str, int],
    ) -> None:
        self._team = team.as_member(member)
        self._name = name
        self._budget = budget
        self._queues = queues

    def run(
        self, worker: Orchestrator | OrchestratorFactory, task: str, limits: Mapping[str, Any]
    ) -> tuple[Outcome, list[InboxConflict]]:
        """Do a task on the branch, and merge it if it is over."""
        state = self._team.state
        fork = self._branch(state)
        made = worker if isinstance(worker, Orchestrator) else worker.orchestrator()
        runner = made.copy_for(fork, self._team.member)
        if runner.model is not None:
            runner.model = MeteredModel(runner.model, self._budget)
        runner.tools = Toolbox(map(self._queued, made.tools.values()))
        if self._budget.is_spent:
            runner.stop()
        with self._budget.count(runner):
            outcome = runner.run(task, session=fork.session, **limits)
        return outcome, self._team.merge(fork) if outcome.state.is_over else []

    def _branch(self, state: Versioned) -> Versioned:
        """Return the branch of this member, which may be there from an earlier attempt."""
        branch = f"{self._name}/{self._team.member}"
        try:
            return state.fork(branch)
        except RefExists:
            return self._team.open_branch(branch)

    def _queued(self, tool: Tool) -> Tool:
        """Return a tool that waits for its turn, if it has a queue."""
        slots = self._queues.get(tool.name)
        if slots is None:
            return tool
        queued = copy(tool)
        queued.function = _in_turn(tool.function, self._team.queue(tool.name, slots=slots))
        return queued


def _in_turn(function: Callable[..., Any], queue: FairQueue) -> Callable[..., Any]:
    """Return a function that is called while it has a slot of a queue."""

    @wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        with queue:
            return await_if_needed(function(*args, **kwargs))

    return call


def _check(
    tasks: Mapping[str, tuple[Orchestrator | OrchestratorFactory, str]],
    budget: object,
    queues: Mapping[str, int] | None,
    at_once: object,
) -> None:
    """Refuse arguments of `fan_out` that make no sense."""
    check_argument(tasks, "tasks", Mapping, "agents and their tasks, by the name of the member")
    check_argument(budget, "budget", (int, NOTHING), "a number of tokens, or None")
    if not tasks:
        raise Invalid("there are no tasks", hint='such as {"scout": (agent, "Look for flights")}')
    if type(at_once) is not int or at_once < 1:
        raise Invalid(f"at_once must be at least 1, got {at_once!r}")
    tools: set[str] = set()
    pairs: Mapping[str, Any] = tasks
    for member, pair in pairs.items():
        if not isinstance(pair, tuple) or len(pair) != 2 or not isinstance(pair[1], str):
            raise Invalid(f"the task of {member!r} must be an agent and a text, got {pair!r:.80}")
        worker = pair[0] if isinstance(pair[0], Orchestrator) else pair[0].orchestrator()
        tools |= worker.tools.keys()
    for tool in (queues or {}).keys() - tools:
        raise Invalid(f"queue {tool!r} is for a tool that nobody has", hint="name a tool")
