"""The rules, in families. A rule is a function whose docstring is its page; `llm_fsm.lint.registry`
finds them all.
"""
