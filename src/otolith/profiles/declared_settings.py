"""Settings: what an application lets its users set, with types, defaults and descriptions.

A class declares them; the profile stores the declaration, so that a terminal can show and check
them without the code. A declared key refuses values that do not fit, however they are learned.
"""

from __future__ import annotations

from collections.abc import Iterator, MutableMapping
from dataclasses import dataclass, replace
from enum import Enum
from typing import Annotated, Any, Literal, Protocol, get_args, get_origin, get_type_hints

from otolith.errors import BadValue, KeyNotFound
from otolith.profiles.evidence import check_key, check_value, option_text
from otolith.profiles.preference import Preference
from otolith.profiles.storage import SETTINGS, StoredProfile
from otolith.shapes import Shape, fields
from otolith.types import short_repr

_TYPES: dict[type, str] = {
    bool: "yes or no",
    int: "whole number",
    float: "number",
    str: "text",
    list: "list",
    dict: "dict",
}
_BY_NAME = {name: kind for kind, name in _TYPES.items()}
_SHAPE: Shape = {"type": str, "default": object}
_OPTIONAL: Shape = {"choices": list, "about": str}


@short_repr("name", "value", "basis", "type")
@dataclass(frozen=True, slots=True)
class Setting:
    """A setting of an application, and what holds for this user."""

    name: str
    type: str
    """text, number, whole number, yes or no, list or dict."""
    default: Any
    choices: tuple[Any, ...] = ()
    """The values that are possible; all of the type, if none are listed."""
    about: str = ""
    value: Any = None
    """What holds: what the user set, else what is learned, else the default."""
    basis: str = "default"

    def refusal(self, value: object) -> str:
        """Return why a value does not fit; empty if it does."""
        if self.choices:
            options = [option_text(each) for each in self.choices]
            if option_text(value) not in options:
                return f"must be one of {', '.join(options)}"
            return ""
        kind = _BY_NAME.get(self.type, object)
        is_whole = kind is float and type(value) is int
        return "" if type(value) is kind or is_whole else f"must be a {self.type}"


class PreferenceTable(Protocol):
    """What settings need of a profile."""

    def prefer(self, key: str, /) -> Preference:
        """Return what holds for a key."""
        ...

    def set(self, key: str, value: Any, /) -> Any:
        """Set what the user wants."""
        ...

    def unset(self, key: str, /) -> None:
        """Take back what was set."""
        ...


class Settings(MutableMapping[str, Any]):
    """The declared settings of a profile, as a dict of what holds; assign to set one.

    profile.settings["answers"] = "short"
    profile.settings.describe("answers").about
    """

    def __init__(self, profile: PreferenceTable, store: StoredProfile) -> None:
        self._profile = profile
        self._store = store

    def __getitem__(self, name: str) -> Any:
        return self.describe(name).value

    def __setitem__(self, name: str, value: Any) -> None:
        self._declared(name)
        self._profile.set(name, value)

    def __delitem__(self, name: str) -> None:
        self._declared(name)
        self._profile.unset(name)

    def __iter__(self) -> Iterator[str]:
        return iter(self._store.names(SETTINGS))

    def __len__(self) -> int:
        return len(self._store.names(SETTINGS))

    def __repr__(self) -> str:
        return f"<Settings {', '.join(self) or 'none'}>"

    def describe(self, name: str) -> Setting:
        """Return a setting: its type, default and description, and what holds.

        Raises:
            KeyNotFound: none of this name was declared.
        """
        data = self._declared(name)
        found = self._profile.prefer(name)
        setting = Setting(
            name,
            data["type"],
            data["default"],
            tuple(data.get("choices", ())),
            data.get("about", ""),
            found.value,
            found.basis,
        )
        if setting.refusal(found.value):  # it was there before the declaration
            return replace(setting, value=setting.default, basis="default")
        return setting

    def check(self, name: str, value: object) -> None:
        """Refuse a value that does not fit a declared setting.

        Raises:
            BadValue: it does not fit.
        """
        check_value(name, value)
        data = self._store.value(SETTINGS, name)
        if data is None:
            return
        given = _stored(name, data)
        setting = Setting(name, given["type"], None, tuple(given.get("choices", ())))
        why = setting.refusal(value)
        if why:
            raise BadValue(
                f"the setting {name} {why}, got {option_text(value)[:80]}",
                hint=f"profile.settings.describe({name!r}) describes it",
            )

    def _declared(self, name: str) -> dict[str, Any]:
        data = self._store.value(SETTINGS, name)
        if data is None:
            known = ", ".join(self) or "none yet"
            raise KeyNotFound(
                f"no setting {name!r} was declared",
                hint=f"declared are: {known}; profile.declare(class) adds some, and"
                " profile.set() sets what is not declared",
            )
        return _stored(name, data)


def default_of(store: StoredProfile, name: str) -> Any:
    """Return the default of a setting; None if it was not declared."""
    data = store.value(SETTINGS, name)
    return None if data is None else _stored(name, data)["default"]


def _stored(name: str, data: object) -> dict[str, Any]:
    return fields(data, f".profile/settings/{name}", _SHAPE, _OPTIONAL, is_open=True)


def declarations(model: type) -> dict[str, dict[str, Any]]:
    """Return what a class declares, by the names of its fields.

    Raises:
        BadValue: a field has no default, or a type that a setting cannot have.
    """
    if not isinstance(model, type):
        raise BadValue(f"declare takes a class, got {model!r}", hint="give the class itself")
    hints = get_type_hints(model, include_extras=True)
    try:
        defaults = model()
    except (TypeError, ValueError) as error:
        raise BadValue(
            f"every setting of {model.__name__} needs a default: {error}",
            hint="write name: type = default",
        ) from None
    found = {}
    for name, hint in hints.items():
        if name.startswith("_"):
            continue
        if not hasattr(defaults, name):
            raise BadValue(
                f"the setting {model.__name__}.{name} needs a default", hint="write = and a value"
            )
        found[check_key(name)] = _declaration(name, hint, getattr(defaults, name))
    return found


def _declaration(name: str, hint: Any, default: Any) -> dict[str, Any]:
    """Return a setting as it is stored."""
    about = ""
    if get_origin(hint) is Annotated:
        hint, *notes = get_args(hint)
        about = next((note for note in notes if isinstance(note, str)), "")
    choices: list[Any] = []
    if get_origin(hint) is Literal:
        choices = list(get_args(hint))
    elif isinstance(hint, type) and issubclass(hint, Enum):
        choices = [each.value for each in hint]
    if isinstance(default, Enum):
        default = default.value
    kind = type(choices[0]) if choices else get_origin(hint) or hint
    if kind not in _TYPES:
        raise BadValue(
            f"the setting {name} has the type {hint!r}",
            hint=f"a setting is a {', '.join(_TYPES.values())}, a Literal or an Enum",
        )
    setting = Setting(name, _TYPES[kind], default, tuple(choices), about)
    why = setting.refusal(check_value(name, default))
    if why:
        raise BadValue(f"the default of {name} {why}, got {option_text(default)}")
    data: dict[str, Any] = {"type": setting.type, "default": default}
    if choices:
        data["choices"] = choices
    return data | ({"about": about} if about else {})
