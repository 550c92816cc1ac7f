"""Extensions of SCXML: an XML namespace for what the standard cannot express.

Other processors ignore them and read the nearest chart that SCXML can express: a delayed transition
is an event that is sent on entry and cancelled on exit, a guard that is a Python function is false,
a root with transitions or actions is a state inside `<scxml>`.

On any element:

- `otolith:as="expr:json delay:ms cond:python"`: how to read attributes: a value as JSON, a number
  of milliseconds, an expression of another dialect, or (`none`) not at all.
- `otolith:generated="true"`: written for other processors only; the chart does not have it.

On states: `otolith:id` (an id that XML cannot have), `otolith:root`, `otolith:tags`,
`otolith:meta`, `otolith:description`, `<otolith:output>`. On transitions: `otolith:guard`,
`otolith:guard-params`, `otolith:delay`, `otolith:events`, `otolith:meta`, `otolith:description`. On
`<scxml>`: `otolith:id`, `otolith:matching`, `otolith:rules`, `otolith:version`, `<otolith:script>`.
In `<invoke>`: `<otolith:input>`. Actions: `<otolith:call>`, `<otolith:emit>`, and
`<send otolith:raise="true">`.
"""

from __future__ import annotations

import json
from typing import Any

from otolith.errors import BadChart
from otolith.statecharts.definition import Expression, Guard, Literal, NamedGuard, Value
from otolith.statecharts.formats.xml import EXTENSION, Element
from otolith.statecharts.formats.xstate_actions import payload_from_json

PREFIX = "otolith:"


def extension(element: Element, name: str) -> str | None:
    """Return an attribute of our namespace."""
    return element.get(f"{PREFIX}{name}")


def is_generated(element: Element) -> bool:
    """Return whether an element was written for other processors only."""
    return extension(element, "generated") == "true"


def extension_child(element: Element, tag: str) -> Element | None:
    """Return the first child of our namespace with a name."""
    named = (child for child in element.children if child.tag == tag)
    return next((child for child in named if child.namespace == EXTENSION), None)


def extension_json(element: Element, name: str) -> Any:
    """Return the JSON of an attribute of our namespace, or None if it is absent."""
    text = extension(element, name)
    if text is None:
        return None
    return _json(text, f"{PREFIX}{name}", element)


def expression_attribute(element: Element, name: str, dialect: str) -> Value | None:
    """Return the value of an attribute that is an expression, unless it is marked as JSON."""
    text = element.get(name)
    if text is None:
        return None
    mark = _mark(element, name)
    if mark == "json":
        return Literal(_json(text, name, element))
    return Expression(text, mark or dialect)


def text_attribute(element: Element, name: str) -> Value | None:
    """Return the value of an attribute that is a text, unless it is marked as a number."""
    text = element.get(name)
    if text is None:
        return None
    if _mark(element, name) == "ms":
        return Literal(_json(text.removesuffix("ms"), name, element))
    return Literal(text)


def guard_of(element: Element, dialect: str) -> Guard | None:
    """Return the guard of a transition or of a branch."""
    name = extension(element, "guard")
    if name is not None:
        pairs = extension_json(element, "guard-params")
        params = () if pairs is None else payload_from_json({"params": pairs}, element.place).params
        return NamedGuard(name, params)
    text, mark = element.get("cond"), _mark(element, "cond")
    if text is None or mark == "none" or (mark is None and not text.strip()):
        return None
    return Expression(text, mark or dialect)


def events_of(element: Element, given: tuple[str, ...]) -> tuple[str, ...]:
    """Return the events of a transition, from its `event` attribute or its extension."""
    if extension(element, "delay") is not None:
        return ()
    return given if extension(element, "events") is None else _texts(element, "events")


def delay_of(element: Element) -> Value | None:
    """Return the delay of a transition after its state is entered."""
    form = extension_json(element, "delay")
    return None if form is None else payload_from_json({"content": form}, element.place).content


def annotation_fields(element: Element) -> dict[str, Any]:
    """Return the description and meta of a state or transition.

    Raises:
        BadChart: the meta is not an object.
    """
    meta = extension_json(element, "meta")
    if meta is not None and not isinstance(meta, dict):
        raise BadChart(f"{PREFIX}meta must be an object", place=element.place)
    return {"description": extension(element, "description") or "", "meta": meta}


def tags(element: Element) -> tuple[str, ...]:
    """Return the tags of a state."""
    return _texts(element, "tags")


def aliases(element: Element) -> dict[str, str]:
    """Return the XML ids that replace ids of the chart; invoked charts are left out."""
    found: dict[str, str] = {}
    id, real = element.get("id"), extension(element, "id")
    if id is not None and real is not None:
        found[id] = real
    for child in element.children:
        found |= {} if child.tag == "scxml" else aliases(child)
    return found


def _texts(element: Element, name: str) -> tuple[str, ...]:
    found = extension_json(element, name) or []
    if not isinstance(found, list):
        raise BadChart(f"{PREFIX}{name} must be a list", place=element.place)
    return tuple(str(text) for text in found)


def _mark(element: Element, name: str) -> str | None:
    for word in (extension(element, "as") or "").split():
        attribute, _, mark = word.partition(":")
        if attribute == name:
            return mark
    return None


def _json(text: str, name: str, element: Element) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        raise BadChart(f"{name} is not JSON", place=element.place) from error
