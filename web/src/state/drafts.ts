// Unsaved texts in local storage. They survive a crash of the page and of the server.
const PLACE = "llm-fsm-draft:";

export function keepDraft(path: string, text: string, base: string | null): void {
  try {
    localStorage.setItem(PLACE + path, JSON.stringify({ text, base }));
  } catch {
    // The storage is full or forbidden: the page still asks before it is left.
  }
}

export function dropDraft(path: string): void {
  try {
    localStorage.removeItem(PLACE + path);
  } catch {
    // Nothing was kept.
  }
}

export function findDraft(path: string): string | null {
  try {
    const kept = localStorage.getItem(PLACE + path);
    return kept === null ? null : String((JSON.parse(kept) as { text: unknown }).text);
  } catch {
    return null;
  }
}
