"""Classes own their collaborators: inheritance is short and has a reason."""

from __future__ import annotations

import ast
from collections import defaultdict

from tests.house.source import exceptions, modules

LONGEST_CHAIN = 4


def test_no_chain_of_our_own_classes_is_longer_than_four():
    bases = _bases()
    lengths = {name: _length(name, bases, frozenset()) for name in bases}

    assert {name: length for name, length in lengths.items() if length > LONGEST_CHAIN} == {}


def test_a_base_class_has_two_subclasses_or_is_made_for_users():
    bases = _bases()
    children = defaultdict(set)
    for name, above in bases.items():
        for base in above:
            children[base].add(name)
    protocols = {name for name, above in bases.items() if {"Protocol", "ABC"} & set(above)}
    only = {
        base
        for base, below in children.items()
        if base in bases and base not in protocols and len(below) == 1
    }

    assert only == set(exceptions("single_subclass"))


def test_every_listed_base_says_why():
    assert [n for n, entry in exceptions("single_subclass").items() if not entry["reason"]] == []


def _bases() -> dict[str, tuple[str, ...]]:
    """Return the names of the bases of every class of ours, errors and mirrors left out."""
    return {
        node.name: tuple(map(_name, node.bases))
        for module in modules()
        if module.name != "otolith.errors" and not module.name.startswith("otolith.aio")
        for node in ast.walk(module.tree)
        if isinstance(node, ast.ClassDef)
    }


def _name(base: ast.expr) -> str:
    """Return `B` of `a.B[T]`."""
    return ast.unparse(base).partition("[")[0].rpartition(".")[2]


def _length(name: str, bases: dict[str, tuple[str, ...]], seen: frozenset[str]) -> int:
    if name not in bases or name in seen:
        return 0
    return 1 + max((_length(base, bases, seen | {name}) for base in bases[name]), default=0)
