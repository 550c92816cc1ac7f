"""Several writers of one thread lose nothing of what any of them said."""

from __future__ import annotations

import subprocess
import sys
import threading

import otolith
from otolith.conversation import ToolCall
from tests.patience import HANG_SECONDS

EACH = 25
WRITER = """
import sys
import otolith
from otolith.conversation import ToolCall

place, name, count = sys.argv[1:]
with otolith.open(place, durability="fast") as repo:
    state = repo.session("shared")
    print("ready", flush=True)
    sys.stdin.readline()
    for number in range(int(count)):
        chat = state.conversation
        chat.user(f"{name} asks {number}")
        chat.assistant(tool_calls=[ToolCall(f"{name}-{number}", "search")])
        chat.tool(f"{name}-{number}", f"{name} found {number}")
        state.commit()
"""


def test_two_processes_that_write_to_one_thread_lose_no_message(tmp_path):
    place = str(tmp_path / "a.db")
    with otolith.open(place) as repo:
        repo.session("shared").commit(allow_empty=True)
    command = [sys.executable, "-c", WRITER, place]
    writers = [
        subprocess.Popen(
            [*command, name, str(EACH)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        for name in ("ann", "bob")
    ]
    for writer in writers:
        assert writer.stdout is not None
        assert writer.stdout.readline() == "ready\n"
    for writer in writers:
        writer.communicate("go\n", timeout=HANG_SECONDS)

    assert [writer.returncode for writer in writers] == [0, 0]
    with otolith.open(place) as repo:
        chat = repo.session("shared").conversation
        said = [each.text for each in chat if each.text]
        found = [each.results[0].content for each in chat if each.results]
        for name in ("ann", "bob"):
            asked = [text for text in said if text.startswith(name)]
            assert asked == [f"{name} asks {number}" for number in range(EACH)]
            assert {f"{name} found {number}" for number in range(EACH)} <= set(found)
        assert len(chat) == 6 * EACH
        assert not {each.done for each in chat.context(100_000, "openai").why}


def test_threads_that_write_and_read_one_state_lose_no_message():
    state = otolith.open("memory:").session("s")
    chat = state.conversation
    failed = []

    def write(name):
        try:
            for number in range(EACH):
                chat.assistant(tool_calls=[ToolCall(f"{name}-{number}", "search")])
                chat.tool(f"{name}-{number}", "found")
                chat.context(500, "anthropic")
                chat.search("found")
        except Exception as error:  # noqa: BLE001  # whatever it is, the test shows it
            failed.append(error)

    writers = [threading.Thread(target=write, args=(name,)) for name in "abcd"]
    for writer in writers:
        writer.start()
    for writer in writers:
        writer.join()
    state.commit()

    assert failed == []
    assert len(chat) == 8 * EACH
    assert len({each.id for each in chat}) == 8 * EACH
    assert chat.tokens == sum(each.tokens.count for each in chat if each.tokens)
