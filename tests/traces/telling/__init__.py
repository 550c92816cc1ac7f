"""The parts of likeness.py: what a value holds, kind by kind, and who shares it."""
