"""A static model gives texts vectors without a network, or says what is missing."""

from __future__ import annotations

import operator
import socket
import sys

import pytest

import otolith
from otolith.conversation import Conversation, embeddings
from otolith.errors import BadValue, MissingExtra, NotFound
from otolith.memory import Memory

NEAR = {"fly": (1, 0), "plane": (0.9, 0.1), "hotel": (0, 1), "room": (0.1, 0.9)}


@pytest.fixture(autouse=True)
def nobody_calls_anybody(monkeypatch):
    def refuse(*_):
        raise AssertionError("a model was looked for in the network")

    monkeypatch.setattr(socket.socket, "connect", refuse)


@pytest.fixture
def model(tmp_path):
    """Return the folder of a model that knows four words."""
    model2vec = pytest.importorskip("model2vec")
    numpy = pytest.importorskip("numpy")
    tokenizers = pytest.importorskip("tokenizers")
    words = {word: at for at, word in enumerate(["[UNK]", *NEAR])}
    tokenizer = tokenizers.Tokenizer(tokenizers.models.WordLevel(words, "[UNK]"))
    tokenizer.pre_tokenizer = tokenizers.pre_tokenizers.Whitespace()
    vectors = numpy.array([(0, 0), *NEAR.values()], dtype="float32")
    made = model2vec.StaticModel(vectors, tokenizer)
    made.save_pretrained(tmp_path / "tiny")
    return tmp_path / "tiny"


@pytest.fixture
def chat():
    chat = Conversation(otolith.open("memory:").session("s"), clock=lambda: 1)
    chat.user("I want to fly")
    chat.user("and a hotel")
    chat.user("thanks")
    return chat


def test_what_means_the_same_is_found_with_a_model_in_a_folder(model, chat):
    embed = embeddings(model)

    assert chat.search("plane") == []
    assert [hit.index for hit in chat.search("plane", embed=embed)] == [0, 1]
    assert chat.search("room", k=1, embed=embed)[0].index == 1


def test_vectors_have_the_length_one(model):
    for vector in embeddings(str(model))(["fly plane", "hotel"]):
        assert sum(map(operator.mul, vector, vector)) == pytest.approx(1)


def test_a_model_is_found_by_name_where_it_was_downloaded_to(model, chat, monkeypatch, tmp_path):
    kept = tmp_path / "hub" / "models--ann--tiny"
    (kept / "refs").mkdir(parents=True)
    (kept / "refs" / "main").write_text("abc\n")
    (kept / "snapshots").mkdir()
    model.rename(kept / "snapshots" / "abc")
    monkeypatch.setenv("HF_HUB_CACHE", str(tmp_path / "hub"))

    embed = embeddings("ann/tiny")

    assert chat.search("plane", k=1, embed=embed)[0].index == 0


@pytest.mark.parametrize("name", ["ann/nothing", "nothing", "/no/folder", ""])
def test_a_model_that_is_not_there_is_not_downloaded(monkeypatch, tmp_path, name):
    pytest.importorskip("model2vec")
    monkeypatch.setenv("HF_HUB_CACHE", str(tmp_path))
    monkeypatch.chdir(tmp_path)

    with pytest.raises(NotFound) as missing:
        embeddings(name)

    assert missing.value.hint


def test_a_folder_without_a_model_is_not_one(tmp_path):
    pytest.importorskip("model2vec")
    (tmp_path / "config.json").write_text("{}")

    with pytest.raises(NotFound):
        embeddings(tmp_path)


def test_what_has_to_be_installed_is_told(monkeypatch):
    monkeypatch.setitem(sys.modules, "model2vec", None)

    with pytest.raises(MissingExtra, match="model2vec") as missing:
        embeddings("models/tiny")

    assert "otolith[embeddings]" in missing.value.hint


def test_notes_are_recalled_by_meaning(model):
    embed = embeddings(model)

    def judge(question, note):
        asked, said = embed([question, note.text])
        return max(sum(map(operator.mul, asked, said)), 0)

    state = otolith.open("memory:").session("s")
    memory = Memory(state, clock=lambda: 1, relevance=judge)
    memory.note("stay", "a hotel")
    memory.note("trip", "fly at noon")

    assert memory.recall("plane")[0].key == "trip"
    assert memory.recall("room")[0].key == "stay"


# ---------------------------------------------------------------- functions of one's own


def test_another_function_gives_every_message_another_vector(chat):
    def by_letters(texts):
        return [[float(len(text)), 1.0] for text in texts]

    def by_word(texts):
        return [[float("fly" in text), float("hotel" in text), 0.1] for text in texts]

    chat.search("x", embed=by_letters)

    assert chat.search("hotel?", k=1, embed=by_word)[0].index == 1


@pytest.mark.parametrize(
    "embed", [lambda texts: [[1.0]], lambda texts: [[1.0] * (1 + n) for n, _ in enumerate(texts)]]
)
def test_every_text_needs_a_vector_of_one_length(chat, embed):
    with pytest.raises(BadValue):
        chat.search("x", embed=embed)


def test_a_vector_of_no_numbers_is_near_to_nothing(chat):
    def nowhere(texts):
        return [[float("nan"), 1.0] for _ in texts]

    assert chat.search("zeppelin", embed=nowhere) == []
    assert chat.search("hotel", embed=nowhere)[0].index == 1


def test_a_query_is_text(chat):
    with pytest.raises(BadValue):
        chat.search(7)
