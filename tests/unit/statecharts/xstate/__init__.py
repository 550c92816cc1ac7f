"""XState's own engine beside ours: the same random machines, the same events, the same answers.

`machines.py` draws machines and scripts of events from a seed. `engines.py` plays a script with our
chart, and with XState in node (`driver.mjs`), and returns the same kind of record from both.
`recorded.json` has records that XState made: the default run compares with these, and needs no
node. `--long` installs the pinned XState into `.cache` and draws many more.

    python3 -m tests.unit.statecharts.xstate      makes `recorded.json` again
"""
