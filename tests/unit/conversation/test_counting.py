"""Tokens are estimated within bounds, counted where that can be, and learned from providers."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

import otolith
from otolith.conversation import Attachment, Conversation, Message, Role, Text, TokenCounter
from otolith.conversation.token_counts import (
    ESTIMATED,
    Calibration,
    ProviderCount,
    tokenizer,
    vocabulary,
)
from otolith.errors import MissingExtra, NotFound
from otolith.text.tokens import estimate_tokens, shorten

# What o200k_base makes of each, as counted with tiktoken and the vocabulary at hand.
COUNTED = {
    "I'd like to fly from Berlin to New York on the 14th, returning a week later.": 20,
    "def read(self, start: int, stop: int) -> list[Message]:\n    return self._log[start:stop]": 26,
    '{"id":"flight_7","price":489.5,"refundable":true,"tags":["cheap","aisle"]}': 26,
    "Ein Platz am Gang wäre schön, und bitte nichts, was vor neun Uhr morgens abfliegt.": 20,
    "我想在十月十四日从柏林飞往纽约，一周后返回。": 18,  # noqa: RUF001
    "Chciałbym polecieć z Berlina do Nowego Jorku czternastego października i wrócić po tygodniu."
    " Proszę o miejsce przy przejściu.": 46,
    "Tôi muốn bay từ Berlin đến New York vào ngày mười bốn tháng mười và quay lại sau một tuần."
    " Xin cho tôi ghế cạnh lối đi.": 35,
    "On dört Ekim'de Berlin'den New York'a uçmak ve bir hafta sonra dönmek istiyorum."
    " Koridor tarafında bir koltuk tercih ederim.": 35,  # noqa: RUF001
}


@pytest.mark.parametrize("text", COUNTED)
def test_an_estimate_is_near_the_truth(text):
    assert 0.9 <= estimate_tokens(text) / COUNTED[text] <= 1.4


def test_keys_and_base64_are_dear():
    assert estimate_tokens("QUJDREVGR0hJSktMTU5PUFFSU1RVVldYWVoxMjM0NTY3ODkw") > 25
    assert estimate_tokens("4f9c0a7be1d2c3b4a5968778695a4b3c2d1e0f9a") > 20


def test_a_text_is_shortened_to_what_fits():
    text = "first " + "words in the middle " * 500 + "last"
    short = shorten(text, 50, " … ")

    assert estimate_tokens(short) <= 50
    assert short.startswith("first")
    assert short.endswith("last")


def test_a_picture_costs_a_flat_sum_and_a_file_by_its_size():
    def picture(size):
        return ESTIMATED.message(Message(Role.USER, (Attachment("image/png", b"x" * size),)))

    assert picture(10) == picture(100_000) > 1000
    file = Message(Role.USER, (Attachment("application/pdf", b"x" * 80_000),))
    assert ESTIMATED.message(file) > 10_000


def test_a_counter_of_ones_own_is_used_and_named():
    chat = Conversation(otolith.open("memory:").session("s"), clock=lambda: 1)
    chat.user("twelve chars")

    letters = TokenCounter("letters", len)

    assert chat.context(100, counter=letters).tokens == 12 + 4
    assert chat.context(100, counter=len).tokens == 12 + 4


def test_a_counter_of_ones_own_counts_each_message_once():
    chat = Conversation(otolith.open("memory:").session("s"), clock=lambda: 1)
    chat.extend(Message(Role.USER, (Text(f"message {n}"),)) for n in range(50))
    counted: list[str] = []

    def letters(text):
        counted.extend(filter(None, [text]))
        return len(text)

    chat.context(100_000, counter=letters)
    assert len(counted) == 50
    chat.user("one more")
    chat.context(100_000, counter=letters)
    assert counted[50:] == ["one more"]


def test_a_vocabulary_that_is_not_there_is_not_downloaded(monkeypatch, tmp_path):
    monkeypatch.setenv("TIKTOKEN_CACHE_DIR", str(tmp_path))

    with pytest.raises((NotFound, MissingExtra)):
        vocabulary("o200k_base")


def test_a_tokenizer_is_a_file_or_an_extra_that_is_missing(tmp_path):
    with pytest.raises((NotFound, MissingExtra)):
        tokenizer(Path(tmp_path) / "none.json")


def test_a_tokenizer_in_a_file_counts_exactly(tmp_path):
    tokenizers = pytest.importorskip("tokenizers")
    words = {"[UNK]": 0, "fly": 1, "home": 2}
    made = tokenizers.Tokenizer(tokenizers.models.WordLevel(words, "[UNK]"))
    made.pre_tokenizer = tokenizers.pre_tokenizers.Whitespace()
    made.save(str(tmp_path / "tokenizer.json"))

    counter = tokenizer(tmp_path / "tokenizer.json")

    assert (counter.count("fly home, fly"), counter.count("")) == (4, 0)
    assert counter.name == f"{tmp_path.name}/tokenizer.json"


@pytest.mark.parametrize("load", [vocabulary, lambda: tokenizer("x.json")])
def test_what_has_to_be_installed_is_told(monkeypatch, load):
    for name in ("tiktoken", "tokenizers"):
        monkeypatch.setitem(sys.modules, name, None)

    with pytest.raises(MissingExtra) as missing:
        load()

    assert "otolith[tokens]" in missing.value.hint


# ---------------------------------------------------------------- what providers count


def test_estimates_are_scaled_to_what_a_provider_counted():
    chat = Conversation(otolith.open("memory:").session("s"), clock=lambda: 1)
    chat.user("word " * 100)
    context = chat.context(1000, "openai")
    chat.assistant("fine")
    chat.usage(input_tokens=2 * context.estimate, output_tokens=5, context=context)
    chat.user("word " * 100)

    scaled = chat.context(10_000, "openai")

    assert scaled.tokens == pytest.approx(2 * scaled.estimate, rel=0.1)


def test_the_difference_of_two_counts_belongs_to_what_came_between():
    scale = Calibration(
        [
            ProviderCount(2, 100, 0, 100),
            ProviderCount(4, 400, 0, 200),
            ProviderCount(6, 450, 0, 250),
        ]
    )

    assert scale.factor(3) == 3
    assert scale.factor(5) == 1
    assert scale.factor(0) == scale.factor(9) == pytest.approx(450 / 250, abs=1 / 16)


def test_a_cut_between_two_counts_says_nothing_about_messages():
    scale = Calibration([ProviderCount(2, 100, 0, 100, 0), ProviderCount(4, 50, 0, 100, 2)])

    assert scale.factor(3) == scale.overall == 0.5


def test_all_tokens_are_counted_once():
    state = otolith.open("memory:").session("s")
    chat = Conversation(state, clock=lambda: 1)
    for number in range(200):
        chat.append(Message(Role.USER, (Text(f"message {number}"),)))
    state.commit()

    assert chat.tokens == _sum(chat)
    state.rollback(state.commit("x", allow_empty=True))
    chat.fork(10, "short")
    assert chat.thread("short").tokens == _sum(chat[:10])


def _sum(messages):
    return sum(each.tokens.count for each in messages)
