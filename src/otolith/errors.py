"""Every exception, drawn as a tree and grouped by what the caller does next.

Error                     .kind is a stable code, .hint says what to try
|-- NotFound              create it, or check the name               (also a KeyError)
|   |-- KeyNotFound, CommitNotFound, RefNotFound, StoreNotFound, NotKept
|-- Exists                choose another name
|   `-- RefExists
|-- Conflict              retry on the new head, or resolve
|   |-- StaleRef, Contention, Diverged, Fenced, MergeConflict, ChartMismatch, EffectUnknown
|   `-- AlreadyCommitted, CodeEdited
|-- Invalid               fix the call                               (also a ValueError)
|   |-- BadPath, BadRef, BadValue, BadPolicy, NotAStore, Uncommitted, SchemaMismatch, Unstorable
|   |-- BadChart, IllegalTransition, StepFailed, BadMessage, OverBudget
|-- Denied                ask for the right                          (also a PermissionError)
|   `-- Untrusted, NoConsent
|-- Erased                begin anew, with another id
|-- ReadOnly              use another handle
|-- Closed                open it again
|-- Unavailable           wait; a retry is safe                      (also an OSError)
|   |-- Busy, Full, QuotaExceeded, TimedOut, ModelFailed, BadReply
|-- Corrupt               verify, then restore or repair
`-- Unsupported           upgrade, or install something
    |-- FormatTooNew, MissingExtra, UnknownType, TooLarge
"""

from __future__ import annotations

from typing import ClassVar


