"""Servers with OpenAI's chat completions API.

`client.py` is the adapter; open it first. `connection.py` is its HTTP client, and `response.py` an
answer that arrives. `request.py` writes a request. `completion.py` reads a whole answer, and
`stream.py` one in pieces.
"""
