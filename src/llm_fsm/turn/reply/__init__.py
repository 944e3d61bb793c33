"""Replies: `parser.py` reads a whole one or names its fault, `stream.py` reads one while it
arrives.
"""
