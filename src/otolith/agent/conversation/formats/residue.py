"""What a format said beyond what was understood of it, so that writing gives back what was read.

A document is read into messages, and the messages are written again. Where that is not what was
read, the difference is kept with the message. It is plain data: `{"=": value}` puts a value in
place, `{"~": {key: difference}, "-": [keys]}` changes a dict, `{"#": {index: difference}}` a list.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from otolith.agent.lifecycle.values import thaw


def name_of(format: str) -> str:
    """Return under which name a message keeps what a format said; no name of a user's begins so."""
    return f"{_MARK}{format}"


def is_name(name: str) -> bool:
    """Tell whether what is under a name was kept for a format."""
    return name.startswith(_MARK)


_MARK = ".as "


def difference(made: Any, given: Any) -> dict[str, Any] | None:
    """Return what turns one JSON value into another; None if they are the same."""
    if isinstance(made, dict) and isinstance(given, dict):
        return _of_dicts(made, given)
    if isinstance(made, list) and isinstance(given, list) and len(made) == len(given):
        pairs = enumerate(zip(made, given, strict=True))
        parts = {str(at): difference(one, other) for at, (one, other) in pairs}
        changed = {at: part for at, part in parts.items() if part is not None}
        return {"#": changed} if changed else None
    same = type(made) is type(given) and made == given and repr(made) == repr(given)
    return None if same else {"=": given}


def _of_dicts(made: Mapping[str, Any], given: Mapping[str, Any]) -> dict[str, Any] | None:
    parts = {
        key: difference(made[key], value) if key in made else {"=": value}
        for key, value in given.items()
    }
    changed = {key: part for key, part in parts.items() if part is not None}
    gone = sorted(key for key in made if key not in given)
    found = ({"~": changed} if changed else {}) | ({"-": gone} if gone else {})
    return found or None


def patched(made: Any, left: Mapping[str, Any]) -> Any:
    """Return what `difference` was taken from."""
    if "=" in left:
        return thaw(left["="])
    if "#" in left:
        changed = left["#"]
        return [
            patched(item, changed[str(at)]) if str(at) in changed else item
            for at, item in enumerate(made)
        ]
    kept = {key: value for key, value in made.items() if key not in left.get("-", ())}
    news = left.get("~", {})
    return kept | {key: patched(kept.get(key), part) for key, part in news.items()}
