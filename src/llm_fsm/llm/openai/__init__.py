"""Servers that speak OpenAI's chat completions. `client.py` is the adapter over `connection.py`, an HTTP client."""
