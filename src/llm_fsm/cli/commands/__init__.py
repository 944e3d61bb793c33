"""The commands of `llm-fsm`, one module each.

A module has the click command of its name, and the parts that only this command needs. `group.py`
above lists them. To add a command, write a module and a row there, and a row in the README.
"""
