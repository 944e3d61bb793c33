// The published JSON Schema of definitions, read for forms, completion and hover.
import { own } from "../forms/pointers";

export interface Schema {
  readonly $ref?: string;
  readonly description?: string;
  readonly type?: string | readonly string[];
  readonly enum?: readonly unknown[];
  readonly const?: unknown;
  readonly default?: unknown;
  readonly examples?: readonly unknown[];
  readonly minimum?: number;
  readonly maximum?: number;
  readonly properties?: Readonly<Record<string, Schema>>;
  readonly patternProperties?: Readonly<Record<string, Schema>>;
  readonly additionalProperties?: Schema | boolean;
  readonly items?: Schema;
  readonly anyOf?: readonly Schema[];
  readonly oneOf?: readonly Schema[];
  readonly required?: readonly string[];
  readonly $defs?: Readonly<Record<string, Schema>>;
}

let root: Schema = {};

export function takeSchema(schema: unknown): void {
  root = schema as Schema;
}

export const rootSchema = (): Schema => root;

export const definitionOf = (name: string): Schema => root.$defs?.[name] ?? {};

export function resolve(schema: Schema): Schema {
  const name = schema.$ref?.split("/").at(-1);
  if (name === undefined) return schema;
  const found = definitionOf(name);
  return schema.description ? { ...found, description: schema.description } : found;
}

/** Return the alternatives of a schema, without null. */
export function alternatives(schema: Schema): Schema[] {
  const resolved = resolve(schema);
  const many = resolved.anyOf ?? resolved.oneOf;
  if (!many) return [resolved];
  return many.flatMap(alternatives).filter((one) => one.type !== "null");
}

export function propertiesOf(schema: Schema | null): Readonly<Record<string, Schema>> {
  if (!schema) return {};
  for (const one of alternatives(schema)) if (one.properties) return one.properties;
  return {};
}

export function enumOf(schema: Schema | null): readonly unknown[] {
  if (!schema) return [];
  const found = alternatives(schema).flatMap((one) => one.enum ?? []);
  const isBoolean = alternatives(schema).some((one) => one.type === "boolean");
  return isBoolean ? [true, false, ...found] : found;
}

export function childSchema(schema: Schema, key: string): Schema | null {
  for (const one of alternatives(schema)) {
    const named = own(one.properties ?? {}, key);
    if (named) return named;
    if (one.items && /^\d+$/.test(key)) return one.items;
    for (const [pattern, value] of Object.entries(one.patternProperties ?? {})) {
      if (new RegExp(pattern).test(key)) return value;
    }
    if (typeof one.additionalProperties === "object") return one.additionalProperties;
  }
  return null;
}
