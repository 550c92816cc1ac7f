"""What runs inside the sandbox: a fork server, and workers that run code and capture state.

Read `worker.py` for a worker's life, `namespace.py` for how variables come, `capture.py` for how
they are kept. Nothing here can write to a store: it asks the host, and hands over.
"""
