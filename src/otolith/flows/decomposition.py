"""Decomposition: a model proposes tasks for a goal, and the graph of the run checks them.

What a model says is not trusted. It is read as data of one form; every name, call, input and
dependency is checked as those of a program are, and the graph of the whole run is checked for
cycles. What is wrong goes back to the model with the reason, twice; then the proposal is given up,
and nothing is written. A person or a policy may have to approve what is left: until then it is only
a proposal. One that waits for a person is stored as a task, whose answer `True` adds the tasks.
"""

from __future__ import annotations

import inspect
import json
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Any, TypeAlias

from msgspec.structs import replace

from otolith.errors import BadReply, Exists, Invalid, KeyNotFound
from otolith.flows.flow_definition import (
    FEEDBACK,
    LONGEST_NAME,
    RESULTS,
    TASK,
    Flow,
    FlowTask,
    TaskSpec,
)
from otolith.flows.graph import TaskGraph
from otolith.flows.jobs import awaited
from otolith.shapes import check_argument

Dialogue: TypeAlias = "Callable[[Sequence[str]], Any]"
"""Makes the messages of a model of texts, the first of which is a user's, the next its answer, …"""

Approval: TypeAlias = "Callable[[list[FlowTask]], object]"
"""A policy: True to add what was proposed, False not to, or the tasks to add instead."""

MOST_PROPOSED = 50
_MOST_CORRECTIONS = 2
_MOST_LETTERS = 200_000
_SHOWN_LETTERS, _LINE_LETTERS = 4000, 200
_NOT_SHOWN = 100
_FIELDS = {"name": str, "call": str, "goal": str, "after": list, "inputs": dict}
_OWN = frozenset({TASK, FEEDBACK, RESULTS})

_REQUEST = """Break a goal down into tasks. Answer with one JSON list and nothing else, of objects:
  "name":   a short name of its own
  "call":   the function that does it; leave it out for a task that a person does
  "goal":   what is to be done, in a sentence
  "after":  the names of the tasks whose results it needs; may be left out
  "inputs": arguments for the function, by name; a parameter with the name of a task that it comes
            after gets that result

At most {limit} tasks.

Functions:
{functions}

Tasks that are there already, and may be named in "after": {tasks}
What the run was given: {inputs}

Goal: {goal}"""


