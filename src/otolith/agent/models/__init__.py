"""Models: what answers an agent, over HTTP, from a function or from a script.

`base.py` has the protocol `Model` and its `Reply`. `provider.py` is what `openai.py` and
`anthropic.py` share; both talk through the `Endpoint` of `http.py`, which keeps API keys out of
errors by `secrets.py`. `script.py` is for tests. Import all of them from `otolith.agent`.
"""
