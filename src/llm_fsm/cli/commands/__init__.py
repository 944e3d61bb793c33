"""The commands of `llm-fsm`, a module each: the click command of its name, and what only that command needs."""