class Proposer:
    """Asks a model for tasks of a run, and reads what it answers."""

    def __init__(
        self,
        flow: Flow,
        *,
        calls: Collection[str] | None,
        limit: int,
        known: Collection[str],
        inputs: Collection[str],
        parent: str | None,
    ) -> None:
        """Make one for a run: `known` are its tasks, `inputs` what it was given.

        Raises:
            Invalid: the limit is not a number of tasks.
            KeyNotFound: the flow lacks a function that may be called.
        """
        check_argument(limit, "limit", int, "a number of tasks")
        if limit < 1:
            raise Invalid(f"limit must be at least 1, got {limit}")
        names = flow.functions if calls is None else calls
        missing = [name for name in names if name not in flow.functions]
        if missing:
            known_calls = ", ".join(flow.functions) or "none"
            raise KeyNotFound(
                f"the flow has no function {', '.join(missing)}", hint=f"it has: {known_calls}"
            )
        self._functions = {name: flow.functions[name] for name in names}
        self._limit = limit
        self._known = known
        self._inputs = inputs
        self._parent = parent

    def __repr__(self) -> str:
        return f"<Proposer of at most {self._limit} tasks>"

    def propose(
        self,
        goal: str,
        model: Any,
        *,
        check: Callable[[list[FlowTask]], object],
        dialogue: Dialogue | None,
    ) -> list[FlowTask]:
        """Return the tasks that a model proposes, and that the check has nothing against.

        Raises:
            BadReply: it proposed nothing that can be added, three times.
        """
        turns = [self._request(goal)]
        for left in reversed(range(_MOST_CORRECTIONS + 1)):
            answer = _answer(model, turns, dialogue)
            try:
                tasks = self.read(answer)
                check(tasks)
            except (Invalid, Exists, KeyNotFound) as error:
                if not left:
                    raise BadReply(
                        f"the model proposed no tasks that can be added: {error.message}",
                        hint="say the goal more clearly, or take another model; nothing was added",
                    ) from error
                said = answer if isinstance(answer, str) else repr(answer)
                wrong = f"That cannot be added: {error}. Answer with the whole corrected JSON list."
                turns += [said[:_SHOWN_LETTERS] or "[]", wrong[:_SHOWN_LETTERS]]
            else:
                return tasks
        raise AssertionError("the last attempt raises")

    def _request(self, goal: str) -> str:
        shown = [name for name, _ in zip(self._known, range(_NOT_SHOWN), strict=False)]
        return _REQUEST.format(
            limit=self._limit,
            functions="\n".join(map(self._described, self._functions.values())) or "none",
            tasks=", ".join(shown) or "none",
            inputs=", ".join(self._inputs) or "nothing",
            goal=goal,
        )

    @staticmethod
    def _described(task: FlowTask) -> str:
        names = [
            name if each.default is each.empty else f"{name}={each.default!r:.40}"
            for name, each in task.parameters.items()
            if name not in _OWN
        ]
        text = inspect.cleandoc(task.__doc__ or "").partition("\n")[0]
        return f"  {task.name}({', '.join(names)}) {text}".rstrip()

    # Reading

    def read(self, answer: object) -> list[FlowTask]:
        """Return the tasks in an answer: data, or a text with JSON.

        Raises:
            Invalid: it is something else, or a task makes no sense.
        """
        data = _data_in(answer) if isinstance(answer, str) else answer
        if isinstance(data, Mapping):
            data = data.get("tasks", data)
        if data is None:
            raise Invalid("there is no JSON list in the answer")
        if not isinstance(data, list | tuple):
            raise Invalid(f"it is {_kind(data)}, and not a list of tasks")
        if not 0 < len(data) <= self._limit:
            raise Invalid(f"there are {len(data)} tasks, and must be 1 to {self._limit}")
        return [self._task(each, number) for number, each in enumerate(data, 1)]

    def _task(self, data: object, number: int) -> FlowTask:
        if not isinstance(data, Mapping):
            raise Invalid(f"task {number} is {_kind(data)}, and not an object")
        for name, value in data.items():
            if name not in _FIELDS or not isinstance(value, _FIELDS[name]):
                fields = ", ".join(f"{each} ({kind.__name__})" for each, kind in _FIELDS.items())
                raise Invalid(
                    f"task {number} has the field {name!r:.40}, {_kind(value)}",
                    hint=f"its fields are: {fields}",
                )
        found = dict(data)
        name, call, goal = (found.get(each, "") for each in ("name", "call", "goal"))
        if not all(map(_is_text, (call, goal))):
            raise Invalid(f"task {number} ({name!r:.40}) has half of a character in a text")
        if not call and not goal:
            raise Invalid(f"task {number} ({name!r:.40}) has neither a call nor a goal")
        after = found.get("after", [])
        made = FlowTask(name, after=after, call=call or None, goal=goal, inputs=found.get("inputs"))
        if call:
            self._check_call(made)
        return made

    def _check_call(self, task: FlowTask) -> None:
        """Refuse a call that the flow has not, or that lacks arguments or has others."""
        spec = task.spec
        function = self._functions.get(spec.call)
        if function is None:
            known = ", ".join(self._functions) or "none; leave the call out"
            raise KeyNotFound(
                f"task {task.name} calls {spec.call!r:.80}, which it may not call",
                hint=f"functions are: {known}",
            )
        wanted = {name: each for name, each in function.parameters.items() if name not in _OWN}
        unknown = [str(each) for each in spec.inputs if each not in wanted]
        if unknown:
            raise Invalid(
                f"task {task.name} gives {spec.call} the inputs {', '.join(unknown)[:200]}",
                hint=f"it takes: {', '.join(wanted) or 'none'}",
            )
        after = spec.after or (() if self._parent is None else (self._parent,))
        given = {*spec.inputs, *self._inputs, *after}
        missing = [
            name
            for name, each in wanted.items()
            if name not in given and each.default is each.empty
            if each.kind not in (each.VAR_POSITIONAL, each.VAR_KEYWORD)
        ]
        if missing:
            raise Invalid(
                f"task {task.name} gives {spec.call} no {', '.join(missing)}",
                hint="give it in inputs, or name a task of that name in after",
            )


