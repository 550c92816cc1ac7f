"""The specification of format 1 is true: its examples, and a reader written from it alone."""

from __future__ import annotations

import ast
import json
import re

import pytest
from blake3 import blake3

from otolith.core import Encoding
from otolith.stores import MemoryStore
from otolith.types import Tag
from tests.compat.golden_values import codecs
from tests.compat.make_golden import GOLDEN, golden_repo
from tests.compat.reader import Reader, Wrong, chunk_lengths, height, permutation
from tests.compat.reader_values import Ext, Map, canonical, parse, plain
from tests.compat.spec import NAMES, table

EXPECTED = json.loads((GOLDEN / "format-v1.json").read_text())
VALUES = table("Examples of values")
HEIGHTS = table("Examples of heights")
OBJECTS = table("Examples of objects")


@pytest.fixture(scope="module")
def reader():
    reader = Reader(str(GOLDEN / "format-v1.db"))
    yield reader
    reader.rows.close()


@pytest.mark.parametrize(("expression", "shown"), VALUES)
def test_a_value_has_the_bytes_that_the_page_shows(expression, shown):
    encoding = Encoding(codecs())
    value = eval(expression, {}, NAMES)

    assert encoding.encode(value).hex(" ") == shown
    assert canonical(parse(bytes.fromhex(shown))).hex(" ") == shown


def test_the_page_shows_every_tag():
    shown = " ".join(row[0] for row in table("Tags"))

    assert {int(number) for number in re.findall(r"\d+", shown)} == set(map(int, Tag))
    assert len(VALUES) > 40


@pytest.mark.parametrize(("what", "shown", "hash"), OBJECTS)
def test_an_object_has_the_hash_that_the_page_shows(what, shown, hash):
    assert blake3(bytes.fromhex(shown)).hexdigest() == hash


def test_the_objects_of_the_page_are_in_the_golden_store(reader):
    config, packed, commit = (bytes.fromhex(hash) for _, _, hash in OBJECTS[:3])

    assert reader.rows.refs[".config"] == config
    assert reader.commit(commit)["message"] == "base"
    assert reader.object(packed)[:1] == b"p"


@pytest.mark.parametrize(("key", "salt", "levels"), HEIGHTS)
def test_a_key_has_the_height_that_the_page_shows(key, salt, levels):
    assert height(ast.literal_eval(key), int(salt, 16)) == int(levels)


@pytest.mark.parametrize(("keys", "head", "tail"), table("The order of a map tree"))
def test_a_dict_has_the_head_and_tail_that_the_page_shows(keys, head, tail):
    names, first, rest = (re.findall(r"\w", text) for text in (keys, head, tail))
    cells = golden_repo(MemoryStore()).session("s").cells
    cell = cells.put(dict.fromkeys(names, "long" * 10_000))

    assert first + rest == names
    assert cells.load(cells.order(cell)) == rest
    assert plain(Ext(34, canonical([Map((name, 0) for name in sorted(names)), rest]))) == (
        dict.fromkeys(names, 0)
    )


def test_the_page_shows_both_permutations():
    shown = [bytes.fromhex(ranks) for _, ranks in table("Chunks of a blob")]

    assert shown == [bytes(permutation(number)) for number in range(2)]


def test_every_commit_of_the_golden_store_can_be_read_from_the_page_alone(reader):
    for id, expected in EXPECTED["commits"].items():
        commit = reader.commit(bytes.fromhex(id))
        assert blake3(commit["state"]).hexdigest() == expected["state"]
        assert [parent.hex() for parent in commit["parents"]] == expected["parents"]
        assert commit["cell"][2:34].hex() == expected["root"]
        assert dict(commit["meta"]) == expected["meta"]
        for name in ("generation", "time", "author", "message", "kind"):
            assert commit[name] == expected[name]
    assert {(b"m", 2), (b"l", 2), (b"b", 1)} <= reader.nodes  # trees tall enough to prove the rules


def test_every_ref_and_move_can_be_read_from_the_page_alone(reader):
    assert {name: hash.hex() for name, hash in reader.rows.refs.items()} == EXPECTED["refs"]
    for name, moves in EXPECTED["moves"].items():
        assert (reader.rows.moves(name) if name in reader.rows.last else []) == moves


def test_generation_and_time_ascend_from_parent_to_child(reader):
    commits = EXPECTED["commits"]
    for commit in commits.values():
        parents = [commits[parent] for parent in commit["parents"]]
        assert commit["generation"] == 1 + max((each["generation"] for each in parents), default=0)
        assert all(commit["time"] > each["time"] for each in parents)


def test_the_second_reader_notices_a_node_that_ends_elsewhere():
    reader = Reader(str(GOLDEN / "format-v1.db"))
    reader.salt ^= 1
    with pytest.raises(Wrong, match="end"):
        reader.commit(bytes.fromhex(EXPECTED["refs"]["session/values/main"]))
    reader.rows.close()


@pytest.mark.parametrize(
    "name", ["reader.py", "reader_rows.py", "reader_values.py", "reader_documents.py"]
)
def test_the_second_reader_owes_nothing_to_the_first(name):
    source = (GOLDEN.parent / name).read_text()

    assert not re.search(r"^\s*(from|import) otolith", source, re.MULTILINE)


def test_a_chunk_is_never_shorter_or_longer_than_the_page_says():
    lengths = chunk_lengths(bytes(600_000))

    assert lengths == [262_144, 262_144, 75_712]
