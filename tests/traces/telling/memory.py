"""Arrays that are not the same object and yet share memory: views, and views of views."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, TypeAlias

from tests.traces.telling.atoms import loaded

_Span: TypeAlias = tuple[int, int, str, Any]
"""Where an array starts and ends, a path to it, and the array."""


def overlaps(arrays: list[tuple[str, Any]]) -> Iterator[str]:
    """Yield the groups of arrays that overlap, found by sweeping over their addresses."""
    np = loaded("numpy")
    if np is None:
        return
    spans = sorted(
        (*np.lib.array_utils.byte_bounds(array), path, array)
        for path, array in arrays
        if array.size
    )
    while spans:
        cluster = [spans.pop(0)]
        high = cluster[0][1]
        while spans and spans[0][0] < high:
            cluster.append(spans.pop(0))
            high = max(high, cluster[-1][1])
        yield from _groups(np, cluster)


def _groups(np: Any, cluster: list[_Span]) -> Iterator[str]:
    groups: list[list[_Span]] = []
    for span in cluster:
        near = [group for group in groups if any(_touch(np, span[3], o[3]) for o in group)]
        groups = [group for group in groups if group not in near]
        groups.append([span, *(other for group in near for other in group)])
    for group in groups:
        # Arrays that nobody may write to (what pandas hands out) share memory to save it.
        if len(group) > 1 and any(array.flags.writeable for *_, array in group):
            low = min(span[0] for span in group)
            yield " = ".join(sorted(f"{path}@{start - low}" for start, _, path, _ in group))


def _touch(np: Any, one: Any, other: Any) -> bool:
    try:
        return bool(np.shares_memory(one, other, max_work=10_000))
    except np.exceptions.TooHardError:
        return True
