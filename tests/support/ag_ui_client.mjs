// Holds a conversation with the official client of AG-UI: an address, and messages as JSON on standard input.
import { HttpAgent } from "@ag-ui/client";
import { readFileSync } from "node:fs";

const agent = new HttpAgent({ url: process.argv[2], threadId: process.argv[3] });
const found = [];
let interrupts = [];
for (const message of JSON.parse(readFileSync(0, "utf8"))) {
  const told = { events: [], state: null, text: "", step: "" };
  const subscriber = {
    onEvent: ({ event }) => { told.events.push(event.type); },
    onStepStartedEvent: ({ event }) => { told.step = event.stepName; },
    onRunErrorEvent: ({ event }) => { told.error = event; },
    onRunFinishedEvent: ({ event }) => {
      told.outcome = event.outcome;
      told.result = event.result;
      interrupts = event.outcome?.interrupts ?? [];
    },
  };
  if (typeof message === "string") {
    agent.addMessage({ id: crypto.randomUUID(), role: "user", content: message });
    await agent.runAgent({}, subscriber);
  } else {
    const resume = interrupts.map((one) => ({ interruptId: one.id, status: "resolved", payload: message }));
    await agent.runAgent({ resume }, subscriber);
  }
  told.state = structuredClone(agent.state);
  told.text = agent.messages.at(-1)?.content ?? "";
  found.push(told);
}
console.log(JSON.stringify(found));
