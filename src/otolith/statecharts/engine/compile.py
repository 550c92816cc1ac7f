"""Actions: each kind of a definition's actions as a function of a run.

From the values, guards and actions of a definition to functions of a run.

An expression that cannot be read is a `BadChart` at once, except in SCXML: there the standard has
the error raised when the expression is used, so the function fails whenever it is called, and
`Compiler.problems` remembers the place for whoever checks the document.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, TypeAlias

from otolith.errors import BadChart, BadValue, StepFailed
from otolith.frozen import EMPTY, FrozenList, freeze
from otolith.statecharts.definition import (
    Action,
    Assign,
    Block,
    Branch,
    Call,
    Cancel,
    Definition,
    Emit,
    Expression,
    ForEach,
    Guard,
    If,
    Literal,
    Log,
    Named,
    Param,
    Payload,
    Raise,
    Script,
    Send,
    Value,
)
from otolith.statecharts.engine.run import ChartSession, Failure, frozen
from otolith.statecharts.engine.send import Message, cancel, post
from otolith.statecharts.expressions import (
    DIALECTS,
    EvaluationError,
    ExpressionError,
    Location,
    compile_expression,
    compile_location,
    compile_script,
)
from otolith.statecharts.snapshot import Event

Get: TypeAlias = Callable[[ChartSession], Any]
Test: TypeAlias = Callable[[ChartSession], bool]
Do: TypeAlias = Callable[[ChartSession], None]

UNFIT = (EvaluationError, RecursionError, ArithmeticError, LookupError, TypeError, ValueError)
"""How an expression can fail; all but the first would be a slip of ours, and end no run."""


class Compiler:
    """Compiles the parts of one definition; `place` is where in the document it stands now."""

    def __init__(self, definition: Definition) -> None:
        self.is_scxml = definition.is_scxml
        self.dialect = DIALECTS[definition.dialect]
        self.place = definition.name
        self.problems: list[str] = []

    def value(self, value: Value) -> Get:
        if isinstance(value, Literal):
            try:
                found = freeze(value.value)
            except (BadValue, RecursionError) as error:
                raise BadChart(str(error), place=self.place) from error
            return lambda run: found
        return self.expression(value)

    def optional(self, value: Value | None) -> Get:
        return (lambda run: None) if value is None else self.value(value)

    def expression(self, expression: Expression) -> Get:
        dialect = DIALECTS.get(expression.dialect)
        if dialect is None:
            raise BadChart(
                f"{expression.dialect} is not a language of expressions here",
                place=self.place,
                hint=f"use one of {', '.join(DIALECTS)}",
            )
        try:
            evaluate = compile_expression(expression.text, dialect)
        except ExpressionError as error:
            return self.unreadable(expression.text, error)
        place, text = self.place, expression.text

        def get(run: ChartSession) -> Any:
            try:
                return evaluate(run)
            except UNFIT as error:
                raise Failure(f"{text}: {error}", place=place) from error

        return get

    def location(self, text: str) -> Callable[[ChartSession, Any], None]:
        """Return what assigns a value to a place of the data."""
        try:
            location = compile_location(text, self.dialect)
        except ExpressionError as error:
            unreadable = self.unreadable(text, error)
            return lambda run, value: unreadable(run)
        place = self.place
        is_declared_only = self.is_scxml

        def assign(run: ChartSession, value: Any) -> None:
            put(run, location, value, place, is_declared_only=is_declared_only)

        return assign

    def unreadable(self, text: str, error: ExpressionError) -> Callable[[ChartSession], Any]:
        """Return what fails whenever it is used; outside SCXML, fail now."""
        message = f"{text.strip()[:80]!r} cannot be read: {error}"
        if not self.is_scxml:
            raise BadChart(message, place=self.place, hint="see the expression language") from error
        self.problems.append(f"{self.place}: {message}")
        place = self.place

        def fail(run: ChartSession) -> Any:
            raise Failure(message, place=place)

        return fail

    def guard(self, guard: Guard) -> Test:
        """Return a test; one that fails is false, and the failure is told the chart."""
        ask = self._named(guard) if isinstance(guard, Named) else self._truth(guard)

        def test(run: ChartSession) -> bool:
            try:
                return ask(run)
            except Failure as failure:
                run.fail(failure)
                return False

        return test

    def _truth(self, expression: Expression) -> Test:
        get = self.expression(expression)
        truth = DIALECTS[expression.dialect].truth
        return lambda run: truth(get(run))

    def _named(self, guard: Named) -> Test:
        params, name = self.params(guard.params), guard.name
        place, exact = self.place, f"{self.place}: guard {guard.name}"

        def ask(run: ChartSession) -> bool:
            function = run.model.bindings.guards.get(name)
            if function is None:
                raise StepFailed(
                    f"the guard {name!r} is not bound",
                    place=place,
                    hint=f"register it: @chart.guard def {name}(data, event)",
                )
            return bool(called(function, run, params(run), exact))

        return ask

    def params(self, params: tuple[Param, ...]) -> Callable[[ChartSession], dict[str, Any]]:
        if not params:
            return lambda run: EMPTY
        getters = [(param.name, self.value(param.value)) for param in params]
        return lambda run: {name: get(run) for name, get in getters}

    def payload(self, payload: Payload) -> Get:
        """Return what computes the data of an event: one value, named values, or None."""
        if payload.content is not None:
            return self.value(payload.content)
        if not payload.params:
            return lambda run: None
        return self.params(payload.params)


def put(
    run: ChartSession, location: Location, value: Any, place: str, *, is_declared_only: bool
) -> None:
    """Assign to a place; in SCXML only to what was declared."""
    name = location.name
    if name not in run.data and (location.is_nested or is_declared_only):
        raise Failure(f"there is no {name} to assign to", place=place)
    try:
        run.assign(name, location.updated(run, run.data.get(name), frozen(value)))
    except EvaluationError as error:
        raise Failure(str(error), place=place) from error
    except Failure as failure:
        failure.place = failure.place or place
        raise


def called(
    function: Callable[..., Any], run: ChartSession, params: dict[str, Any], place: str
) -> Any:
    """Call what a user registered; whatever it raises is a failure of that place."""
    try:
        if params:
            return function(run.data, run.event, **params)
        return function(run.data, run.event)
    except Exception as error:
        raise Failure(f"{type(error).__name__}: {error}", place=place) from error


_NAME = re.compile(r"(?!__)[^\W\d][\w$]*")
_UNITS = {"ms": 1_000, "s": 1_000_000, "m": 60_000_000, "h": 3_600_000_000, "d": 86_400_000_000}
_DURATION = re.compile(r"\s*(\d*\.?\d+)\s*(ms|s|m|h|d)?\s*")


def compile_block(compiler: Compiler, block: Block) -> tuple[Do, ...]:
    """Return the actions of a block as functions."""
    return tuple(_COMPILERS[type(action)](compiler, action) for action in block)


def microseconds(value: Any, place: str = "") -> int:
    """Return a delay: a number of milliseconds, or a text such as `1.5s`, `200ms` or `2h`."""
    if isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value < 1e15:
        return int(value * 1_000)
    found = _DURATION.fullmatch(value) if isinstance(value, str) and len(value) < 40 else None
    if found is None:
        raise Failure(f"{value!r} is not a delay", place=place)
    return int(float(found[1]) * _UNITS[found[2] or "ms"])


def _assign(compiler: Compiler, action: Assign) -> Do:
    get, assign = compiler.value(action.value), compiler.location(action.location)
    return lambda run: assign(run, get(run))


def _script(compiler: Compiler, action: Script) -> Do:
    try:
        statements = compile_script(action.text, compiler.dialect)
    except ExpressionError as error:
        return compiler.unreadable(action.text, error)
    place = compiler.place

    def run_script(run: ChartSession) -> None:
        for location, value in statements:
            try:
                found = value(run)
            except UNFIT as error:
                raise Failure(f"script: {error}", place=place) from error
            put(run, location, found, place, is_declared_only=False)

    return run_script


def _raise(compiler: Compiler, action: Raise) -> Do:
    payload, name = compiler.payload(action.payload), action.event

    def do(run: ChartSession) -> None:
        run.internal.append(Event(name, frozen(payload(run)), "internal"))

    return do


def _send(compiler: Compiler, action: Send) -> Do:
    event, target, kind, delay = (
        compiler.optional(value)
        for value in (action.event, action.target, action.type, action.delay)
    )
    payload, place = compiler.payload(action.payload), compiler.place
    store_id = compiler.location(action.id_location) if action.id_location else None

    def do(run: ChartSession) -> None:
        id = action.id or f"send.{run.world.next_number()}"
        is_named = action.id is not None or store_id is not None
        try:
            if store_id is not None:
                store_id(run, id)
            wait = delay(run)
            message = Message(
                name=event(run),
                data=frozen(payload(run)),
                target=target(run),
                type=kind(run),
                id=id,
                is_named=is_named,
                delay=0 if wait is None else microseconds(wait, place),
            )
            post(run, message)
        except Failure as failure:
            failure.place = failure.place or place
            failure.sendid = id if is_named else None
            raise

    return do


def _cancel(compiler: Compiler, action: Cancel) -> Do:
    get = compiler.value(action.id)
    return lambda run: cancel(run, get(run))


def _log(compiler: Compiler, action: Log) -> Do:
    get, label = compiler.optional(action.value), action.label
    return lambda run: run.effect("log", label, params={"value": get(run)})


def _emit(compiler: Compiler, action: Emit) -> Do:
    event, payload, place = (
        compiler.value(action.event),
        compiler.payload(action.payload),
        compiler.place,
    )

    def do(run: ChartSession) -> None:
        name = event(run)
        if not isinstance(name, str):
            raise Failure(f"{name!r} is not the name of an event", place=place)
        run.effect("emit", name, params={"data": payload(run)})

    return do


def _if(compiler: Compiler, action: If) -> Do:
    arms = [_arm(compiler, branch) for branch in action.branches]

    def do(run: ChartSession) -> None:
        for test, block in arms:
            if test is None or test(run):
                for inner in block:
                    inner(run)
                return

    return do


def _arm(
    compiler: Compiler, branch: Branch
) -> tuple[Callable[[ChartSession], bool] | None, tuple[Do, ...]]:
    test = None if branch.guard is None else compiler.guard(branch.guard)
    return test, compile_block(compiler, branch.actions)


def _for_each(compiler: Compiler, action: ForEach) -> Do:
    array, block, place = (
        compiler.value(action.array),
        compile_block(compiler, action.actions),
        compiler.place,
    )
    names = [action.item, *([action.index] if action.index else [])]

    def do(run: ChartSession) -> None:
        items = frozen(array(run))
        if not isinstance(items, FrozenList):
            raise Failure("only a list can be gone through", place=place)
        for name in names:
            if not _NAME.fullmatch(name):
                raise Failure(f"{name!r} is not a name", place=place)
        for name in names:
            run.assign(name, run.data.get(name))
        for position, item in enumerate(items):
            run.merge(dict(zip(names, (item, position), strict=False)))
            for inner in block:
                inner(run)

    return do


def _call(compiler: Compiler, action: Call) -> Do:
    params, name = compiler.params(action.params), action.name
    has_params = bool(action.params)
    place = f"{compiler.place}: action {name}"

    def do(run: ChartSession) -> None:
        given = params(run) if has_params else EMPTY
        function = run.model.bindings.actions.get(name)
        if function is None:
            run.effect("call", name, given)
            return
        updates = called(function, run, given, place)
        if updates is None:
            return
        if not isinstance(updates, dict):
            raise Failure(f"{type(updates).__name__} is not a dict of updates", place=place)
        run.merge(updates)

    return do


_COMPILERS: dict[type[Action], Callable[[Compiler, Any], Do]] = {
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
