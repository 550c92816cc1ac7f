"""Dialogues, written before the rules that they judge, with their topics and references."""
