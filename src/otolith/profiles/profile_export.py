"""The export of a profile: all that is known about a user, as one JSON file that a person can read.

    format          "otolith profile 1"
    preferences     what is believed, with confidence and basis; for reading, not for `load`
    evidence        by key, the oldest first
    purposes        consent, retention and description of each purpose
    settings        the declared settings of the application

`load` adds the evidence; what is known already counts once. It neither gives a consent that the
user has not given here, nor brings back what was forgotten.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from os import PathLike
from pathlib import Path as File
from typing import Any, NamedTuple

from otolith.errors import BadValue, Corrupt, Error, Invalid
from otolith.profiles.evidence import (
    Evidence,
    check_context,
    check_key,
    check_value,
    check_weight,
)
from otolith.profiles.preference import Preference
from otolith.profiles.purposes import Purposes
from otolith.profiles.storage import SETTINGS, StoredProfile
from otolith.shapes import fields

FORMAT = "otolith profile 1"
_MAX_FILE_BYTES = 64 << 20
_LATEST = 1 << 55
"""Times have 14 hexadecimal digits in a stamp."""


class LoadedExport(NamedTuple):
    """How much evidence was new, and which purposes the user has not agreed to."""

    added: int
    refused: list[str]


def export(
    store: StoredProfile,
    preferences: Sequence[Preference],
    purposes: Purposes,
    path: str | PathLike[str] | None,
) -> dict[str, Any]:
    """Return a profile as plain data, and write it as JSON if a file is named."""
    data = {
        "format": FORMAT,
        "preferences": [_preference(each) for each in preferences],
        "evidence": {
            key: [_entry(each) for each in store.history(key)] for key in store.known_keys()
        },
        "purposes": {
            name: {"allowed": each.allowed, **each.to_data()} for name, each in purposes.items()
        },
        "settings": {name: store.value(SETTINGS, name) for name in store.names(SETTINGS)},
    }
    if path is not None:
        text = json.dumps(data, ensure_ascii=False, indent=1)
        try:
            File(path).write_text(text + "\n", encoding="utf-8")
        except OSError as error:
            raise Invalid(f"{path} cannot be written: {error}", hint="name another file") from None
    return data


def _preference(found: Preference) -> dict[str, Any]:
    """Return what is believed of one key, for reading."""
    data = {
        "key": found.key,
        "value": found.value,
        "basis": found.basis,
        "confidence": round(found.confidence, 3),
    }
    return data | ({"context": found.context} if found.context else {})


def _entry(evidence: Evidence) -> dict[str, Any]:
    """Return a piece of evidence; its time is for reading, its stamp has it too."""
    time = f"{evidence.when:%Y-%m-%dT%H:%M:%S.%fZ}"
    return {"time": time, "stamp": evidence.stamp, **evidence.to_data()}


def load(store: StoredProfile, source: Any, check: Callable[[Evidence], None]) -> LoadedExport:
    """Add the evidence of an export; all of it is checked before any of it is added."""
    data = source if isinstance(source, Mapping) else _read(source)
    if data.get("format") != FORMAT:
        raise BadValue(
            f"this is not an export of a profile: its format is {str(data.get('format'))[:80]!r}",
            hint=f"export makes files of the format {FORMAT!r}",
        )
    table = data.get("evidence")
    if not isinstance(table, Mapping):
        raise BadValue("the export has no evidence", hint="export it again")
    found: list[Evidence] = []
    for key, entries in table.items():
        known = {each.id for each in store.history(check_key(key))}
        forgotten = store.forgotten(key)
        for at, entry in enumerate(entries if isinstance(entries, list) else [entries]):
            each = _evidence(key, at, entry)
            check(each)
            if each.id not in known and each.time > forgotten:
                known.add(each.id)
                found.append(each)
    for each in found:
        store.add(each)
    return LoadedExport(len(found), _refused(data.get("purposes")))


def _refused(purposes: object) -> list[str]:
    """Return the purposes that the user has not agreed to."""
    given = purposes.items() if isinstance(purposes, Mapping) else ()
    return [
        check_key(name)
        for name, data in given
        if isinstance(data, Mapping) and data.get("consent") is False
    ]


def _read(source: Any) -> Mapping[str, Any]:
    """Return the data of a file."""
    try:
        file = File(source)
        if file.stat().st_size > _MAX_FILE_BYTES:
            raise BadValue(f"{source} has more than {_MAX_FILE_BYTES >> 20} MB", hint="split it")
        data = json.loads(file.read_text(encoding="utf-8"))
    except (OSError, TypeError) as error:
        raise BadValue(
            f"{source!r} cannot be read: {error}", hint="name an exported file"
        ) from None
    except (ValueError, RecursionError) as error:
        raise BadValue(f"{source} is not JSON: {error}", hint="name an exported file") from None
    if not isinstance(data, Mapping):
        raise BadValue(f"{source} is not an export of a profile", hint="name an exported file")
    return data


def _evidence(key: str, at: int, entry: object) -> Evidence:
    """Return a piece of evidence of an export.

    Raises:
        BadValue: it is none.
    """
    where = f"evidence {at} of {key}"
    try:
        data = fields(entry, where, {"stamp": str}, is_open=True)
        assert isinstance(entry, Mapping)
        found = Evidence.from_data(key, data["stamp"], {**entry})
        check_value(key, found.value)
        check_weight(abs(found.weight))
        if not 0 <= found.time < _LATEST or len(found.id) != 16 or not found.id.isalnum():
            raise BadValue(f"{where} has the stamp {data['stamp'][:80]!r}")
        return replace(found, context=check_context(found.context))
    except (Corrupt, Error) as error:
        raise BadValue(f"{where} cannot be loaded: {error}", hint="export it again") from None
