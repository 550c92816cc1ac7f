"""Multi-step programs of data scientists and agents, and what compares the states they end in.

programs/     notebooks in percent form, run cell by cell
corpus.py     reads them
alone.py      runs one in one process: the reference
likeness.py   says what a namespace holds, so that two can be compared
telling/      the parts of likeness.py; like it, they need only the standard library
"""
