"""Flow and FlowTask: what is to be done, in which order, and by which functions.

    flow = Flow("book-flight", resources={"api": 2})

    @flow.task(retries=3, timeout="30s", needs={"api": 1})
    def search(dest: str) -> list[str]: ...

    @flow.task(after=search, validate=lambda offer: offer.price < 500, back_to=search)
    def choose(search) -> Offer: ...

A task has two parts. What any process must know to plan it is data, and stored with the run: its
name, what it comes after, how often it is tried, what it needs (`TaskSpec`). Its function, its
check and its condition are code, which a worker finds in the flow by the name of the task's `call`.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Mapping
from difflib import get_close_matches
from functools import cached_property
from importlib import import_module
from typing import Any, TypeAlias, TypedDict, TypeVar, Unpack, get_type_hints, overload

from msgspec import Struct
from msgspec.structs import astuple, replace

from otolith.core import digest
from otolith.durations import Duration, duration_microseconds
from otolith.errors import Exists, Invalid, KeyNotFound
from otolith.flows.code_identity import code_text
from otolith.flows.graph import TaskGraph
from otolith.shapes import FUNCTION, NOTHING, check_argument, sound
from otolith.types import short_repr

F = TypeVar("F", bound=Callable[..., Any])

LONGEST_NAME = 200
MOST_TASKS = 250_000
TASK, FEEDBACK, RESULTS = "task", "feedback", "results"
"""Parameters that a function may have: its context, why it is tried again, all it comes after."""
_KEY = "key"
"""What `state.flow` takes as the key of a run, and so never as an input."""
_CODE_BYTES = 8

After: TypeAlias = "FlowTask | str | Iterable[FlowTask | str]"


@short_repr("call", "after", "goal")
class TaskSpec(Struct, frozen=True, gc=False):
    """What is stored of a task to plan it. Times are in microseconds."""

    number: int = 0  # tasks are listed in the order in which they were added
    after: tuple[str, ...] = ()
    also: tuple[str, ...] = ()  # subtasks of what it comes after, added to the run
    call: str = ""  # the name of its function; "" for a task that a person does
    inputs: Mapping[str, Any] = {}
    goal: str = ""
    retries: int = 0
    timeout: int = 0
    pause: int = 1_000_000  # after the first failure; twice as long after each other
    needs: Mapping[str, int] = {}
    priority: int = 0
    back_to: str = ""
    backs: int = 2  # how often it may send work back
    part_of: str = ""  # the task that it was added to
    proposal: Mapping[str, Any] = {}  # what is added if a person says so

    def to_data(self) -> dict[str, Any]:
        """Return the fields that are not what they are by default."""
        pairs = zip(_DEFAULTS, astuple(self), strict=True)
        found = {name: value for (name, first), value in pairs if value != first}
        return found | {each: list(found[each]) for each in ("after", "also") if each in found}

    @classmethod
    def from_data(cls, name: str, data: object) -> TaskSpec:
        """Return the spec that is stored as this.

        Raises:
            Corrupt: this is not a spec.
        """
        return sound(data, cls, f"the plan of the task {name}")

    @property
    def waits_for(self) -> tuple[str, ...]:
        """All that it comes after."""
        return (*self.after, *self.also)

    def only_waits_for_more(self, other: TaskSpec) -> bool:
        """Tell whether another spec differs in nothing but that it waits for more subtasks."""
        return {*self.also} <= {*other.also} and replace(other, also=self.also) == self


_EMPTY = TaskSpec()
_DEFAULTS = [(name, getattr(_EMPTY, name)) for name in TaskSpec.__struct_fields__]


class TaskOptions(TypedDict, total=False):
    """How a task is tried, and what it needs."""

    retries: int
    """How often it is tried again after a failure."""
    timeout: Duration | None
    """How long one attempt may take."""
    pause: Duration
    """How long to wait after the first failure, "1s" by default; twice as long after each other."""
    needs: Mapping[str, int] | None
    """Units of the flow's resources that it occupies."""
    priority: int
    """The higher, the earlier; among equals, what has most work after it comes first."""
    back_to: FlowTask | str | None
    """An earlier task, to which work is sent back that `validate` has refused."""
    backs: int
    """How often it may send work back: twice by default."""


