"""Read the docstrings as mkdocstrings wants them: our `Example:` is its `Examples:`, whose lines
are code.
"""

from __future__ import annotations

import re
from typing import Any

from griffe import Extension, Object

_EXAMPLE = re.compile(r"^Example:$", re.MULTILINE)


class ExamplesAsCode(Extension):
    """Rename the section of examples in every docstring."""

    def on_object(self, *, obj: Object, **_: Any) -> None:
        """Change the docstring of an object once it is loaded."""
        if obj.docstring is not None:
            obj.docstring.value = _EXAMPLE.sub("Examples:", obj.docstring.value)
