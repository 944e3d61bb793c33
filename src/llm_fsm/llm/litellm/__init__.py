"""Models of any provider that litellm knows. `adapter.py` is the adapter, `lazy_import.py` imports litellm late."""
