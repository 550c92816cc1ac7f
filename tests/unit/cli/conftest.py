"""Sessions in which agents have done something, for a terminal to look at."""

from __future__ import annotations

from pathlib import Path

import pytest

from otolith import Disk, Versioned
from otolith.agent import Agent, ScriptedModel
from tests.unit.cli.terminal import BOT


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "bot.py").write_text(BOT)
    return tmp_path


@pytest.fixture
def said(place: Path) -> Path:
    """A session in which an agent has made one step."""
    agent = Agent(ScriptedModel([{"call": "pay", "amount": 5}]))

    @agent.tool(effects="once")
    def pay(amount: int) -> str:
        """Pay."""
        (place / "paid").write_text(f"{amount}\n")
        return "receipt"

    with Versioned(Disk(place / "a.db"), session="trip") as state:
        agent.orchestrator(state).run("Pay for the flight", max_steps=1)
    return place


@pytest.fixture
def unsure(place: Path) -> Path:
    """A session whose process died while it paid."""
    agent = Agent(ScriptedModel([{"call": "pay", "amount": 5}]))

    @agent.tool(effects="once")
    def pay(amount: int) -> str:
        """Pay."""
        raise KeyboardInterrupt

    with Versioned(Disk(place / "a.db"), session="trip") as state, pytest.raises(KeyboardInterrupt):
        agent.orchestrator(state).run("Pay for the flight")
    return place
