"""Stores whose hashes are right and whose content is not: an error, never a crash or an answer."""

from __future__ import annotations

import pytest

from otolith import Repo
from otolith.care import verify
from otolith.core.history.commits import make_commit
from otolith.core.trees.layout import Link, digest
from otolith.errors import Error
from otolith.stores import Batch, MemoryStore, Object, Swap


def link(data, length=1, size=10):
    return Link(digest(data), length, size).encode()


def leaf(cell, key=b"a"):
    return b"m\0\1\0\xc4" + bytes((len(key),)) + key + b"\xc6" + len(cell).to_bytes(4, "big") + cell


def rooted(*objects, kind=b"\x01", size=5000):
    return objects, b"\xc1" + kind + link(objects[-1], 1, size)


def packed(value):
    return rooted(b"p" + value, kind=b"\0", size=len(value))


CHUNK = b"cabc"
BLOB = b"b\0\1\0\xc4" + bytes((len(link(CHUNK, 3, 3)),)) + link(CHUNK, 3, 3)

INNER = b"m\1\1\0\xc4\1a\xc4\x22" + link(leaf(b"\1"))

FORGERIES = {
    "a link in a leaf that is cut short": rooted(leaf(b"\xc1\0x")),
    "a link in a node that is cut short": rooted(b"m\1\1\0\xc4\1a\xc4\3abc"),
    "an empty cell": rooted(leaf(b"")),
    "an empty node": rooted(b"m\0\0\0"),
    "tags without end": rooted(leaf(b"\xc1\5\2" * 20_000 + b"\x90")),
    "a value that is too deep": packed(b"\x81\xa1a" + b"\x91" * 100_000 + b"\1"),
    "a blob that counts too much": rooted(CHUNK, BLOB, leaf(b"\xc1\3" + link(BLOB, 2**50, 2**50))),
    "a root that is a number": packed(b"\1"),
    "a root that is a list": packed(b"\x91\1"),
    "a root that is not a link": ((), b"\x81\xa1a\1"),
    "no root": ((), b""),
    "a key that is not text": rooted(leaf(b"\1", key=b"\xfe")),
    "a list that claims billions": packed(b"\x81\xa1a\xdd\xff\xff\xff\xff"),
    "a number that is not in its shortest form": packed(b"\x81\xa1a\xcc\1"),
    "keys out of order": packed(b"\x82\xa1b\1\xa1a\1"),
    "a tree that could be inline": rooted(leaf(b"\1"), size=4),
    "a node that is its parent's equal": rooted(
        leaf(b"\1"),
        b"m\1\2\0\xc4\1a\xc4\x22" + link(leaf(b"\1")) + b"\xc4\1b\xc4\x22" + link(leaf(b"\1")),
    ),
}


def forged(objects, cell):
    store = MemoryStore()
    repo = Repo(store, author="test")
    commit, data = make_commit(cell, (), now=1, author="mallory", message="")
    items = [Object(digest(item), item) for item in objects]
    swap = Swap("session/job/main", None, commit.hash)
    store.write(Batch(objects=[*items, Object(commit.hash, data)], swaps=[swap]))
    return repo


@pytest.mark.parametrize("name", FORGERIES)
def test_a_forgery_is_noticed_by_a_deep_look(name):
    report = verify(forged(*FORGERIES[name]), level="deep")

    assert not report.ok


@pytest.mark.parametrize("name", FORGERIES)
def test_a_forgery_raises_nothing_but_our_errors(name):
    repo = forged(*FORGERIES[name])

    def edit():
        state = repo.session("job")
        state["b"] = 1
        state.commit("b")

    for use in (
        lambda: repo.session("job").to_dict(),
        lambda: len(repo.session("job")),
        lambda: repo.session("job").blob("a").read(10, 2**40),
        lambda: list(repo.session("job").log()),
        edit,
    ):
        try:
            use()
        except Error as error:
            assert str(error)  # noqa: PT017 - whatever it is, it says something
