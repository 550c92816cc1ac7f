"""Prove your own parts: contract suites, faults, and a disk that loses power."""
