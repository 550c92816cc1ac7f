"""Live Python values over a branch: tracking, schema, events."""

from otolith.lazy import door

TYPE_CHECKING = False

if TYPE_CHECKING:
    from otolith.state.base import AnyState
    from otolith.state.event_log import (
        ActionEvent,
        ClarifyEvent,
        ErrorEvent,
        Event,
        EventLog,
        OutputEvent,
        SuccessEvent,
        TaskStartEvent,
        ToolCallEvent,
    )
    from otolith.state.frames import Frame
    from otolith.state.live import LiveValues, Stateless, state_of
    from otolith.state.schema.checks import Misfit
    from otolith.state.schema.models import has_pydantic_parts, pydantic_adapter, type_check
    from otolith.state.schema.schema import Schema
    from otolith.state.stored_events import events
    from otolith.state.texts import EditableText, LiveText, TextHandle

__all__ = [
    "ActionEvent",
    "AnyState",
    "ClarifyEvent",
    "EditableText",
    "ErrorEvent",
    "Event",
    "EventLog",
    "Frame",
    "LiveText",
    "LiveValues",
    "Misfit",
    "OutputEvent",
    "Schema",
    "Stateless",
    "SuccessEvent",
    "TaskStartEvent",
    "TextHandle",
    "ToolCallEvent",
    "events",
    "has_pydantic_parts",
    "pydantic_adapter",
    "state_of",
    "type_check",
]

_HOME = {
    **dict.fromkeys(
        ["ActionEvent", "ClarifyEvent", "ErrorEvent", "OutputEvent", "SuccessEvent"], "event_log"
    ),
    **dict.fromkeys(["TaskStartEvent", "ToolCallEvent"], "event_log"),
    **dict.fromkeys(["EditableText", "LiveText", "TextHandle"], "texts"),
    "Event": "event_log",
    "EventLog": "event_log",
    "Frame": "frames",
    "LiveValues": "live",
    "Misfit": "schema.checks",
    "Schema": "schema.schema",
    "AnyState": "base",
    "Stateless": "live",
    "events": "stored_events",
    "has_pydantic_parts": "schema.models",
    "pydantic_adapter": "schema.models",
    "state_of": "live",
    "type_check": "schema.models",
}

__getattr__ = door(__name__, _HOME)
