"""What is said of documents that are read as something else than they were written as."""

from llm_fsm.documents import check as checking

SHOWN = ("F101", "F102", "F111", "C201")


def check(what):
    """What reading, form and targets have to say; rules of style are for tests of their own."""
    return [
        found for found in checking.check(what) if found.code[0] in "EMS" or found.code in SHOWN
    ]


def said(what):
    return [(found.level, found.name, found.pointer) for found in check(what)]
