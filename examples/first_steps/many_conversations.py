"""Two hundred conversations at once in one process, kept in SQLite.

Run:  python examples/first_steps/many_conversations.py offline               no model and no key
      needed python examples/first_steps/many_conversations.py openai/gpt-4o-mini    LLM_FSM_MODEL
      without an argument

Turns of different conversations run side by side; those of one conversation wait for each other.
At most fifty calls are under way at the same time, which is what a provider's rate limit asks for.
"""

import asyncio
import sys
import tempfile
from pathlib import Path

from llm_fsm import AsyncMachine, ModelError

DEFINITION = Path(__file__).parents[2] / "fsm_definitions" / "greeting.json"
MESSAGES = ("I'm {name}", "I would like to see the house")


async def talk(machine: AsyncMachine, name: str, gate: asyncio.Semaphore) -> str:
    """One whole conversation; the last words said in it."""
    async with gate:
        chat = await machine.start(conversation_id=f"visitor-{name}")
    words = chat.greeting
    for message in MESSAGES:
        if chat.ended:
            break
        async with gate:
            turn = await chat.send(message.format(name=name), request_id=f"{name}-{message}")
        words = turn.text
    return words


async def run(model: str | None, database: Path, count: int = 200) -> dict[str, int]:
    """How many conversations ended, still wait for the user, and failed at the provider."""
    gate = asyncio.Semaphore(50)
    async with AsyncMachine.from_file(
        DEFINITION, model=model, store=f"sqlite:///{database}"
    ) as machine:
        names = [f"Guest{chr(65 + n // 26)}{chr(65 + n % 26)}" for n in range(count)]
        results = await asyncio.gather(
            *(talk(machine, name, gate) for name in names), return_exceptions=True
        )
        for result in results:
            if isinstance(result, BaseException) and not isinstance(result, ModelError):
                raise result
        listed = await machine.conversations(limit=count)
        return {
            "ended": sum(item.ended for item in listed),
            "open": sum(not item.ended for item in listed),
            "failed": sum(isinstance(result, ModelError) for result in results),
        }


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        found = asyncio.run(
            run(sys.argv[1] if len(sys.argv) > 1 else None, Path(folder) / "visitors.db")
        )
    print(", ".join(f"{number} {word}" for word, number in found.items()))


if __name__ == "__main__":
    main()
