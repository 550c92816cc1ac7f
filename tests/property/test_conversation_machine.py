"""Threads do what plain lists would: whatever is said, forked, edited, committed and undone."""

from __future__ import annotations

from dataclasses import replace
from itertools import dropwhile, takewhile

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

import otolith
from otolith.conversation import Attachment, Conversation, Role, Text, ToolCall
from otolith.errors import BadMessage, Exists

words = (
    st.text(min_size=1, max_size=20)
    .filter(lambda text: text.strip())
    .filter(lambda text: text.isprintable())
)
IDS = [f"call-{number}" for number in range(12)]
LONG = "a long sentence that fills a message " * 12


class Threads(RuleBasedStateMachine):
    """A state with threads beside a dict of lists."""

    def __init__(self) -> None:
        super().__init__()
        self.time = 0
        self.state = otolith.open("memory:").session("s")
        self.model: dict[str, list[tuple[str, object]]] = {}
        self.saved: list[tuple[object, dict[str, list[tuple[str, object]]]]] = []

    def chat(self, name: str) -> Conversation:
        return Conversation(self.state, thread=name, clock=self.tick)

    def tick(self) -> int:
        self.time += 1
        return self.time

    @initialize()
    def begin(self):
        self.chat("main").user("hello")
        self.model["main"] = [("user", "hello")]
        self.commit()

    @rule(
        data=st.data(),
        text=words | st.just(LONG),
        role=st.sampled_from(["user", "assistant", "system"]),
    )
    def say(self, data, text, role):
        name = data.draw(st.sampled_from(sorted(self.model)))
        getattr(self.chat(name), role)(text)
        self.model[name].append((role, text))

    @rule(data=st.data(), count=st.integers(1, 3), answered=st.integers(0, 3))
    def call(self, data, count, answered):
        name = data.draw(st.sampled_from(sorted(self.model)))
        chat = self.chat(name)
        free = [id for id in IDS if id not in self.known(name)]  # other threads may have them
        ids = data.draw(st.permutations(free))[:count]
        if not ids:
            return
        chat.assistant(tool_calls=[ToolCall(id, "search", {"n": 1}) for id in ids])
        self.model[name].append(("assistant", tuple(ids)))
        for id in ids[:answered]:
            chat.tool(id, "found")
            self.model[name].append(("tool", id))

    def known(self, name):
        return [id for _, ids in self.model[name] if type(ids) is tuple for id in ids]

    @rule(data=st.data())
    def answer(self, data):
        name = data.draw(st.sampled_from(sorted(self.model)))
        known = self.known(name)
        given = {id for role, id in self.model[name] if role == "tool"}
        id = data.draw(st.sampled_from([*known, "nobody"]))
        if id in known and id not in given:
            self.chat(name).tool(id, "late")
            self.model[name].append(("tool", id))
            return
        with pytest.raises(BadMessage) as refused:
            self.chat(name).tool(id, "again")
        assert refused.value.problem == ("answered" if id in known else "no_call")

    @rule(data=st.data())
    def call_again(self, data):
        name = data.draw(st.sampled_from(sorted(self.model)))
        known = self.known(name)
        if not known:
            return
        with pytest.raises(BadMessage) as refused:
            self.chat(name).assistant(tool_calls=[ToolCall(data.draw(st.sampled_from(known)), "x")])
        assert refused.value.problem == "duplicate_call"

    @rule(data=st.data(), size=st.sampled_from([3, 700]))
    def attach(self, data, size):
        name = data.draw(st.sampled_from(sorted(self.model)))
        file = Attachment("image/png", b"\x01" * size, name="a.png")
        self.chat(name).user([Text("see"), file])
        self.model[name].append(("user", file))

    @rule(data=st.data())
    def pop(self, data):
        name = data.draw(st.sampled_from(sorted(self.model)))
        if not self.model[name]:
            with pytest.raises(IndexError):
                self.chat(name).pop()
            return
        assert _what(self.chat(name).pop()) == self.model[name].pop()

    @rule(data=st.data())
    def clear(self, data):
        name = data.draw(st.sampled_from(sorted(self.model)))
        self.chat(name).clear()
        self.model[name].clear()

    @rule(data=st.data(), text=words | st.none())
    def set_the_system_prompt(self, data, text):
        name = data.draw(st.sampled_from(sorted(self.model)))
        self.chat(name).system_prompt = text
        said = list(dropwhile(lambda each: each[0] == "system", self.model[name]))
        self.model[name] = [("system", text), *said] if text else said
        prompts = takewhile(lambda each: each[0] == "system", self.model[name])
        assert self.chat(name).system_prompt == "\n".join(str(each) for _, each in prompts)

    @precondition(lambda self: len(self.model) < 5)
    @rule(data=st.data())
    def fork(self, data):
        name = data.draw(st.sampled_from(sorted(self.model)))
        at = data.draw(st.integers(0, len(self.model[name])))
        made = self.chat(name).fork(at)
        self.model[made.thread_name] = self.model[name][:at]
        assert (made.about.parent, made.about.at) == (name, at)

    @precondition(lambda self: len(self.model) < 5)
    @rule(data=st.data(), text=words)
    def edit(self, data, text):
        name = data.draw(st.sampled_from(sorted(self.model)))
        said = [
            at
            for at, (role, what) in enumerate(self.model[name])
            if type(what) is str and role != "tool"
        ]
        if not said:
            return
        at = data.draw(st.sampled_from(said))
        made = self.chat(name).edit(at, text)
        self.model[made.thread_name] = [*self.model[name][:at], (self.model[name][at][0], text)]

    @rule(data=st.data())
    def fork_to_a_name_that_is_taken(self, data):
        name = data.draw(st.sampled_from(sorted(self.model)))
        with pytest.raises(Exists):
            self.chat(name).fork(0, "main")

    @rule()
    def commit(self):
        self.saved.append(
            (self.state.commit(allow_empty=True), {k: list(v) for k, v in self.model.items()})
        )

    @rule()
    def discard(self):
        self.state.discard()
        self.model = {k: list(v) for k, v in self.saved[-1][1].items()}

    @rule(data=st.data())
    def roll_back(self, data):
        self.state.discard()
        commit, model = data.draw(st.sampled_from(self.saved))
        self.state.rollback(commit, discard=True)
        self.model = {k: list(v) for k, v in model.items()}
        self.commit()

    @rule(data=st.data())
    def look_back(self, data):
        commit, model = data.draw(st.sampled_from(self.saved))
        then = self.state.at(commit)
        for name, said in model.items():
            assert _told(Conversation(then, thread=name)) == said

    @invariant()
    def every_thread_is_its_list(self):
        threads = self.chat("main").threads()
        assert {name: each.messages for name, each in threads.items()} == {
            name: len(said) for name, said in self.model.items()
        }
        for name, said in self.model.items():
            chat = self.chat(name)
            assert _told(chat) == said
            assert chat.tokens == sum(each.tokens.count for each in chat if each.tokens)
            if said:
                assert chat[-1] == chat[len(said) - 1]

    @invariant()
    def contexts_are_those_of_the_lists(self):
        for name in self.model:
            chat = self.chat(name)
            users = [at for at, (role, _) in enumerate(self.model[name]) if role == "user"]
            assert chat._store.last_user_index() == (users[-1] if users else None)
            stays = [at for at, each in enumerate(chat) if each.role is Role.SYSTEM]
            assert list(chat._store.permanent_indices()) == stays


def _told(chat):
    return [_what(message) for message in chat]


def _what(message):
    role = str(message.role)
    if message.calls:
        return role, tuple(each.id for each in message.calls)
    if message.results:
        return role, message.results[0].call_id
    files = [part for part in message.parts if isinstance(part, Attachment)]
    return (role, replace(files[0])) if files else (role, message.text)


Threads.TestCase.settings = settings(max_examples=max(settings().max_examples // 2, 10))
TestThreads = Threads.TestCase
