"""Actions: each kind of a definition's actions as a function of a run."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from otolith.agent.lifecycle.compiling import UNFIT, Compiler, Do, called, put
from otolith.agent.lifecycle.definition import (
    Action,
    Assign,
    Block,
    Branch,
    Call,
    Cancel,
    Emit,
    ForEach,
    If,
    Log,
    Raise,
    Script,
    Send,
)
from otolith.agent.lifecycle.expressions import ExpressionError, compile_script
from otolith.agent.lifecycle.running import Failure, Run, frozen
from otolith.agent.lifecycle.sending import Message, cancel, post
from otolith.agent.lifecycle.snapshot import Event
from otolith.agent.lifecycle.values import EMPTY, FrozenList

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

    def run_script(run: Run) -> None:
        for location, value in statements:
            try:
                found = value(run)
            except UNFIT as error:
                raise Failure(f"script: {error}", place=place) from error
            put(run, location, found, place, is_declared_only=False)

    return run_script


def _raise(compiler: Compiler, action: Raise) -> Do:
    payload, name = compiler.payload(action.payload), action.event

    def do(run: Run) -> None:
        run.internal.append(Event(name, frozen(payload(run)), "internal"))

    return do


def _send(compiler: Compiler, action: Send) -> Do:
    event, target, kind, delay = (
        compiler.optional(value)
        for value in (action.event, action.target, action.type, action.delay)
    )
    payload, place = compiler.payload(action.payload), compiler.place
    store_id = compiler.location(action.id_location) if action.id_location else None

    def do(run: Run) -> None:
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

    def do(run: Run) -> None:
        name = event(run)
        if not isinstance(name, str):
            raise Failure(f"{name!r} is not the name of an event", place=place)
        run.effect("emit", name, params={"data": payload(run)})

    return do


def _if(compiler: Compiler, action: If) -> Do:
    arms = [_arm(compiler, branch) for branch in action.branches]

    def do(run: Run) -> None:
        for test, block in arms:
            if test is None or test(run):
                for inner in block:
                    inner(run)
                return

    return do


def _arm(compiler: Compiler, branch: Branch) -> tuple[Callable[[Run], bool] | None, tuple[Do, ...]]:
    test = None if branch.guard is None else compiler.guard(branch.guard)
    return test, compile_block(compiler, branch.actions)


def _for_each(compiler: Compiler, action: ForEach) -> Do:
    array, block, place = (
        compiler.value(action.array),
        compile_block(compiler, action.actions),
        compiler.place,
    )
    names = [action.item, *([action.index] if action.index else [])]

    def do(run: Run) -> None:
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

    def do(run: Run) -> None:
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
