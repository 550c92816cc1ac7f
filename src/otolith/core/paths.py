"""Paths: keys from the root of a state down, written with slashes between them.

A `/` inside a key is written `~1`, a `~` as `~0`; a key that is not a str is `~:` and its JSON
(`~:42`), where it has one. An element of a list is its index. Names that start with a dot at the
top belong to otolith: they can be read, and are written by the verbs that own them.
"""

from __future__ import annotations

import json
from typing import TypeAlias

from otolith.errors import BadPath

Path: TypeAlias = tuple[object, ...]

POLICY, CONFLICTS, ALIASES = ".policy", ".conflicts", ".aliases"
EVENTS, SNAPSHOTS, WORKSPACE = ".events", ".snapshots", ".workspace"
LIFECYCLE, CONVERSATION, MEMORY, LOOP = ".lifecycle", ".conversation", ".memory", ".loop"
TEAM, FLOWS, PROFILE = ".team", ".flows", ".profile"

_DEEPEST = 50


def parse_path(path: str | Path) -> Path:
    """Return the keys of a path.

    Raises:
        BadPath: it is empty, is text with an empty part, or is not a str or tuple.
    """
    if isinstance(path, tuple):
        keys = path
    elif isinstance(path, str):
        keys = tuple(map(_parse_key, path.split("/")))
    else:
        raise BadPath(
            f"a path is a str or a tuple of keys, not {type(path).__name__}",
            hint="use state.map(path) for keys of other types",
        )
    if not keys or (isinstance(path, str) and "" in keys):
        raise BadPath(
            f"{path!r} has an empty part",
            hint="write paths like 'plan/steps', without outer slashes",
        )
    if len(keys) > _DEEPEST:
        raise BadPath(f"the path has {len(keys)} parts; the limit is {_DEEPEST}")
    return keys


def parse_own_path(path: str | Path) -> Path:
    """Return the keys of a path that a user may write."""
    keys = parse_path(path)
    if isinstance(keys[0], str) and keys[0].startswith("."):
        raise BadPath(
            f"{format_path(keys)}: names that start with a dot belong to otolith",
            hint="choose another name, or use the verb that owns it (state.policy, state.resolve)",
        )
    return keys


def format_path(path: Path) -> str:
    """Return a path as text."""
    return "/".join(map(_format_key, path))


def _parse_key(text: str) -> object:
    """Return the key that a segment of a path stands for."""
    if "~" not in text:
        return text
    if text.startswith("~:"):
        try:
            key: object = json.loads(text[2:])
        except (ValueError, RecursionError):
            raise BadPath(
                f"{text!r} is not a key in JSON", hint="use state.map(path) for such keys"
            ) from None
        return key
    return text.replace("~1", "/").replace("~0", "~")


def _format_key(key: object) -> str:
    """Return a key as a segment of a path."""
    if isinstance(key, str):
        return key.replace("~", "~0").replace("/", "~1") if "~" in key or "/" in key else key
    if key is None or type(key) in (bool, int, float):
        return "~:" + json.dumps(key)
    return f"~:{key!r}"