class FlowTask:
    """A task of a flow: `@flow.task` makes one of a function, `run.expand` takes new ones.

    Called, it calls its function, so that a function can be tested by itself.
    """

    def __init__(
        self,
        name: str,
        *,
        after: After = (),
        call: str | FlowTask | None = None,
        function: Callable[..., Any] | None = None,
        inputs: Mapping[str, Any] | None = None,
        goal: str = "",
        validate: Callable[..., Any] | None = None,
        when: Callable[..., Any] | None = None,
        **options: Unpack[TaskOptions],
    ) -> None:
        """Make a task.

        `call` names the task of the flow whose function does it, by default the one of the same
        name; `inputs` are arguments for it. `validate` is called with the result: False, a text
        that says why, or an exception refuse it. `when` is called with the arguments, and False
        skips the task. A task with a `goal` and nothing to call is for a person to do. For the
        other options see `TaskOptions`.

        Raises:
            Invalid: an argument makes no sense.
        """
        check_name(name, "task")
        check_argument(goal, "goal", str, "a text")
        check_argument(inputs, "inputs", (Mapping, NOTHING), "arguments by name")
        for code, what in ((function, "function"), (validate, "validate"), (when, "when")):
            check_argument(code, what, (FUNCTION, NOTHING), "a function")
        self.name = name
        self.function = function
        self.validate = validate
        self.when = when
        self.__doc__ = function.__doc__ if function is not None else goal
        self.__name__ = name
        self.__wrapped__ = function
        self.__module__ = getattr(function, "__module__", __name__)
        own = "" if goal and function is None else name
        self.spec = TaskSpec(
            after=task_names(after),
            call=own if call is None else task_name(call),
            inputs=dict(inputs or {}),
            goal=goal,
            **_checked_options(name, options),
        )

    def __repr__(self) -> str:
        after = f" after {', '.join(self.spec.after)}" if self.spec.after else ""
        return f"<FlowTask {self.name}{after}>"

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Call the function, without a run.

        Raises:
            Invalid: it has none.
        """
        if self.function is None:
            raise Invalid(f"task {self.name} has no function", hint="a person does it")
        return self.function(*args, **kwargs)

    def __reduce__(self) -> tuple[Any, ...]:
        """Let another process find the function of the task by its name."""
        if self.function is None:
            return _made_of, (self.name, self.spec)
        return _find_task, (self.function.__module__, self.function.__qualname__)

    @cached_property
    def parameters(self) -> Mapping[str, inspect.Parameter]:
        """The parameters of the function; none without one."""
        if self.function is None:
            return {}
        try:
            return inspect.signature(self.function).parameters
        except (TypeError, ValueError):  # of some functions in C
            return {}

    @cached_property
    def result_hint(self) -> Any:
        """What the function says that it returns; None if it says nothing, or what is not there."""
        function = self.function
        if function is None or not getattr(function, "__annotations__", {}).get("return"):
            return None
        try:
            return get_type_hints(function).get("return")
        except Exception:  # noqa: BLE001 - it names what is not there at run time
            return None

    def code(self) -> bytes:
        """Return a digest of the code of the function: see `code_identity.py`."""
        if self.function is None:
            return b""
        own = getattr(self.function, "code_text", None)
        text = code_text(self.function) if own is None else str(own())
        return digest(text.encode("utf-8", "replace"))[:_CODE_BYTES]

    @property
    def is_run_in_task(self) -> bool:
        """Whether its function runs itself in a task (`run_in_task`), such as one of an agent."""
        return hasattr(self.function, "run_in_task")

    @property
    def takes_context(self) -> bool:
        """Whether its function sees the task that it is called in."""
        return TASK in self.parameters or self.is_run_in_task


Task = FlowTask
"""The same, as it is called in a call: `run.expand(choose, [Task("visa", after="choose")])`."""


class Flow:
    """A graph of tasks with functions. What is done of it is a run: `state.flow(flow)`.

    `resources` are units of something scarce that tasks need, such as `{"api": 2}`: so many may be
    in use at once in a run; what is not named has one unit. `rates` are how many tasks that need
    it may begin in a time, such as `{"api": "10/s"}`. `edited` is what happens to tasks whose
    function was edited after they were done: "ask" refuses to work until somebody decides, "keep"
    keeps their results, "rerun" does them again.
    """

    def __init__(
        self,
        name: str,
        *,
        resources: Mapping[str, int] | None = None,
        rates: Mapping[str, str] | None = None,
        edited: str = "ask",
    ) -> None:
        check_name(name, "flow")
        check_argument(resources, "resources", (Mapping, NOTHING), "numbers of units by name")
        check_argument(rates, "rates", (Mapping, NOTHING), "texts such as '10/s' by name")
        self.name = name
        self.edited = check_edited(edited)
        self.resources = {each: _at_least_one(each, n) for each, n in (resources or {}).items()}
        self.rates = {each: parse_rate(each, text) for each, text in (rates or {}).items()}
        self.tasks: dict[str, FlowTask] = {}
        self.functions: dict[str, FlowTask] = {}
        self.graph = TaskGraph()

    def __repr__(self) -> str:
        return f"<Flow {self.name}, {len(self.tasks)} tasks>"

    @overload
    def task(
        self, function: Callable[..., Any], *, name: str | None = None, **options: Any
    ) -> FlowTask: ...
    @overload
    def task(self, **options: Any) -> Callable[[Callable[..., Any]], FlowTask]: ...
    def task(self, function: Any = None, *, name: str | None = None, **options: Any) -> Any:
        """Add a task with a function: `@flow.task` or `@flow.task(after=…)`; see `FlowTask`."""

        def add(found: Callable[..., Any]) -> FlowTask:
            own = getattr(found, "__name__", "") if name is None else name
            return self.add(FlowTask(own, function=found, **options))

        return add if function is None else add(function)

    def subtask(self, function: Callable[..., Any]) -> FlowTask:
        """Add a function for tasks that come later: those that `expand` names in `call=`."""
        check_argument(function, "function", FUNCTION, "a function")
        made = FlowTask(getattr(function, "__name__", ""), function=function)
        self._check_new(made.name)
        self.functions[made.name] = made
        return made

    def add(self, task: FlowTask) -> FlowTask:
        """Add a task.

        Raises:
            Exists: there is a task of this name.
            KeyNotFound: it comes after a task that is not there, or sends work back to one.
            Invalid: it sends work back to a task that does not come before it.
        """
        check_argument(task, "task", FlowTask, "a FlowTask")
        self._check_new(task.name)
        check_count(len(self.tasks) + 1)
        spec = task.spec
        if task.function is None and spec.call and spec.call not in self.functions:
            raise no_function(task.name, spec.call, self.functions)
        check_parameters(task)
        check_needs(task.name, spec, self.resources)
        self.graph.add({task.name: spec.after})
        self.tasks[task.name] = task
        if task.function is not None:
            self.functions[task.name] = task
        try:
            check_back_to(self.graph, task.name, spec)
        except (KeyNotFound, Invalid):
            del self.tasks[task.name]
            self.functions.pop(task.name, None)
            self.graph = TaskGraph({each: one.spec.after for each, one in self.tasks.items()})
            raise
        return task

    def _check_new(self, name: str) -> None:
        if name in self.tasks or name in self.functions:
            raise Exists(f"flow {self.name} has a task {name!r}", hint="give it another name")

    def capacity(self, resource: str) -> int:
        """Return how many units of a resource there are."""
        return self.resources.get(resource, 1)

    def inputs(self) -> dict[str, bool]:
        """Return the names of the inputs of a run, each with whether it has to be given."""
        found: dict[str, bool] = {}
        for task in self.tasks.values():
            known = {*task.spec.after, *task.spec.inputs, TASK, FEEDBACK, RESULTS}
            maker = self.functions.get(task.spec.call, task)
            for name, each in maker.parameters.items():
                if name in known or each.kind in (each.VAR_POSITIONAL, each.VAR_KEYWORD):
                    continue
                found[name] = found.get(name, False) or each.default is each.empty
        for maker in self.functions.values():  # those of tasks to come may have their own
            if maker.name not in self.tasks:
                found = {**dict.fromkeys(maker.parameters, False), **found}
        return found

    def check_inputs(self, given: Mapping[str, Any]) -> None:
        """Refuse inputs that are missing or unknown.

        Raises:
            Invalid: some are.
        """
        wanted = self.inputs()
        missing = [name for name, is_needed in wanted.items() if is_needed and name not in given]
        if missing:
            raise Invalid(
                f"flow {self.name} needs {', '.join(missing)}",
                hint=f"state.flow({self.name!r}, {missing[0]}=…); a parameter that is the name of"
                " a task before gets its result",
            )
        unknown = [name for name in given if name not in wanted]
        if unknown and wanted is not None:
            known = ", ".join(wanted) or "none"
            raise Invalid(
                f"flow {self.name} has no input {', '.join(unknown)}", hint=f"it has: {known}"
            )


def check_parameters(task: FlowTask) -> None:
    """Refuse a function with a parameter that no run could give it.

    Raises:
        Invalid: it takes a `key`, which is that of the run, and gets it from nowhere else.
    """
    parameter = task.parameters.get(_KEY)
    if parameter is None or parameter.default is not parameter.empty:
        return
    if _KEY not in task.spec.inputs and _KEY not in task.spec.after:
        raise Invalid(
            f"task {task.name} has a parameter {_KEY!r}, and state.flow(…, {_KEY}=…) names the run",
            hint="give the parameter another name, or a value: inputs={'key': …}",
        )


def no_function(name: str, call: str, functions: Iterable[str]) -> KeyNotFound:
    """Return the error for a task that calls what the flow does not have."""
    known = f"functions are: {', '.join(functions) or 'none'}"
    if call == name:
        return KeyNotFound(
            f"task {name!r} has no function: it names none, and the flow has none of its name",
            hint=f"give it call= with a function of the flow, or goal= for a person; {known}",
        )
    return KeyNotFound(
        f"task {name} calls {call!r}, and the flow has no such function",
        hint=f"{known}; a task for a person has a goal",
    )


def check_count(count: int) -> None:
    """Refuse more tasks than a run may have.

    Raises:
        Invalid: there are too many.
    """
    if count > MOST_TASKS:
        raise Invalid(
            f"a run has at most {MOST_TASKS:,} tasks, got {count:,}",
            hint="let one task do many of them, or make several runs",
        )


def listed_tasks(tasks: Iterable[FlowTask], already: int) -> list[FlowTask]:
    """Return tasks for a run that has some already; of too many, the rest is not made.

    Raises:
        Invalid: something else is among them, or there are too many.
    """
    found = list[FlowTask]()
    for each in tasks:
        check_argument(each, "a task", FlowTask, "a FlowTask")
        found.append(each)
        check_count(already + len(found))
    return found


def check_name(name: object, what: str) -> None:
    """Refuse what cannot name a flow, a run or a task.

    Raises:
        Invalid: it is not a text of some characters.
    """
    is_name = isinstance(name, str) and 0 < len(name) <= LONGEST_NAME and name.isprintable()
    if not is_name:
        raise Invalid(
            f"a {what} needs a name of 1 to {LONGEST_NAME} printable characters,"
            f" got {str(name)[:80]!r}",
            hint="such as 'search'",
        )


def check_edited(edited: object) -> str:
    """Return what to do with tasks whose code was edited.

    Raises:
        Invalid: it is not one of the three answers.
    """
    if edited not in ("ask", "keep", "rerun"):
        raise Invalid(f"edited must be 'ask', 'keep' or 'rerun', got {edited!r}")
    return str(edited)


def check_needs(name: str, spec: TaskSpec, resources: Mapping[str, int]) -> None:
    """Refuse a task that needs more of something than there is: it could never begin.

    Raises:
        Invalid: it does.
    """
    for each, units in spec.needs.items():
        there = resources.get(each, 1)
        if units > there:
            raise Invalid(
                f"task {name} needs {units} of {each}, and the flow has {there}",
                hint=f"Flow(…, resources={{{each!r}: {units}}}) has as many",
            )


def check_back_to(graph: TaskGraph, name: str, spec: TaskSpec) -> None:
    """Refuse to send work back to a task that does not come before.

    Raises:
        KeyNotFound: there is no such task.
        Invalid: it does not come before.
    """
    if not spec.back_to:
        return
    if spec.back_to not in graph:
        raise KeyNotFound(
            f"{name!r} sends work back to {spec.back_to!r}, and there is no such task"
        )
    if spec.back_to != name and name not in graph.downstream(spec.back_to):
        raise Invalid(
            f"{name!r} sends work back to {spec.back_to!r}, which does not come before it",
            hint="send it back to a task that this one comes after, near or far",
        )


def task_name(task: object) -> str:
    """Return the name of a task, given as itself or by its name.

    Raises:
        Invalid: it is something else.
    """
    if isinstance(task, FlowTask):
        return task.name
    check_argument(task, "a task", str, "a task of the flow, or its name")
    return str(task)


def task_names(tasks: object) -> tuple[str, ...]:
    """Return the names of several tasks, or of one."""
    if isinstance(tasks, str | FlowTask):
        return (task_name(tasks),)
    if not isinstance(tasks, Iterable):
        raise Invalid(f"after must be a task or several, got {tasks!r:.80}")
    return tuple(dict.fromkeys(map(task_name, tasks)))


def parse_rate(name: str, text: object) -> tuple[int, int]:
    """Return a rate such as `10/s` as a number and microseconds.

    Raises:
        Invalid: it is not such a text.
    """
    count, slash, per = text.partition("/") if isinstance(text, str) else ("", "", "")
    unit = duration_microseconds(per if per[:1].isdigit() else f"1{per}") if slash else None
    if not count.strip().isdigit() or int(count) < 1 or not unit:
        raise Invalid(
            f"the rate of {name} must be a text such as '10/s', got {text!r}",
            hint="a number, a slash and a time: 10/s, 100/m, 1/30s",
        )
    return int(count), unit


def _made_of(name: str, spec: TaskSpec) -> FlowTask:
    """Return a task without a function, in another process."""
    made = FlowTask(name, goal=spec.goal)
    made.spec = spec
    return made


def _find_task(module: str, path: str) -> FlowTask:
    """Return the task that a function became, in another process.

    Another thread may be about to import the module: `import_module` waits until it has.
    """
    found: Any = import_module(module)
    for part in path.split("."):
        found = getattr(found, part, None)
    if not isinstance(found, FlowTask):
        raise Invalid(
            f"{module}.{path} is not a task of a flow there",
            hint="define it at the top of a module to run it in other processes",
        )
    return found


def _checked_options(name: str, options: TaskOptions) -> dict[str, Any]:
    """Return the options of a task as fields of its spec."""
    for each in options:
        if each not in TaskOptions.__annotations__:
            near = get_close_matches(each, [*TaskOptions.__annotations__, *_OTHER_OPTIONS], n=1)
            hint = f"did you mean {near[0]}?" if near else f"it has {', '.join(_OTHER_OPTIONS)}"
            raise Invalid(f"a task has no option {each}", hint=hint)
    numbers: dict[str, Any] = {"retries": options.get("retries", 0)}
    numbers |= {"priority": options.get("priority", 0), "backs": options.get("backs", 2)}
    for each, number in numbers.items():
        check_argument(number, each, int, "a whole number")
    for each in ("retries", "backs"):
        if numbers[each] < 0:
            raise Invalid(
                f"task {name}: {each} must be at least 0, got {numbers[each]}",
                hint="0 is not to try again",
            )
    timeout, back_to = options.get("timeout"), options.get("back_to")
    return {
        **numbers,
        "timeout": 0 if timeout is None else _microseconds(timeout, "timeout"),
        "pause": _microseconds(options.get("pause", "1s"), "pause", zero=True),
        "needs": _checked_needs(name, options.get("needs")),
        "back_to": "" if back_to is None else task_name(back_to),
    }


_OTHER_OPTIONS = ("after", "call", "function", "inputs", "goal", "validate", "when")


def _checked_needs(name: str, needs: object) -> dict[str, int]:
    check_argument(needs, "needs", (Mapping, NOTHING), "numbers of units by name")
    found = dict(needs) if isinstance(needs, Mapping) else {}
    return {str(each): _at_least_one(f"{each} of task {name}", n) for each, n in found.items()}


def _at_least_one(what: str, number: object) -> int:
    if type(number) is not int or number < 1:
        raise Invalid(f"the units of {what} must be a whole number, at least 1, got {number!r}")
    return number


def _microseconds(time: object, name: str, *, zero: bool = False) -> int:
    found = duration_microseconds(time)
    if found is None or not (found or zero):
        raise Invalid(
            f"{name} must be a time such as '30s', got {time!r}",
            hint="give a text with a unit (us, ms, s, m, h, d), seconds or a timedelta",
        )
    return found
