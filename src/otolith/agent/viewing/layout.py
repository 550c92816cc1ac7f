"""Layout: many things in few tokens, each with a line before any gets a page.

First every thing gets its name and what it is. What is left is shared out evenly, those that need
little first; a thing with names in it that is too long for its share becomes lines of its own, laid
out by the same rule, but with half of the room for values. What does not fit is counted.
"""

from __future__ import annotations

from otolith.agent.tokens import DOTS, count, cut
from otolith.agent.viewing.looks import Item, Parts

_CHARACTERS = 8
"""More than a token has."""

_FEWEST = 24
"""Below so many tokens, lines of its own are not worth it."""

_SHORT = 6
"""A text of so many tokens goes before shares are even; one that is longer is not cut to less."""

_INDENT = "  "


def lay_out(parts: Parts, budget: int, *, indent: str = "", is_nested: bool = False) -> list[str]:
    """Return lines that show things within a budget of tokens, line ends included."""
    shown, last = _heads(parts, budget // 2 if is_nested else budget, indent)
    heads = [indent + item.head for item in shown]
    left = budget - sum(map(cost, [*heads, *last]))
    texts = _texts(shown, left, indent)
    lines = [line for head, body in zip(heads, texts, strict=True) for line in _joined(head, body)]
    return [*lines, *last]


def cost(line: str) -> int:
    """Return what a line costs with its end."""
    return count(line) + 1


def _joined(head: str, body: str | list[str]) -> list[str]:
    if isinstance(body, list):
        return [head, *body]
    return [f"{head} = {body}" if body else head]


def _heads(parts: Parts, budget: int, indent: str) -> tuple[list[Item], list[str]]:
    """Return the things that get a line, and what is said of the others."""
    shown: list[Item] = []
    costs: list[int] = []
    for item in parts.items:
        costs.append(cost(indent + item.head))
        if sum(costs) > budget:
            costs.pop()
            break
        shown.append(item)
    while len(shown) < parts.total:
        last = f"{indent}{DOTS} {_more(parts.total - len(shown), parts.noun)}"
        if sum(costs) + cost(last) <= budget:
            return shown, [last]
        if not shown:
            break
        shown.pop()
        costs.pop()
    return shown, []


def _more(number: int, noun: str) -> str:
    return f"{number:,} more {noun}" if number > 1 else f"1 more {noun.removesuffix('s')}"


def _texts(items: list[Item], left: int, indent: str) -> list[str | list[str]]:
    """Share out what is left; return the text or the lines of each thing."""
    found: list[str | list[str]] = ["" for _ in items]
    most = max(left * _CHARACTERS // max(len(items), 1) * 4, 80)
    texts = [item.text(most) if left > 0 else "" for item in items]
    order = sorted(range(len(items)), key=lambda at: len(texts[at]))
    for done, at in enumerate(order):
        share = max(left // (len(order) - done), min(_SHORT, left))
        found[at], used = _fitted(items[at], texts[at], share, indent)
        left -= used
    return found


def _fitted(item: Item, text: str, share: int, indent: str) -> tuple[str | list[str], int]:
    """Return a thing within its share, and what that costs."""
    needed = count(text) + 1  # for the sign between the head and the text
    if not text or (needed > share and share <= _SHORT):
        return "", 0
    if needed <= share and not text.endswith(DOTS):
        return text, needed
    parts = item.parts() if share >= _FEWEST else None
    if parts is not None and parts.total:
        lines = lay_out(parts, share, indent=indent + _INDENT, is_nested=True)
        return lines, sum(map(cost, lines))
    short = cut(text, share - 1)
    return short, count(short) + 1
