"""How many files a reader has to open to follow an everyday call."""

from __future__ import annotations

from bench.flows import walks

MOST_FILES = {
    'state["a"]["b"].append(9); state.commit()': 28,
    "reopen a store": 26,
    'state["a"], first read': 17,
    'conversation.context(8000, for_="openai")': 27,
    'workspace.run("x = 1"), in the host': 41,
    'machine.send("stop")': 18,
    "then state.commit()": 15,
    "one orchestrator step with a tool call": 59,
}


def test_no_flow_gets_longer(tmp_path):
    found = {each.name: each.files for each in walks(tmp_path)}

    assert found.keys() == MOST_FILES.keys()
    assert {name: files for name, files in found.items() if files > MOST_FILES[name]} == {}
