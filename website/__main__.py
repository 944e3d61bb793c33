"""Build the site: `python -m website`. It works from a folder, without a server and without
network.
"""

from __future__ import annotations

import os
import subprocess
import sys

from website import search
from website.prepare import ROOT, SITE, prepare


def main() -> int:
    """Build the site. Returns an exit code: 1 for a broken link or a missing page."""
    prepare()
    zensical = (sys.executable, "-m", "zensical", "build", "--clean", "--strict")
    done = subprocess.run(zensical, cwd=ROOT, env={**os.environ, "NO_COLOR": "1"}, check=False)
    if done.returncode == 0:
        search.order(SITE)
        print(f"open {SITE / 'index.html'} in a browser")
    return 1 if done.returncode else 0


if __name__ == "__main__":
    sys.exit(main())
