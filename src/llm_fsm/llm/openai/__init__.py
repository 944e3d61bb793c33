"""Servers that speak OpenAI's chat completions.

`client.py` is the adapter; open it first. `connection.py` is its HTTP client, and `response.py` an answer that arrives.
`completion.py` reads a whole answer, `stream.py` one in pieces. `tool_messages.py` writes and reads tools and calls.
"""
