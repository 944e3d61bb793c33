"""Pictures of the definitions that one calls; a module of its own, as only these need definitions loaded."""

from __future__ import annotations

import json
from collections.abc import Iterator

from llm_fsm.cli import documents
from llm_fsm.documents.draw.extract import Details, Picture, extract
from llm_fsm.documents.loader import load_dict
from llm_fsm.documents.subflows import gather


def pictures(document: documents.Document, file: str, details: Details) -> Iterator[Picture]:
    """What a definition without faults calls, in any depth. Raises DefinitionError for what is not there."""
    flows = gather(load_dict(document.value).definition, file=documents.named(file))
    for flow in flows.called.values():
        yield extract(json.loads(flow.definition.canonical), details)
