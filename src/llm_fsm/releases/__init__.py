"""Releases: a share of new conversations begins on a candidate definition, and guards watch it.

A release file enters. The arm of each new conversation leaves, chosen by a hash, and so do the
figures of both arms and the first guard that is broken. Nothing here plays a conversation:
`engine.releases` asks. Open `file.py` first. `arms.py` chooses, `figures.py` counts stored
conversations, and `guards.py` judges the counts by `intervals.py`.
"""
