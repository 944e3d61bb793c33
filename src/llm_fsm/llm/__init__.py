"""Model adapters behind one small protocol.

An `LLMRequest` enters. A `ModelReply` leaves, whole or in pieces, or a `ModelError`. Open `base.py`
first: it is the port. `registry.py` finds the adapter for a name such as "provider/model", and
`router.py` one for each request. `openai/` calls OpenAI-compatible servers over HTTP, `litellm/`
all others, and `offline/` needs no model. `scripted.py` and `cassette.py` are doubles for tests.
`structured_output.py` chooses the form of a reply. `retry.py` and `fallbacks.py` handle failures.
An adapter never sees a definition; it knows one request.
"""
