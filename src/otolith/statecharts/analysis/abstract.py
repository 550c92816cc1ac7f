"""The abstract chart: what a chart can do if every guard may be true or false.

`AbstractChart` is a second chart of the same states and transitions, with the same numbers, in
which guards ask an oracle and actions only do what can move the chart: raise, send, cancel, invoke.
An assignment is only a mark that data may have changed. Guards about active states stay as they
are. Where the chart handles `error.execution`, whatever can fail does so in one of the possible
steps. So the real step, run on this chart in every possible way, reaches everything that the chart
can reach with any data, and what it does not reach cannot happen. What cannot be followed is noted
in `blind`.

The oracle answers the guards in every combination, one run of the step for each. A guard is a
function of the data, the event and the active states: asked again while none of them has changed,
it gets the same answer, so that a loop that a guard keeps open stays open. If only the data may
have changed since an earlier moment of the same step, the run is abandoned: everything that can
happen from here can happen from there, and is found there.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator
from dataclasses import replace
from typing import Any, NamedTuple

from otolith.errors import StepFailed
from otolith.statecharts.analysis.findings import is_about_states, location_of, text_of
from otolith.statecharts.definition import (
    Action,
    Assign,
    Block,
    Call,
    Cancel,
    Datum,
    Definition,
    Expression,
    ForEach,
    Guard,
    If,
    IfBranch,
    Invoke,
    Literal,
    NamedGuard,
    Payload,
    Raise,
    Script,
    Send,
    State,
    Transition,
)
from otolith.statecharts.engine.compiled_chart import Bindings, CompiledChart
from otolith.statecharts.engine.executable_content import parse_delay
from otolith.statecharts.engine.session import ChartFailure, ChartSession
from otolith.statecharts.engine.step import StepResult
from otolith.statecharts.snapshot import ChartEvent

MAX_QUESTIONS = 40
MAX_WAYS = 1_500
FEWER_WAYS = 50
MAX_ENDLESS = 25
FEWER_ENDLESS = 2
"""How many questions one step may ask, how many runs of one step are made, and how many of these
may be endless. Once that was not enough, fewer do: the answer is not complete anyway."""
UNKNOWN = "?"
"""The data of an event whose data is only known when the chart runs."""


class PossibleStep(NamedTuple):
    """One possible result of a step, or its error; `is_sure` if no guard was asked."""

    step: StepResult | None
    error: StepFailed | None
    is_sure: bool


class _Abandon(Exception):
    """The step is where it was before, or asks too many questions: this run is abandoned."""


class Oracle:
    """Answers questions from a list, and then with the first possible answer: no."""

    def __init__(self) -> None:
        self.is_exhausted = False
        self._begin(())

    def _begin(self, given: tuple[int, ...]) -> None:
        self._given = given
        self._answers: list[int] = []
        self._ways: list[int] = []
        self._known: dict[Hashable, int] = {}
        self._met: dict[Hashable, int] = {}
        self._held: list[Any] = []
        self._asking: Hashable = None

    def possible_steps(self, work: Callable[[], StepResult]) -> Iterator[PossibleStep]:
        """Yield the result of a step for every combination of answers."""
        waiting: list[tuple[int, ...]] = [()]
        count = endless = 0
        most, most_endless = MAX_WAYS, MAX_ENDLESS
        if self.is_exhausted:
            most, most_endless = FEWER_WAYS, FEWER_ENDLESS
        while waiting:
            count += 1
            if count > most or endless > most_endless:
                self.is_exhausted = True
                return
            given = waiting.pop()
            way = self._one(given, work)
            if way is not None:
                endless += way.error is not None
                yield way
            for at in range(len(given), len(self._answers)):
                before = tuple(self._answers[:at])
                waiting.extend((*before, answer) for answer in range(1, self._ways[at]))

    def _one(self, given: tuple[int, ...], work: Callable[[], StepResult]) -> PossibleStep | None:
        self._given = given
        if self._answers:
            self._begin(given)
        try:
            step = work()
        except _Abandon:
            return None
        except StepFailed as error:
            return PossibleStep(None, error, not self._answers)
        return PossibleStep(step, None, not self._answers)

    def ask(self, ways: int = 2) -> int:
        """Return the next answer: 0 is no, 1 is yes, 2 is a failure."""
        at = len(self._answers)
        if at >= MAX_QUESTIONS:
            self.is_exhausted = True
            return 0
        answer = self._given[at] if at < len(self._given) else 0
        self._answers.append(answer)
        self._ways.append(ways)
        return answer

    def test(self, guard: str, *, can_fail: bool) -> Callable[[ChartSession], bool]:
        """Return a guard for a transition that asks the oracle."""
        ways = 3 if can_fail else 2

        def test(session: ChartSession) -> bool:
            key = (guard, session.mask, id(session.data), _visible(session.event), session.id)
            answer = self._known.get(key)
            if answer is None:
                self._check_progress(session, guard)
                if len(self._answers) >= MAX_QUESTIONS:
                    self.is_exhausted = True
                    raise _Abandon
                answer = self._known[key] = self.ask(ways)
                self._held += (session.data, session.event)  # so that an id stays theirs
            if answer == 2:
                session.report(ChartFailure(f"the guard {guard} may fail"))
            return answer == 1

        return test

    def _check_progress(self, session: ChartSession, guard: str) -> None:
        """Abandon the run if a first question is asked where it was asked before."""
        asking = (session.id, len(session.scope.trace), id(session.event))
        if asking == self._asking:
            return  # answers that were given since belong to where we are
        self._asking = asking
        place = (guard, session.id, *map(_position, session.scope.root.with_descendants()))
        met = self._met.setdefault(place, id(session.data))
        if met != id(session.data):
            raise _Abandon

    def says_yes(self, data: Any, event: Any) -> bool:
        """Answer a guard inside of actions; it has the shape of a registered guard."""
        return self.ask() == 1


def _visible(event: ChartEvent | None) -> Hashable:
    """Return what guards can see of an event; one with unknown data equals no other."""
    if event is None or event.data is None:
        return event
    return id(event) if event.data == UNKNOWN else repr(event)


def _position(session: ChartSession) -> Hashable:
    """Return all that the rest of the step depends on, without data and answers."""
    return (
        session.id,
        session.mask,
        session.states_to_invoke,
        session.status,
        "" if session.event is None else session.event.name,
        tuple(event.name for event in session.internal_queue),
        tuple(event.name for event in session.external_queue),
        tuple(sorted((timer.event.name, timer.target or "") for timer in session.timers)),
        tuple(sorted(session.history.items())),
    )


_ASK = NamedGuard("?")
_CHANGE_DATA = (Call("?"),)
_SOME_DELAY = Literal(1_000)
_ERROR = (Raise("error.execution"),)


class AbstractChart:
    """The chart without data, the oracle that its guards ask, and what could not be followed."""

    def __init__(self, chart: CompiledChart) -> None:
        self.oracle = Oracle()
        self.blind: dict[str, None] = {}
        self._made: dict[int, CompiledChart] = {}
        self._bindings = Bindings(guards={"?": self.oracle.says_yes}, actions={"?": _change_data})
        self._bindings.outlets |= chart.bindings.outlets
        self.chart = self._stripped(chart)

    def _stripped(self, chart: CompiledChart) -> CompiledChart:
        found = self._made.get(id(chart))
        if found is None:
            found = CompiledChart(_DataRemover(self, chart).definition(), self._bindings)
            self._made[id(chart)] = found
            self._patch(found, chart)
            for name, child in chart.bindings.charts.items():
                self._bindings.charts.setdefault(name, self._stripped(child))
        return found

    def _patch(self, chart: CompiledChart, original: CompiledChart) -> None:
        """Let the guards of transitions ask the oracle, in the charts inside this one too."""
        listens = handles_errors(original)
        for node in chart.order:
            for transition, original_transition in zip(
                node.transitions, node.state.transitions, strict=True
            ):
                guard = original_transition.guard
                if guard is not None and not is_about_states(guard):
                    transition.guard = self.oracle.test(repr(guard), can_fail=listens)
        for node, other in zip(chart.order, original.order, strict=True):
            for each, theirs in zip(node.invokes, other.invokes, strict=True):
                if isinstance(each.content, CompiledChart):
                    assert isinstance(theirs.content, CompiledChart)
                    self._patch(each.content, theirs.content)


def handles_errors(chart: CompiledChart) -> bool:
    """Return whether some transition handles `error.execution`."""
    return "error.execution" in chart.error_events and any(
        chart.matches(transition, "error.execution") for transition in chart.transitions
    )


class _DataRemover:
    """Removes the data from one definition."""

    def __init__(self, abstract: AbstractChart, chart: CompiledChart) -> None:
        self._abstract = abstract
        self._chart = chart
        self._definition = chart.definition
        self._handles_errors = handles_errors(chart)

    def definition(self) -> Definition:
        """Return the definition without its data."""
        found = self._definition
        script = self.block(found.script)
        if self._handles_errors and any(_is_computed(datum.value) for datum in self._data()):
            script = (*_maybe(_ERROR), *script)
        return replace(found, root=self.state(found.root), script=script)

    def _data(self) -> list[Datum]:
        return [datum for node in self._chart.order for datum in node.state.data]

    def state(self, state: State) -> State:
        """Return a state, and those below it, without data."""
        initial = None if state.initial is None else self.transition(state.initial)
        return replace(
            state,
            children=tuple(self.state(child) for child in state.children),
            initial=initial,
            transitions=tuple(self.transition(each) for each in state.transitions),
            entry=tuple(self.block(block) for block in state.entry),
            exit=tuple(self.block(block) for block in state.exit),
            invokes=tuple(self.invoke(each, state) for each in state.invokes),
            data=(),
            output=None,
        )

    def transition(self, transition: Transition) -> Transition:
        """Return a transition with a known delay; its guard is replaced later."""
        delay = _SOME_DELAY if isinstance(transition.delay, Expression) else transition.delay
        return replace(transition, actions=self.block(transition.actions), delay=delay)

    def invoke(self, invoke: Invoke, state: State) -> Invoke:
        """Return an invoke of the child chart without its data, or of an unknown service."""
        finalize = None if invoke.finalize is None else self.block(invoke.finalize)
        invoke = replace(invoke, id_location=None, payload=Payload(), finalize=finalize)
        content = invoke.content
        if isinstance(content, Definition):
            inner = next(
                each.content
                for each in self._chart.nodes[state.id].invokes
                if each.invoke.content is content
            )
            assert isinstance(inner, CompiledChart)
            return replace(invoke, content=_DataRemover(self._abstract, inner).definition())
        if content is not None or _is_computed(invoke.source) or _is_computed(invoke.type):
            self._note(f"{state.id} invokes what is only known when it runs")
            return replace(invoke, source=Literal("?"), type=Literal("?"), content=None)
        return invoke

    def _note(self, words: str) -> None:
        self._abstract.blind[words] = None

    # ------------------------------------------------------------ actions

    def block(self, block: Block) -> Block:
        """Return the actions that move the chart; what can fail ends the block in one run."""
        if not block:
            return ()
        action, rest = block[0], self.block(block[1:])
        remaining = (*self.action(action), *rest)
        if self._handles_errors and self._can_fail(action):
            return (If((IfBranch(_ASK, _ERROR), IfBranch(None, remaining))),)
        return remaining

    def action(self, action: Action) -> Block:
        """Return what an action does that can move the chart."""
        if isinstance(action, Raise):
            return (replace(action, payload=_without_data(action.payload)),)
        if isinstance(action, Send):
            return self._send(action)
        if isinstance(action, Cancel):
            return () if _is_computed(action.id) else (action,)
        if isinstance(action, If):
            return self._if(action)
        if isinstance(action, ForEach):
            inner = self.block(action.actions)
            if any(each != _CHANGE_DATA[0] for each in inner):
                self._note("a loop over a list raises or sends events: once or never is assumed")
            return (*_CHANGE_DATA, *(_maybe(inner) if inner else ()))
        if isinstance(action, Assign | Script) or self._is_bound(action):
            return _CHANGE_DATA
        return ()

    def _is_bound(self, action: Action) -> bool:
        """Return whether an action is a registered function, which may do anything to the data."""
        return isinstance(action, Call) and action.name in self._chart.bindings.actions

    def _if(self, action: If) -> Block:
        """Return the branches with their guards asking the oracle, if they can move the chart."""
        branches = tuple(
            IfBranch(_abstract_guard(branch.guard), self.block(branch.actions))
            for branch in action.branches
        )
        return (If(branches),) if any(branch.actions for branch in branches) else ()

    def _send(self, action: Send) -> Block:
        """Return a send without its data; one that is computed cannot be followed."""
        if _is_computed(action.event):
            self._note("an event is sent whose name is only known when it runs")
            return ()
        if _is_computed(action.target) or _is_computed(action.type):
            self._note(f"{text_of(action.event)} is sent to what is only known when it runs")
            return ()
        delay = action.delay
        if delay is not None and not _is_zero(delay):
            delay = _SOME_DELAY
        return (
            replace(action, payload=_without_data(action.payload), id_location=None, delay=delay),
        )

    def _can_fail(self, action: Action) -> bool:
        """Return whether an action may fail, for some data."""
        if isinstance(action, Assign):
            return _is_computed(action.value) or not self._is_settable(action.location)
        if isinstance(action, Call):
            computed = any(_is_computed(param.value) for param in action.params)
            return computed or self._is_bound(action)
        if isinstance(action, If):
            guards = [branch.guard for branch in action.branches if branch.guard is not None]
            inner = [each for branch in action.branches for each in branch.actions]
            return any(not is_about_states(guard) for guard in guards) or any(
                self._can_fail(each) for each in inner
            )
        return _has_expression(action)

    def _is_settable(self, location: str) -> bool:
        """Return whether an assignment to a location cannot fail."""
        name, is_nested, _ = location_of(location, self._definition.dialect)
        if is_nested or not name:
            return False
        return not self._definition.is_scxml or any(datum.name == name for datum in self._data())


def _change_data(data: Any, event: Any) -> dict[str, Any]:
    """Stand for any change of the data: its result is a new object, so guards are asked again."""
    return {}


def _is_computed(value: Any) -> bool:
    return isinstance(value, Expression)


def _is_zero(delay: Any) -> bool:
    try:
        return not _is_computed(delay) and parse_delay(delay.value) == 0
    except ChartFailure:
        return False


def _has_expression(action: Any) -> bool:
    """Return whether an action computes anything; scripts and loops always do."""
    if isinstance(action, Raise):
        return _payload_computes(action.payload)
    values = [
        getattr(action, name, None) for name in ("event", "target", "type", "delay", "id", "value")
    ]
    if any(map(_is_computed, values)) or getattr(action, "id_location", None):
        return True
    payload = getattr(action, "payload", None)
    if payload is not None:
        return _payload_computes(payload)
    return not isinstance(action, Cancel) and not hasattr(action, "label")


def _without_data(payload: Payload) -> Payload:
    return Payload(content=Literal(UNKNOWN)) if _payload_computes(payload) else payload


def _payload_computes(payload: Payload) -> bool:
    return _is_computed(payload.content) or any(_is_computed(each.value) for each in payload.params)


def _maybe(block: Block) -> Block:
    return (If((IfBranch(_ASK, block),)),)


def _abstract_guard(guard: Guard | None) -> Guard | None:
    return guard if guard is None or is_about_states(guard) else _ASK
