"""Statements and declared settings: the setting that something said is about, and a valid value.

A setting fits what was said if its name has all words of the key ("seat_preference" has those of
`seat`), or if one of its choices was said and a word of the key is in its name or description.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from otolith import text as language
from otolith.profiles.declared_settings import Setting, Settings

_YES, _NO = frozenset(["yes", "true", "on"]), frozenset(["no", "false", "off", "none"])
_VAGUE = frozenset(
    language.stem(each) for each in ("preference", "preferred", "default", "my", "use")
)


class _Known(NamedTuple):
    """A setting, and the stems of its name and of its name and description."""

    setting: Setting
    name: frozenset[str]
    all: frozenset[str]


class SettingMatcher:
    """Finds the declared setting that something said is about."""

    def __init__(self, settings: Settings) -> None:
        self._known: list[_Known] = []
        for name in settings:
            setting = settings.describe(name)
            stems = frozenset(_stems(name)) - _VAGUE
            self._known.append(_Known(setting, stems, stems | frozenset(_stems(setting.about))))

    def match(self, key: str, value: Any) -> Setting | None:
        """Return the setting that a key and a value are about; None if there is none."""
        stems = frozenset(_stems(key))
        if not stems or not self._known:
            return None
        for setting, name, _ in self._known:
            if setting.name == key or (name and name == stems):
                return setting
        for setting, _, words in self._known:
            is_choice = value is not None and _choice(setting, value) is not None
            if is_choice and stems & words:
                return setting
        named = [
            each for each in self._known if each.name and (stems <= each.all or each.name <= stems)
        ]
        named = [each for each in named if each.name & stems]
        return named[0].setting if len(named) == 1 and value is None else None

    def fit(self, key: str, value: Any) -> tuple[str, Any]:
        """Return key and value as the setting has them; as they are if there is none."""
        setting = self.match(key, value)
        if setting is None:
            return key, value
        return setting.name, _fitted(setting, value)


def _stems(text: str) -> list[str]:
    return language.content_words(text.replace("/", " ").replace("-", " "))


def _choice(setting: Setting, value: Any) -> Any:
    """Return the choice of a setting that a value says; None if it says none."""
    if not isinstance(value, str):
        return next(
            (each for each in setting.choices if type(each) is type(value) and each == value), None
        )
    low, stems = value.lower(), set(_stems(value))
    texts = {str(each).lower(): each for each in setting.choices if isinstance(each, str)}
    if low in texts:
        return texts[low]
    found = [each for text, each in texts.items() if _stems(text) and set(_stems(text)) <= stems]
    return found[0] if len(found) == 1 else None


def _fitted(setting: Setting, value: Any) -> Any:
    """Return a value in the type of a setting, if it has a form in it; else the value."""
    if setting.choices:
        found = _choice(setting, value)
        return value if found is None else found
    if setting.type == "yes or no" and isinstance(value, str):
        low = value.lower()
        return True if low in _YES else False if low in _NO else value
    if setting.type in {"number", "whole number"} and isinstance(value, str):
        number = value.replace(",", "").split()[:1]
        if number and number[0].isdecimal():
            return int(number[0])
    return value
