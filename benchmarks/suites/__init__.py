"""Play dialogues that others made: SGD, STAR, and the retail tasks of τ-bench.

`files.py` reads the data, and names what is missing or has another form. `sgd.py` and `star.py` make
definitions and labelled turns of it, which `play.py` plays and counts; `bare_prompt.py` plays the
same turns without the machine, and `labelled.py` prints both. `tau.py` reads the retail tasks.
`desk.py` plays their right path on `examples/retail`, and `hostile.py` attacks it; `policy.py`
judges each write by the rules of the shop. `episode.py` plays one task live: `agents.py` has the bot
and a bare tool loop, `customer.py` the user. The data is not part of this repository: `python -m
benchmarks.suites` says where it is.
"""
