"""The checker of definitions.

A plain document enters. Findings leave, with a code, a name, a level, a place and a hint. Open
`rule.py` first, then any module of `rules/`: a rule is a function whose docstring is its page in
docs/rules.md. `registry.py` lists the rules. `document.py` is what rules read, `graph.py` and
`logics.py` query it, and `facts/` computes what several rules need, and `solver/` reasons about
conditions. `suppressions.py` and `config.py` hide findings, `report/` formats them, and `fix/`
makes safe corrections.
"""
