"""Topics: where a conversation turns to something else, and when it comes back."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from otolith.conversation.discourse import Segmenter, TopicStatus, topics_of
from otolith.conversation.message import Message, Role, Text
from otolith.errors import BadValue
from tests.effort import lines_run
from tests.unit.conversation.development import DIALOGUES

HOUR = 3_600_000_000


def user(text: str, time: int = 0) -> Message:
    return Message(Role.USER, (Text(text),), time=time)


def assistant(text: str, time: int = 0) -> Message:
    return Message(Role.ASSISTANT, (Text(text),), time=time)


FLIGHT = [
    user("Find me a flight from Berlin to New York."),
    assistant("LH 400 leaves at 13:40 and costs 512 euros."),
    user("Is there an aisle seat on that flight?"),
    assistant("Yes, seat 23C is on the aisle."),
]
SOUP = [
    user("By the way, do you have a recipe for lentil soup?"),
    assistant("Fry onions and carrots, add lentils and cook for 25 minutes."),
    user("Which spices go into the soup?"),
    assistant("Cumin and a little vinegar."),
]


def spans(messages, **options):
    return [[(s.start, s.stop) for s in topic.spans] for topic in topics_of(messages, **options)]


def test_a_conversation_without_messages_has_no_topics():
    assert topics_of([]) == []


def test_a_cue_opens_a_topic():
    assert spans(FLIGHT + SOUP) == [[(0, 4)], [(4, 8)]]


@pytest.mark.parametrize(
    "cue", ["Back to the flight,", "Returning to the flight:", "Anyway, the flight to New York:"]
)
def test_a_return_joins_the_earlier_topic(cue):
    messages = [*FLIGHT, *SOUP, user(f"{cue} can I change my seat?")]

    assert spans(messages) == [[(0, 4), (8, 9)], [(4, 8)]]


def test_a_return_needs_no_cue_where_the_words_say_it():
    messages = [*FLIGHT, *SOUP, user("Which aisle seat did the flight to New York have, LH 400?")]

    assert spans(messages)[0] == [(0, 4), (8, 9)]


def test_a_german_cue_opens_a_topic_and_another_returns():
    messages = [
        user("Ich suche einen Zug von Köln nach Hamburg."),
        assistant("Der ICE 612 fährt um 08:10."),
        user("Übrigens, hast du ein Rezept für Linsensuppe?"),
        assistant("Ja, mit Zwiebeln und Karotten."),
        user("Zurück zum Zug: gibt es eine Verbindung nach Hamburg am Abend?"),
    ]

    assert spans(messages) == [[(0, 2), (4, 5)], [(2, 4)]]


def test_other_words_of_another_field_open_a_topic_without_a_cue():
    messages = [
        *FLIGHT,
        user("My dog has eaten chocolate and the vet is closed, is that dangerous?"),
    ]

    assert spans(messages) == [[(0, 4)], [(4, 5)]]


def test_a_short_answer_and_a_reference_stay_with_the_topic():
    messages = [
        *FLIGHT,
        user("Yes, please."),
        assistant("Done."),
        user("And how much does it cost?"),
    ]

    assert spans(messages) == [[(0, 7)]]


def test_the_answer_to_a_question_stays_with_the_topic():
    asked = assistant("Seat 23C is booked. Do you have any wishes for the meal?")
    wish = user("A vegan menu without nuts, please.")

    assert spans([*FLIGHT, asked, wish]) == [[(0, 6)]]


def test_a_request_for_something_new_opens_a_topic_once_the_matter_before_was_ended():
    done = [user("Take it."), assistant("Done, seat 23C is booked.")]
    request = user("I am looking for a present for a colleague, any ideas?")

    assert spans([*FLIGHT, *done, request]) == [[(0, 6)], [(6, 7)]]
    assert "something new" in topics_of([*FLIGHT, *done, request])[1].spans[0].why


def test_what_anything_may_have_like_a_price_is_no_other_topic():
    messages = [*FLIGHT, user("What does the ticket cost, and what is the phone number?")]

    assert spans(messages) == [[(0, 5)]]


def test_asking_for_something_else_of_the_kind_stays_with_the_topic():
    assert spans([*FLIGHT, user("Do you have something else?")]) == [[(0, 5)]]


def test_a_long_time_in_between_speaks_for_another_topic():
    later = user("Could somebody water everything on my balcony?", time=30 * HOUR)
    messages = [user("Find a flight to Rome", time=HOUR), assistant("LH 400", time=HOUR + 1), later]

    assert len(spans(messages)) == 2


def test_the_last_topic_is_active_and_the_one_before_suspended_or_closed():
    assert [topic.status for topic in topics_of(FLIGHT + SOUP)] == [
        TopicStatus.SUSPENDED,
        TopicStatus.ACTIVE,
    ]
    closed = [*FLIGHT, user("Perfect, thanks!"), assistant("You are welcome."), *SOUP]
    assert topics_of(closed)[0].status is TopicStatus.CLOSED


def test_a_topic_has_keywords_a_label_and_reasons():
    flight, soup = topics_of(FLIGHT + SOUP)

    assert "flight" in flight.keywords
    assert "soup" in soup.label
    assert "By the way" in soup.spans[0].why
    assert (soup.first, soup.last, soup.returns) == (4, 7, 0)
    assert 5 in soup
    assert 3 not in soup


def test_a_judge_overrules_the_rules():
    assert spans(FLIGHT + SOUP, judge=lambda before, turn, proposal: 0) == [[(0, 8)]]
    assert len(spans(FLIGHT + SOUP, judge=lambda *_: "new")) == 4
    assert spans(FLIGHT + SOUP, judge=lambda *_: None) == spans(FLIGHT + SOUP)


def test_a_judge_that_names_no_topic_is_an_error():
    with pytest.raises(BadValue):
        topics_of(FLIGHT + SOUP, judge=lambda *_: 7)


# ---------------------------------------------------------------- laws

SAID = """flight seat soup onion by the way back to it they yes dog vet error test python . , ? Zug
Suppe übrigens sales_byCity"""
words = st.sampled_from(SAID.split())
messages = st.lists(
    st.builds(
        lambda role, text, time: Message(role, (Text(" ".join(text)),), time=time),
        st.sampled_from(list(Role)),
        st.lists(words, max_size=12),
        st.sampled_from([0, HOUR, 9 * HOUR]),
    ),
    max_size=14,
)


@given(messages)
def test_every_message_is_in_one_span_of_one_topic(said):
    covered = [
        at for topic in topics_of(said) for s in topic.spans for at in range(s.start, s.stop)
    ]

    assert sorted(covered) == list(range(len(said)))


@given(messages)
def test_one_topic_at_most_is_active_and_it_is_the_last(said):
    active = [topic for topic in topics_of(said) if topic.status is TopicStatus.ACTIVE]

    assert len(active) <= 1
    assert all(topic.last == len(said) - 1 for topic in active)


@given(messages)
def test_adding_one_by_one_comes_to_the_same_as_all_at_once(said):
    segmenter = Segmenter()
    for count, message in enumerate(said):
        segmenter.add(message)
        assert segmenter.topics() == topics_of(said[: count + 1])


@given(messages)
def test_spans_of_one_topic_do_not_touch(said):
    for topic in topics_of(said):
        pairs = zip(topic.spans, topic.spans[1:], strict=False)
        assert all(one.stop < other.start for one, other in pairs)


# ---------------------------------------------------------------- the dialogues it was written with


def test_the_dialogues_that_the_rules_were_written_with_are_cut_where_their_topics_change():
    right = found = wanted = 0
    for dialogue in DIALOGUES:
        gold = {
            at
            for at in range(1, len(dialogue.topics))
            if dialogue.topics[at] != dialogue.topics[at - 1]
        }
        ours = {s.start for topic in topics_of(dialogue.messages) for s in topic.spans} - {0}
        right, found, wanted = right + len(gold & ours), found + len(ours), wanted + len(gold)

    assert right >= 0.9 * wanted
    assert right >= 0.9 * found


def test_one_more_message_costs_the_same_at_the_end_as_at_the_start():
    segmenter = Segmenter()
    lines = FLIGHT + SOUP

    def add(count: int) -> None:
        for number in range(count):
            segmenter.add(lines[number % 8])

    add(80)
    early = lines_run(lambda: add(160))
    add(3000)
    late = lines_run(lambda: add(160))

    assert late < 3 * early
