"""`llm-fsm conversations`: list, show, replay, transfer and migrate stored conversations.

Each subcommand is a module. They open the store that `--db` names by `cli/stores.py`.
"""
