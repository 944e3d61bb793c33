// The forms that no published JSON Schema describes: states of a workflow (version 2.0), and keys of the context.
import type { Schema } from "../state/schema";
import schemas from "./schemas.json";

export const WORKFLOW: Schema = schemas.workflow;
export const WORKFLOW_STATE: Schema = schemas.workflowState;
export const CONTEXT_KEY: Schema = schemas.contextKey;
