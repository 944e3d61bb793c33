"""Conversation tests as data: `*.test.json` files, how they are read, played, recorded, covered and reported."""
