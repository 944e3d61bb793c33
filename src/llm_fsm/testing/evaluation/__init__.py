"""Measure how well a real model plays a definition, turn by turn, against the labels of a person.

`labels.py` reads the labels of a case, `dialogue.py` plays it, and `judge.py` compares a turn with
its labels. `figures.py` counts and compares, and `page.py` writes the page. The command is `llm-fsm
evaluate`.
"""
