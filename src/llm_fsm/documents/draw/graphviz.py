"""Draw DOT digraphs as images with Graphviz's program `dot`."""

from __future__ import annotations

import subprocess

SECONDS = 60
"""The longest time of one drawing."""


class GraphvizError(Exception):
    """Graphviz is not installed, or could not draw. The message says which."""


def image(text: str, form: str) -> bytes:
    """Return a DOT digraph as `svg` or `png`. Raises GraphvizError."""
    try:
        done = subprocess.run(
            ["dot", f"-T{form}"],
            input=text.encode(),
            capture_output=True,
            timeout=SECONDS,
            check=False,
        )
    except OSError as error:
        raise GraphvizError(
            "SVG and PNG are drawn by Graphviz, whose program `dot` is not installed: `apt-get"
            " install graphviz` "
            "(or `brew install graphviz`)"
        ) from error
    except subprocess.TimeoutExpired as error:
        raise GraphvizError(f"Graphviz took longer than {SECONDS} seconds") from error
    if done.returncode != 0 or not done.stdout:
        raise GraphvizError(
            f"Graphviz could not draw it: {done.stderr.decode(errors='replace').strip()[:300]}"
        )
    return done.stdout