class Error(Exception):
    """The base of all errors. `hint` says what to do next, `kind` is a stable code."""

    kind: ClassVar[str] = "error"

    def __init__(self, message: str, *, hint: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint

    def __str__(self) -> str:
        return f"{self.message} ({self.hint})" if self.hint else self.message

    def __reduce__(self) -> tuple[object, ...]:
        return _rebuild, (type(self), self.args, self.__dict__.copy())


def _rebuild(cls: type[Error], args: tuple[object, ...], fields: dict[str, object]) -> Error:
    error = cls.__new__(cls)
    error.args = args
    error.__dict__.update(fields)
    return error


class NotFound(Error, KeyError):
    """The named thing does not exist."""

    kind = "not_found"


class KeyNotFound(NotFound):
    """No value at this path."""

    kind = "key_not_found"


class CommitNotFound(NotFound):
    """No commit with this name."""

    kind = "commit_not_found"


class RefNotFound(NotFound):
    """No branch, tag or session with this name."""

    kind = "ref_not_found"


class StoreNotFound(NotFound):
    """No store at this place."""

    kind = "store_not_found"


class NotKept(NotFound):
    """The value at this path could not be stored; the error says what it was and why."""

    kind = "not_kept"


class Exists(Error):
    """The thing to create already exists."""

    kind = "exists"


class RefExists(Exists):
    """A branch or tag with this name already exists."""

    kind = "ref_exists"


class Conflict(Error):
    """Another writer changed the same thing."""

    kind = "conflict"


class StaleRef(Conflict):
    """A ref has moved since it was read; nothing was written."""

    kind = "stale_ref"

    def __init__(
        self,
        name: str,
        *,
        expected: bytes | None,
        actual: bytes | None,
        hint: str = "read the new head and try again",
    ) -> None:
        super().__init__(f"{name} moved while it was being written", hint=hint)
        self.name = name
        self.expected = expected
        self.actual = actual


class Contention(Conflict):
    """Other writers were faster each time; nothing was written."""

    kind = "contention"


class Diverged(Conflict):
    """A transfer would drop commits that others have made; `names` lists the refs."""

    kind = "diverged"

    def __init__(self, message: str, *, names: tuple[str, ...] = (), hint: str = "") -> None:
        super().__init__(message, hint=hint)
        self.names = names


class Fenced(Conflict):
    """A writer with a higher fence number has written; this writer must stop."""

    kind = "fenced"


class MergeConflict(Conflict):
    """A merge needs a decision; `paths` lists the conflicts."""

    kind = "merge_conflict"

    def __init__(self, message: str, *, paths: tuple[str, ...], hint: str = "") -> None:
        super().__init__(message, hint=hint)
        self.paths = paths


class ChartMismatch(Conflict):
    """A snapshot of another chart, or of another version of it."""

    kind = "chart_mismatch"

    def __init__(self, message: str, *, expected: str, actual: str, hint: str = "") -> None:
        super().__init__(message, hint=hint)
        self.expected = expected
        self.actual = actual


class EffectUnknown(Conflict):
    """A call that must not happen twice was started, and its outcome is unknown."""

    kind = "effect_unknown"

    def __init__(self, message: str, *, key: str, hint: str = "") -> None:
        super().__init__(message, hint=hint)
        self.key = key


class AlreadyCommitted(Conflict):
    """A transaction without a reply has landed, and this call may be the same; it was not run."""

    kind = "already_committed"

    def __init__(self, message: str, *, commit: str, hint: str = "") -> None:
        super().__init__(message, hint=hint)
        self.commit = commit


class CodeEdited(Conflict):
    """Tasks were done by functions that were edited since; `tasks` lists them."""

    kind = "code_edited"

    def __init__(self, message: str, *, tasks: tuple[str, ...], hint: str = "") -> None:
        super().__init__(message, hint=hint)
        self.tasks = tasks


class Invalid(Error, ValueError):
    """The call itself is wrong."""

    kind = "invalid"


class BadPath(Invalid):
    """This is not a path in the state."""

    kind = "bad_path"


class BadRef(Invalid):
    """This does not name a commit."""

    kind = "bad_ref"


class BadValue(Invalid):
    """This value cannot be stored."""

    kind = "bad_value"


class Unstorable(BadValue):
    """Some values cannot be stored; `values` maps the path of each to its type and the reason."""

    kind = "unstorable"

    def __init__(self, message: str, *, values: dict[str, str], hint: str = "") -> None:
        super().__init__(message, hint=hint)
        self.values = values


class BadPolicy(Invalid):
    """This is not a merge policy."""

    kind = "bad_policy"


class NotAStore(Invalid):
    """This file is not an otolith store."""

    kind = "not_a_store"


class Uncommitted(Invalid):
    """Staged edits prevent the operation."""

    kind = "uncommitted"


class SchemaMismatch(Invalid):
    """A value does not match the schema of its state; `path` says where."""

    kind = "schema_mismatch"

    def __init__(self, message: str, *, path: str, hint: str = "") -> None:
        super().__init__(message, hint=hint)
        self.path = path


class BadChart(Invalid):
    """This chart cannot run; `place` says where the error is."""

    kind = "bad_chart"

    def __init__(self, message: str, *, place: str, hint: str = "") -> None:
        super().__init__(f"{place}: {message}" if place else message, hint=hint)
        self.place = place


class IllegalTransition(Invalid):
    """The chart does not accept this event now; `allowed` lists the accepted events."""

    kind = "illegal_transition"

    def __init__(
        self,
        message: str,
        *,
        state: str,
        event: str,
        allowed: tuple[str, ...],
        hint: str = "send an event that is allowed, or change the chart",
    ) -> None:
        super().__init__(message, hint=hint)
        self.state = state
        self.event = event
        self.allowed = allowed


class StepFailed(Invalid):
    """A guard, an action or the chart itself failed at `place`; the machine did not move.

    `cycle` lists the states that a step goes through again and again, if it does not come to rest.
    """

    kind = "step_failed"

    def __init__(
        self, message: str, *, place: str, cycle: tuple[str, ...] = (), hint: str = ""
    ) -> None:
        super().__init__(f"{place}: {message}" if place else message, hint=hint)
        self.place = place
        self.cycle = cycle


class BadMessage(Invalid):
    """This message cannot be part of the conversation; `problem` is a stable code."""

    kind = "bad_message"

    def __init__(self, message: str, *, problem: str, hint: str = "") -> None:
        super().__init__(message, hint=hint)
        self.problem = problem


class OverBudget(Invalid):
    """The required messages of a context do not fit; `needed` is the number of tokens they take."""

    kind = "over_budget"

    def __init__(self, message: str, *, budget: int, needed: int, hint: str = "") -> None:
        super().__init__(message, hint=hint)
        self.budget = budget
        self.needed = needed


class Denied(Error, PermissionError):
    """The caller may not do this."""

    kind = "denied"


class Untrusted(Denied):
    """Pickled bytes that this repo's key did not sign; they were not loaded."""

    kind = "untrusted"


class NoConsent(Denied):
    """The user has not agreed to what the data would be used for; `purpose` names it."""

    kind = "no_consent"

    def __init__(self, message: str, *, purpose: str = "", hint: str = "") -> None:
        super().__init__(message, hint=hint)
        self.purpose = purpose


class Erased(Error):
    """What was known of this person was erased, and stays erased."""

    kind = "erased"


class ReadOnly(Error):
    """This handle or store refuses writes."""

    kind = "read_only"


class Closed(Error):
    """This handle was closed."""

    kind = "closed"


class Unavailable(Error, OSError):
    """The store cannot do this now; nothing was changed."""

    kind = "unavailable"


class Busy(Unavailable):
    """Another process holds the store."""

    kind = "busy"


class Full(Unavailable):
    """The store or its disk is full; nothing was changed."""

    kind = "full"


class QuotaExceeded(Full):
    """The write would exceed the size limit of this store; nothing was changed."""

    kind = "quota_exceeded"


class TimedOut(Unavailable):
    """A call did not return within its time limit."""

    kind = "timed_out"


class ModelFailed(Unavailable):
    """A model could not be reached, or its endpoint failed; `status` is the HTTP status, or 0."""

    kind = "model_failed"

    def __init__(self, message: str, *, status: int = 0, hint: str = "") -> None:
        super().__init__(message, hint=hint)
        self.status = status


class BadReply(Unavailable):
    """A model or its endpoint returned an invalid answer."""

    kind = "bad_reply"


class Corrupt(Error):
    """Stored bytes are not what was written."""

    kind = "corrupt"


class Unsupported(Error):
    """This installation does not support the operation."""

    kind = "unsupported"


class FormatTooNew(Unsupported):
    """The store was written by a newer otolith."""

    kind = "format_too_new"


class MissingExtra(Unsupported):
    """An optional dependency is not installed."""

    kind = "missing_extra"


class UnknownType(Unsupported):
    """A stored value has a type that is unknown in this process, or that has changed."""

    kind = "unknown_type"


class TooLarge(Unsupported):
    """A stored value is larger than `load_limit_bytes` (by default this machine's memory)."""

    kind = "too_large"
