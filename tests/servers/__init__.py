"""Real servers that tests start themselves, on loopback, each in a folder of its own.

A module for each kind: `postgres`, `redis`, `etcd`, `bucket`. `process.py` has what they share:
where a program is found, how a server is started, killed, frozen and thawed, and what happens if
it cannot be had: when CI=true that is a failure, elsewhere a skip that says why.
"""
