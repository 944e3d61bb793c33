"""The common conversation: 9 user turns over 6 states, with two unusable answers and one
correction.
"""

TURNS = [
    "Hi there!",  # greeting -> name
    "It's Maria",  # first name only: stay in name
    "My full name is Maria Gonzalez",  # -> email
    "you can write to maria at example",  # unusable: stay in email
    "maria@example.com",  # -> date
    "How about 12 May 2027, in the morning?",  # -> confirm
    "No, the email is wrong",  # -> email (correction)
    "it should be m.gonzalez@example.org",  # -> confirm
    "Yes, that is all correct now",  # -> done
]
EXPECTED = {"name": "Maria Gonzalez", "email": "m.gonzalez@example.org", "date": "12 May 2027"}


def idle_turn(k: int) -> str:
    """A turn that never completes the state `name` (lower case, no two capitalised words): the long
    conversation.
    """
    return f"message number {k}: i would rather first ask you something about the opening hours and the parking"
