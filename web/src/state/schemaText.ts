// Completion and hover of the text view: the keys and values that the published schema allows here.
import type { Completion, CompletionContext, CompletionResult } from "@codemirror/autocomplete";
import { syntaxTree } from "@codemirror/language";
import type { EditorState } from "@codemirror/state";
import { TARGETS, nodes } from "./machine";
import { type Schema, childSchema, enumOf, propertiesOf, rootSchema } from "./schema";

type Node = ReturnType<ReturnType<typeof syntaxTree>["resolveInner"]>;

const nameOf = (state: EditorState, property: Node): string => {
  const name = property.getChild("PropertyName");
  if (!name) return "";
  return state.sliceDoc(name.from, name.to).replace(/^"|"$/g, "");
};

/** Return the schemas and keys that lead from the whole document to a node. */
function wayTo(state: EditorState, node: Node): { schema: Schema | null; keys: string[] } {
  const keys: string[] = [];
  for (let at: Node | null = node; at; at = at.parent) {
    if (at.name === "Property") keys.unshift(nameOf(state, at));
    if (at.parent?.name === "Array") keys.unshift("0");
  }
  let schema: Schema | null = rootSchema();
  for (const key of keys) schema = schema && childSchema(schema, key);
  return { schema, keys };
}

const enclosing = (node: Node | null, name: string): Node | null => {
  for (let at = node; at; at = at.parent) if (at.name === name) return at;
  return null;
};

export function completions(context: CompletionContext): CompletionResult | null {
  const node = syntaxTree(context.state).resolveInner(context.pos, -1);
  const word = context.matchBefore(/"[^"\n]*|[A-Za-z_][\w-]*/);
  if (!word && !context.explicit) return null;
  const from = word?.from ?? context.pos;
  const property = enclosing(node, "Property");
  const isName = node.name === "PropertyName" || node.name === "Object" || node.name === "{";
  if (!isName && property && context.pos > (property.getChild("PropertyName")?.to ?? 0)) {
    return valueCompletions(context, property, from);
  }
  const object = enclosing(node, "Object");
  if (!object) return null;
  const { schema } = wayTo(context.state, object);
  const present = new Set(object.getChildren("Property").map((one) => nameOf(context.state, one)));
  const options = Object.entries(propertiesOf(schema))
    .filter(([key]) => !present.has(key))
    .map(([key, value]): Completion => {
      const info = value.description;
      return { label: `"${key}"`, type: "property", apply: `"${key}": `, info };
    });
  return { from, options, validFor: /^"?[\w-]*"?$/ };
}

function valueCompletions(context: CompletionContext, property: Node, from: number) {
  const { schema, keys } = wayTo(context.state, property);
  const last = keys.at(-1) ?? "";
  const words = enumOf(schema).map((one) => JSON.stringify(one));
  if (TARGETS.includes(last)) words.push(...nodes().map((one) => JSON.stringify(one.id)));
  const options = words.map((label): Completion => ({ label, type: "enum" }));
  return { from, options, validFor: /^"?[\w-]*"?$/ };
}

/** Return what the schema says of the key at an offset. */
export function describe(state: EditorState, at: number) {
  const node = syntaxTree(state).resolveInner(at, 1);
  if (node.name !== "PropertyName" || !node.parent) return null;
  const { schema } = wayTo(state, node.parent);
  const text = schema?.description;
  return text ? { from: node.from, to: node.to, text } : null;
}
