"""What an agent knows, shown as text within a budget of tokens."""

from otolith.agent.viewing.text import view

__all__ = ["view"]
