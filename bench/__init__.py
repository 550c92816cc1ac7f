"""Measurements of otolith beside its peers, all taken in one run; start at `run.py`."""
