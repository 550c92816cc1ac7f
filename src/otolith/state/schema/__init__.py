"""Schemas of states: model classes as checks of values (`schema.py`, `models.py`, `checks.py`)."""
