// The form of a state of a workflow (version 2.0), which no JSON Schema publishes.
import type { Schema } from "../state/schema";

export const WORKFLOW_STATE: Schema = {
  type: "object",
  properties: {
    objective: { type: "string", description: "What the state must reach." },
    key_results: {
      type: "array",
      description: "What must be true of the output before the workflow goes on.",
      items: {
        type: "object",
        properties: {
          name: { type: "string", description: "A short name." },
          description: { type: "string", description: "What must be true of the output." },
          check: { type: "string", description: "A registered function, or a lambda of Python." },
        },
        required: ["name"],
      },
    },
    tools: { type: "array", items: { type: "string" }, description: "Names of tools." },
    max_retries: { type: "integer", minimum: 0, description: "Tries after the first one." },
    execute: { type: "string", description: "The function that does the work." },
    is_initial: { type: "boolean", description: "The workflow begins here." },
    is_final: { type: "boolean", description: "The workflow ends here." },
  },
};

export const WORKFLOW: Schema = {
  type: "object",
  properties: { objective: { type: "string", description: "What the workflow is for." } },
};

export const CONTEXT_KEY: Schema = {
  type: "object",
  properties: {
    type: { enum: ["string", "integer", "number", "boolean", "array", "object"] },
    title: { type: "string", description: "What people call it." },
    description: { type: "string", description: "What it means, for the model." },
    enum: { type: "array", items: {}, description: "The only values that are allowed." },
    format: { enum: ["date", "time", "date-time", "email", "uri", "uuid"] },
    pattern: { type: "string", description: "A regular expression that the value must match." },
    minLength: { type: "integer", minimum: 0 },
    maxLength: { type: "integer", minimum: 0 },
    minimum: { type: "number" },
    maximum: { type: "number" },
    items: {},
    "x-source": { enum: ["model", "host", "tool", "answer"], description: "Who may write it." },
    "x-said": { enum: ["quote", "digits"], description: "The proof that the user said it." },
    "x-valid": {
      type: "array",
      description: "Conditions over the context that a value must fulfil.",
      items: {
        type: "object",
        properties: { description: { type: "string" }, logic: {} },
        required: ["description", "logic"],
      },
    },
    "x-secret": { type: "boolean", description: "Keep it out of prompts, logs and exports." },
    "x-from": { type: "array", items: { type: "string" }, description: "Keys it is made of." },
    "x-labels": { type: "object", description: "Words for the values of an enum." },
  },
};
