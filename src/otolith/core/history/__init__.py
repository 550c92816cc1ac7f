"""Commits and their ancestry, refs, the history of a path, and undo."""
