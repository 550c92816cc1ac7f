"""The code inside the sandbox: a fork server, and workers that run steps and capture their changes.

Read `worker.py` for the life of a worker, `namespace.py` for how variables are fetched, and
`capture.py` for how they are stored. Nothing here can write to a store: workers send their results
to the host.
"""
