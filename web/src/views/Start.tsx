// The first page: files of the folder, stored conversations, and templates for a new machine.
import { Suspense, lazy } from "preact/compat";
import { useEffect, useState } from "preact/hooks";
import { api } from "../api/client";
import type { Template } from "../api/types";
import { openFile, refreshFiles } from "../state/files";
import { attempt, openPanel, tell, useStudio } from "../state/store";
import { Press } from "./Buttons";

const Conversations = lazy(() => import("./Conversations"));

const KINDS: Record<string, string> = {
  definition: "conversation",
  workflow: "workflow",
  tests: "tests",
  other: "JSON",
};

export function Start() {
  const listing = useStudio((state) => state.listing);
  const hasStore = useStudio((state) => state.settings?.has_store ?? false);
  const files = (listing?.files ?? []).filter((one) => one.kind !== "layout");
  const machines = files.filter((one) => one.kind === "definition" || one.kind === "workflow");
  const rest = files.filter((one) => !machines.includes(one));
  return (
    <main class="start">
      <h1>{machines.length > 0 ? "Open a machine" : "Make your first machine"}</h1>
      {listing && <p class="quiet">{listing.folder}</p>}
      {[machines, rest].map((some, index) => (
        <ul class="files" key={index} aria-label={index === 0 ? "Machines" : "Other files"}>
          {some.map((one) => (
            <li key={one.path}>
              <Press run={() => openFile(one.path)}>
                <b>{one.path}</b>
                <small>
                  {KINDS[one.kind] ?? one.kind} {one.name}
                  {!one.writable && ", read only"}
                </small>
              </Press>
            </li>
          ))}
        </ul>
      ))}
      <ul class="releases" aria-label="Releases">
        {listing?.releases.map((one) => (
          <li key={one.path}>
            <b>{one.name}</b> {one.state} <small>{one.arms.join(", ")}</small>
          </li>
        ))}
      </ul>
      {listing?.truncated && <p>The folder has more files than are listed.</p>}
      {hasStore && (
        <Suspense fallback={null}>
          <Conversations />
        </Suspense>
      )}
      <NewMachine isFirst={machines.length === 0} />
    </main>
  );
}

const BLANK: Template = {
  name: "blank",
  title: "Blank",
  description: "Nothing yet. You add one question after the other.",
  kind: "definition",
};

/** Write a definition without states. Nothing is overwritten. */
async function blank(name: string): Promise<string> {
  const path = `${name}.json`;
  const text = `${JSON.stringify({ name, initial_state: "", states: {} }, null, 2)}\n`;
  await api.save({ path, text, base: null });
  return path;
}

function NewMachine({ isFirst }: { isFirst: boolean }) {
  const [templates, setTemplates] = useState<Template[]>([]);
  const [template, setTemplate] = useState("starter");
  const [name, setName] = useState("my_bot");
  useEffect(() => {
    api.templates().then(setTemplates).catch(tell);
  }, []);
  const made = async (wanted: string) => (await api.create({ name: wanted, template })).files[0]!;
  const create = (event: Event) => {
    event.preventDefault();
    void attempt(async () => {
      const path = template === BLANK.name ? await blank(name.trim()) : await made(name.trim());
      await refreshFiles();
      await openFile(path, template === BLANK.name ? "canvas" : undefined);
      openPanel(template === BLANK.name ? "details" : "talk");
    });
  };
  return (
    <form onSubmit={create} class="new-machine">
      <h2>{isFirst ? "Start from a template" : "New machine"}</h2>
      <div class="templates" role="radiogroup" aria-label="Template">
        {[BLANK, ...templates].map((one) => (
          <label key={one.name} class={template === one.name ? "chosen" : ""}>
            <input
              type="radio"
              name="template"
              checked={template === one.name}
              onChange={() => setTemplate(one.name)}
            />
            <b>{one.title}</b>
            <small>{one.description}</small>
          </label>
        ))}
      </div>
      <div class="line">
        <label>
          Name
          <input
            value={name}
            autocomplete="off"
            pattern="[a-z][a-z0-9_\-]*"
            onInput={(event) => setName(event.currentTarget.value)}
          />
        </label>
        <button class="main">{template === BLANK.name ? "Create" : "Create and talk"}</button>
      </div>
    </form>
  );
}
