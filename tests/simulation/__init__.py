"""Deterministic simulation: whole histories of processes, threads and faults that a seed decides.

scheduler          tasks that give way to each other where the seed says so
machine            processes on one store: calls that fail or lose their reply, kills, forks
linearizability    what was called and answered, for the checker of otolith.testing
workloads          what processes do, and what must be true while they do it and afterwards
mutants            the faults that were mended, put back one by one

`Simulation(seed).run()` of a workload ends or raises; the same seed does the same again.
"""
