"""Read and play `*.test.json` files.

A path enters; a result for each case leaves. `loader.py` reads a file with the models of
`models.py` and reports everything that is wrong. `checks.py` and `parametrize.py` help it.
`session.py` plays the cases of a file: `player.py` makes the machine and the host (`fixtures.py`),
`runner.py` plays one case, `assertions.py` compares. `scripted_model.py` gives the replies, or
`recording.py` for recordings, which `cassette.py` stores. `save.py` turns a conversation into a
file. Open `models.py` first.
"""
