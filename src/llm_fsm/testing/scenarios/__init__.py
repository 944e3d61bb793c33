"""Read and play `*.test.json` files.

A path enters; a result for each case leaves. `loader.py` reads a file with the models of `models.py` and reports
everything that is wrong, `checks.py` and `parametrize.py` help it. `session.py` plays the cases of a file: `player.py`
makes the machine and the host (`fixtures.py`), `runner.py` plays one case, `assertions.py` compares. Who answers is in
`scripted_model.py`, or in `recording.py` for recordings, which `cassette.py` stores. `save.py` goes the other way, from
a conversation to a file. Open `models.py` first.
"""