def approved(approve: Approval, tasks: list[FlowTask]) -> list[FlowTask]:
    """Return what a policy lets through of what was proposed.

    Raises:
        Invalid: its answer is neither a truth value nor tasks.
    """
    answer = awaited(approve(list(tasks)))
    if answer is True:
        return tasks
    if answer is False or answer is None:
        return []
    if isinstance(answer, Iterable) and not isinstance(answer, str | Mapping):
        found = list(answer)
        if all(isinstance(each, FlowTask) for each in found):
            return found
    raise Invalid(
        f"approve must return True, False or tasks, got {answer!r:.80}", hint="tasks are FlowTasks"
    )


def approval_task(
    goal: str, tasks: Sequence[FlowTask], known: Collection[str], parent: str | None
) -> FlowTask:
    """Return a task that asks a person whether tasks are to be added to a parent."""
    first_of_all = () if parent is None else (parent,)
    specs = {each.name: replace(each.spec, after=each.spec.after or first_of_all) for each in tasks}
    lines = [_line(each) for each in tasks]
    name = free_name(f"approve {goal}", {*known, *(each.name for each in tasks)})
    asked = f"Add {len(tasks)} tasks for {goal!r:.{_LINE_LETTERS}}?\n" + "\n".join(lines)
    made = FlowTask(name, goal=asked)
    made.spec = replace(made.spec, proposal={name: each.to_data() for name, each in specs.items()})
    return made


def free_name(text: str, taken: Collection[str] | TaskGraph) -> str:
    """Return a name for a task that is about this, and that no other has."""
    plain = "".join(each if each.isprintable() else " " for each in text)
    name = first = " ".join(plain.split())[: LONGEST_NAME - 10].strip() or "task"
    number = 1
    while name in taken:
        number += 1
        name = f"{first} ({number})"
    return name


def proposed(name: str, spec: TaskSpec, answer: object) -> list[FlowTask]:
    """Return the tasks to add now that a person has answered whether to.

    Raises:
        Invalid: the answer is not True or False.
        Corrupt: what was proposed cannot be read.
    """
    if not spec.proposal:
        return []
    if type(answer) is not bool:
        raise Invalid(
            f"task {name} asks whether to add tasks, got {answer!r:.80}",
            hint="answer True or False",
        )
    return [_stored(each, data) for each, data in spec.proposal.items()] if answer else []


def _stored(name: str, data: object) -> FlowTask:
    spec = TaskSpec.from_data(name, data)
    made = FlowTask(name, goal=spec.goal)
    made.spec = spec
    return made


def _is_text(text: str) -> bool:
    """Tell whether a text is valid: JSON can hold half of a character."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def _line(task: FlowTask) -> str:
    spec = task.spec
    does = spec.call or "a person"
    given = ", ".join(f"{name}={value!r:.60}" for name, value in spec.inputs.items())
    after = f" after {', '.join(spec.after)}" if spec.after else ""
    return f"- {task.name}: {does}({given}){after} {spec.goal}".rstrip()[: 2 * _LINE_LETTERS]


def _answer(model: Any, turns: Sequence[str], dialogue: Dialogue | None) -> Any:
    """Return what a model says: a text, or data from a function."""
    complete = getattr(model, "complete", None)
    if complete is None:
        return awaited(model("\n\n".join(turns)))
    messages = list(turns) if dialogue is None else dialogue(turns)
    return str(awaited(complete(messages)).text)


def _data_in(text: str) -> Any:
    """Return the JSON in a text.

    Raises:
        Invalid: there is none.
    """
    if len(text) > _MOST_LETTERS:
        raise Invalid(f"the answer has {len(text):,} letters, and may have {_MOST_LETTERS:,}")
    starts = [at for at in map(text.find, "[{") if at >= 0]
    found = text[min(starts, default=0) : max(map(text.rfind, "]}")) + 1] if starts else ""
    try:
        return json.loads(found) if found else None
    except (ValueError, RecursionError) as error:
        raise Invalid(f"the answer is not one JSON list: {str(error)[:200]}") from error


def _kind(data: object) -> str:
    return "nothing" if data is None else f"{type(data).__name__} {data!r:.40}"
