"""Play dialogues that others made: SGD, STAR, and the retail tasks of τ-bench.

`files.py` reads the data, and names what is missing or has another form. `sgd.py` and `star.py` make
definitions and labelled turns of it, which `play.py` plays and counts. `tau.py` plays the retail
tasks on `examples/retail`, and `hostile.py` attacks them; `policy.py` judges each write by the rules
of the shop. The data is not part of this repository: `python -m benchmarks.suites` says where it is.
"""
