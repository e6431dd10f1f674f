"""Models behind an address (`openai:…`, `anthropic:…`, `scripted:…`): one request type, one reply type, one protocol.

`open.py` opens a model; `base.py` has the types.
"""
