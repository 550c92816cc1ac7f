"""From the values, guards and actions of a definition to functions of a run.

An expression that cannot be read is a `BadChart` at once, except in SCXML: there the standard has
the error raised when the expression is used, so the function fails whenever it is called, and
`Compiler.problems` remembers the place for whoever checks the document.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

from otolith.agent.lifecycle.definition import (
    Definition,
    Expression,
    Guard,
    Literal,
    Named,
    Param,
    Payload,
    Value,
)
from otolith.agent.lifecycle.expressions import (
    DIALECTS,
    EvaluationError,
    ExpressionError,
    Location,
    compile_expression,
    compile_location,
)
from otolith.agent.lifecycle.running import Failure, Run, frozen
from otolith.agent.lifecycle.values import EMPTY, freeze
from otolith.errors import BadChart, BadValue, StepFailed

Get: TypeAlias = Callable[[Run], Any]
Test: TypeAlias = Callable[[Run], bool]
Do: TypeAlias = Callable[[Run], None]

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

        def get(run: Run) -> Any:
            try:
                return evaluate(run)
            except UNFIT as error:
                raise Failure(f"{text}: {error}", place=place) from error

        return get

    def location(self, text: str) -> Callable[[Run, Any], None]:
        """Return what assigns a value to a place of the data."""
        try:
            location = compile_location(text, self.dialect)
        except ExpressionError as error:
            unreadable = self.unreadable(text, error)
            return lambda run, value: unreadable(run)
        place = self.place
        is_declared_only = self.is_scxml

        def assign(run: Run, value: Any) -> None:
            put(run, location, value, place, is_declared_only=is_declared_only)

        return assign

    def unreadable(self, text: str, error: ExpressionError) -> Callable[[Run], Any]:
        """Return what fails whenever it is used; outside SCXML, fail now."""
        message = f"{text.strip()[:80]!r} cannot be read: {error}"
        if not self.is_scxml:
            raise BadChart(message, place=self.place, hint="see the expression language") from error
        self.problems.append(f"{self.place}: {message}")
        place = self.place

        def fail(run: Run) -> Any:
            raise Failure(message, place=place)

        return fail

    def guard(self, guard: Guard) -> Test:
        """Return a test; one that fails is false, and the failure is told the chart."""
        ask = self._named(guard) if isinstance(guard, Named) else self._truth(guard)

        def test(run: Run) -> bool:
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

        def ask(run: Run) -> bool:
            function = run.model.bindings.guards.get(name)
            if function is None:
                raise StepFailed(
                    f"the guard {name!r} is not bound",
                    place=place,
                    hint=f"register it: @chart.guard def {name}(data, event)",
                )
            return bool(called(function, run, params(run), exact))

        return ask

    def params(self, params: tuple[Param, ...]) -> Callable[[Run], dict[str, Any]]:
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


def put(run: Run, location: Location, value: Any, place: str, *, is_declared_only: bool) -> None:
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


def called(function: Callable[..., Any], run: Run, params: dict[str, Any], place: str) -> Any:
    """Call what a user registered; whatever it raises is a failure of that place."""
    try:
        if params:
            return function(run.data, run.event, **params)
        return function(run.data, run.event)
    except Exception as error:
        raise Failure(f"{type(error).__name__}: {error}", place=place) from error
