"""The compiler of executable content: values, guards and actions as functions of a session.

Each part of a definition is compiled once, when its chart is made; a step only calls the results.

An expression that cannot be parsed raises `BadChart` at once, except in SCXML: there the standard
wants the error when the expression is used. Its function then fails whenever it is called, and
`ContentCompiler.problems` lists the place for those who check the document.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, ClassVar, TypeAlias

from otolith.durations import parse_duration
from otolith.errors import BadChart, BadValue, StepFailed
from otolith.frozen import EMPTY, FrozenList, freeze
from otolith.statecharts.definition import (
    Action,
    Assign,
    Block,
    Call,
    Cancel,
    Definition,
    Emit,
    Expression,
    ForEach,
    Guard,
    If,
    Log,
    NamedGuard,
    Param,
    Payload,
    Raise,
    Script,
    Send,
    Value,
)
from otolith.statecharts.engine.event_processor import send
from otolith.statecharts.engine.session import ChartFailure, ChartSession, freeze_value
from otolith.statecharts.expressions import (
    DIALECTS,
    EvaluationError,
    ExpressionError,
    Location,
    compile_expression,
    compile_location,
    compile_script,
)
from otolith.statecharts.snapshot import ChartEvent

ValueFunction: TypeAlias = Callable[[ChartSession], Any]
GuardFunction: TypeAlias = Callable[[ChartSession], bool]
ActionFunction: TypeAlias = Callable[[ChartSession], None]
CompiledBlock: TypeAlias = tuple[ActionFunction, ...]

_EXPRESSION_ERRORS = (
    EvaluationError,  # the others would be bugs of the evaluator, and must not end a run
    *(RecursionError, ArithmeticError, LookupError, TypeError, ValueError),
)
_NAME = re.compile(r"(?!__)[^\W\d][\w$]*")


def parse_delay(value: Any, place: str = "") -> int:
    """Return microseconds: of a number of milliseconds, or of a text such as `1.5s` or `200ms`."""
    if isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value < 1e15:
        return int(value * 1_000)
    found = parse_duration(value, "ms") if isinstance(value, str) else None
    if found is None:
        message = f"a delay must be milliseconds or a text such as 1.5s, got {value!r}"
        raise ChartFailure(message, place=place)
    return found


class ContentCompiler:
    """Compiles the parts of one definition; `place` names the part that is compiled now."""

    def __init__(self, definition: Definition) -> None:
        self.place = definition.name
        self.problems: list[str] = []
        self._is_scxml = definition.is_scxml
        self._dialect = DIALECTS[definition.dialect]

    def block(self, actions: Block) -> CompiledBlock:
        """Return the actions of a block as functions."""
        return tuple(self._compilers[type(action)](self, action) for action in actions)

    # ------------------------------------------------------------ values

    def value(self, value: Value | None) -> ValueFunction:
        """Return what computes a value; without one it is None."""
        if isinstance(value, Expression):
            return self._expression(value)
        try:
            constant = None if value is None else freeze(value.value)
        except (BadValue, RecursionError) as error:
            raise BadChart(str(error), place=self.place) from error
        return lambda session: constant

    def payload(self, payload: Payload) -> ValueFunction:
        """Return what computes the data of an event: one value, named values, or None."""
        if payload.content is None and payload.params:
            return self._params(payload.params)
        return self.value(payload.content)

    def _params(self, params: tuple[Param, ...]) -> Callable[[ChartSession], dict[str, Any]]:
        """Return what computes named arguments."""
        if not params:
            return lambda session: EMPTY
        getters = [(param.name, self.value(param.value)) for param in params]
        return lambda session: {name: get(session) for name, get in getters}

    def _expression(self, expression: Expression) -> ValueFunction:
        """Return what evaluates an expression; a failure names the text and its place."""
        dialect = DIALECTS.get(expression.dialect)
        if dialect is None:
            raise BadChart(
                f"{expression.dialect} is not a known expression language",
                place=self.place,
                hint=f"use one of {', '.join(DIALECTS)}",
            )
        place, text = self.place, expression.text
        try:
            evaluate = compile_expression(text, dialect)
        except ExpressionError as error:
            return self._fail_when_used(text, error)

        def get(session: ChartSession) -> Any:
            """Evaluate; an error of the expression fails the block, at its place."""
            try:
                return evaluate(session)
            except _EXPRESSION_ERRORS as error:
                raise ChartFailure(f"{text}: {error}", place=place) from error

        return get

    def _fail_when_used(self, text: str, error: ExpressionError) -> Callable[..., Any]:
        """Return a function that always fails; outside SCXML, raise now."""
        place, message = self.place, f"{text.strip()[:80]!r} cannot be parsed: {error}"
        if not self._is_scxml:
            raise BadChart(message, place=place, hint="see the expression language") from error
        self.problems.append(f"{place}: {message}")

        def fail(*_: object) -> Any:
            raise ChartFailure(message, place=place)

        return fail

    # ------------------------------------------------------------ guards

    def guard(self, guard: Guard | None) -> GuardFunction | None:
        """Return a test: a guard that fails is false, and its failure is reported to the chart."""
        if guard is None:
            return None
        ask = self._named_guard(guard) if isinstance(guard, NamedGuard) else self._truth(guard)

        def test(session: ChartSession) -> bool:
            """Return whether the guard holds; one that fails is reported and does not."""
            try:
                return ask(session)
            except ChartFailure as failure:
                session.report(failure)
                return False

        return test

    def _truth(self, expression: Expression) -> GuardFunction:
        """Return what asks whether an expression is true, in the meaning of its dialect."""
        get = self._expression(expression)
        truth = DIALECTS[expression.dialect].truth
        return lambda session: truth(get(session))

    def _named_guard(self, guard: NamedGuard) -> GuardFunction:
        """Return what calls a registered guard; it may be registered after the chart is made."""
        params, name, place = self._params(guard.params), guard.name, self.place
        place_of_guard = f"{place}: guard {name}"

        def ask(session: ChartSession) -> bool:
            """Call the function that is bound to the guard."""
            function = session.chart.bindings.guards.get(name)
            if function is None:
                raise StepFailed(
                    f"the guard {name!r} is not bound",
                    place=place,
                    hint=f"register it: @chart.guard def {name}(data, event)",
                )
            return bool(_call_bound(function, session, params(session), place_of_guard))

        return ask

    # ------------------------------------------------------------ actions

    def location(self, text: str | None) -> Callable[[ChartSession, Any], None] | None:
        """Return what assigns to a location of the data, such as `trip.days[0]`."""
        if not text:
            return None
        try:
            location = compile_location(text, self._dialect)
        except ExpressionError as error:
            return self._fail_when_used(text, error)
        place, is_declared_only = self.place, self._is_scxml
        return lambda session, value: _assign_at(
            session, location, value, place, is_declared_only=is_declared_only
        )

    def _assign(self, action: Assign) -> ActionFunction:
        """Return what assigns a value to a location."""
        get, assign = self.value(action.value), self.location(action.location)
        assert assign is not None
        return lambda session: assign(session, get(session))

    def _script(self, action: Script) -> ActionFunction:
        """Return what makes the assignments of a script; a script may declare variables."""
        place = self.place
        try:
            statements = compile_script(action.text, self._dialect)
        except ExpressionError as error:
            return self._fail_when_used(action.text, error)

        def run(session: ChartSession) -> None:
            """Execute the action in a session."""
            for location, evaluate in statements:
                try:
                    value = evaluate(session)
                except _EXPRESSION_ERRORS as error:
                    raise ChartFailure(f"script: {error}", place=place) from error
                _assign_at(session, location, value, place, is_declared_only=False)

        return run

    def _raise(self, action: Raise) -> ActionFunction:
        """Return what puts an event on the internal queue."""
        payload, name = self.payload(action.payload), action.event
        return lambda session: session.internal_queue.append(
            ChartEvent(name, freeze_value(payload(session)), "internal")
        )

    def _send(self, action: Send) -> ActionFunction:
        """Return what evaluates the arguments of a send, in document order, and sends.

        The error event of a send that fails carries its id, if the document knows that id.
        """
        values = (action.event, action.target, action.type, action.delay)
        event, target, type, delay = (self.value(value) for value in values)
        payload, place = self.payload(action.payload), self.place
        store_id = self.location(action.id_location)
        is_id_visible = action.id is not None or store_id is not None

        def run(session: ChartSession) -> None:
            """Execute the action in a session."""
            id = action.id or f"send.{session.scope.next_number()}"
            try:
                if store_id is not None:
                    store_id(session, id)
                wait = delay(session)
                send(
                    session,
                    event(session),
                    freeze_value(payload(session)),
                    target=target(session),
                    type=type(session),
                    id=id,
                    is_id_visible=is_id_visible,
                    delay=0 if wait is None else parse_delay(wait, place),
                )
            except ChartFailure as failure:
                failure.place = failure.place or place
                failure.send_id = id if is_id_visible else None
                raise

        return run

    def _cancel(self, action: Cancel) -> ActionFunction:
        """Return what drops the timers of an id; an id without timers is fine."""
        get = self.value(action.id)

        def run(session: ChartSession) -> None:
            """Execute the action in a session."""
            id = get(session)
            session.timers = [timer for timer in session.timers if timer.id != id]

        return run

    def _log(self, action: Log) -> ActionFunction:
        """Return what asks the host to log a value."""
        get, label = self.value(action.value), action.label
        return lambda session: session.add_effect("log", label, {"value": get(session)})

    def _emit(self, action: Emit) -> ActionFunction:
        """Return what asks the host to emit an event; its name may be computed."""
        event, payload, place = self.value(action.event), self.payload(action.payload), self.place

        def run(session: ChartSession) -> None:
            """Execute the action in a session."""
            name = event(session)
            if not isinstance(name, str):
                message = f"the name of an event must be a string, got {name!r}"
                raise ChartFailure(message, place=place)
            session.add_effect("emit", name, {"data": payload(session)})

        return run

    def _if(self, action: If) -> ActionFunction:
        """Return what runs the first branch whose guard holds."""
        branches = [(self.guard(each.guard), self.block(each.actions)) for each in action.branches]

        def run(session: ChartSession) -> None:
            """Execute the action in a session."""
            for guard, block in branches:
                if guard is None or guard(session):
                    for inner in block:
                        inner(session)
                    return

        return run

    def _for_each(self, action: ForEach) -> ActionFunction:
        """Return what runs the actions for each item of a list.

        The list is frozen first, so changes made by the actions do not change the iteration. The
        variables are declared even if the list is empty, as the standard wants.
        """
        array, block, place = self.value(action.array), self.block(action.actions), self.place
        names = [action.item, *([action.index] if action.index else [])]

        def run(session: ChartSession) -> None:
            """Execute the action in a session."""
            items = freeze_value(array(session))
            if not isinstance(items, FrozenList):
                raise ChartFailure("foreach needs a list", place=place)
            for name in names:
                if not _NAME.fullmatch(name):
                    raise ChartFailure(f"{name!r} is not a valid name", place=place)
            session.assign({name: session.data.get(name) for name in names})
            for index, item in enumerate(items):
                session.assign(dict(zip(names, (item, index), strict=False)))
                for inner in block:
                    inner(session)

        return run

    def _call(self, action: Call) -> ActionFunction:
        """Return what calls a registered action, or asks the host if there is none."""
        params, name = self._params(action.params), action.name
        place = f"{self.place}: action {name}"

        def run(session: ChartSession) -> None:
            """Execute the action in a session."""
            function = session.chart.bindings.actions.get(name)
            if function is None:
                session.add_effect("call", name, params(session))
                return
            updates = _call_bound(function, session, params(session), place)
            if updates is None:
                return
            if not isinstance(updates, dict):
                message = f"an action must return a dict or None, got {type(updates).__name__}"
                raise ChartFailure(message, place=place)
            session.assign(updates)

        return run

    _compilers: ClassVar[dict[type[Action], Callable[[ContentCompiler, Any], ActionFunction]]] = {
        Assign: _assign,
        Script: _script,
        Raise: _raise,
        Send: _send,
        Cancel: _cancel,
        Log: _log,
        Emit: _emit,
        If: _if,
        ForEach: _for_each,
        Call: _call,
    }


def _assign_at(
    session: ChartSession, location: Location, value: Any, place: str, *, is_declared_only: bool
) -> None:
    """Assign to a location; SCXML allows only variables that the document declares."""
    name = location.name
    if name not in session.data and (location.is_nested or is_declared_only):
        raise ChartFailure(f"{name} is not declared, so it cannot be assigned", place=place)
    try:
        new = location.updated(session, session.data.get(name), freeze_value(value))
        session.assign({name: new})
    except EvaluationError as error:
        raise ChartFailure(str(error), place=place) from error
    except ChartFailure as failure:
        failure.place = failure.place or place
        raise


def _call_bound(
    function: Callable[..., Any], session: ChartSession, params: dict[str, Any], place: str
) -> Any:
    """Call a guard or action that the user registered; any exception is a failure of that place."""
    try:
        return function(session.data, session.event, **params)
    except Exception as error:
        raise ChartFailure(f"{type(error).__name__}: {error}", place=place) from error
