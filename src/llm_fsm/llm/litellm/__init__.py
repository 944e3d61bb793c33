"""Models of any provider that litellm knows.

`adapter.py` is the adapter; open it first. `lazy_import.py` imports litellm with the first request,
because that takes long. `llm_fsm.llm.providers` knows the providers without that import.
"""
