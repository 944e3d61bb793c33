/** Let arrow keys go from row to row, Home and End to the first and last one. Return true for such a key. */
export function walk(event: KeyboardEvent, within: Element, selector: string): boolean {
  const steps: Record<string, number> = { ArrowDown: 1, ArrowUp: -1, Home: -1e9, End: 1e9 };
  const by = steps[event.key];
  if (by === undefined) return false;
  const rows = [...within.querySelectorAll<HTMLElement>(selector)];
  const at = rows.indexOf(document.activeElement as HTMLElement) + by;
  const row = rows[Math.max(0, Math.min(rows.length - 1, at))];
  row?.focus();
  if (row) event.preventDefault();
  return row !== undefined;
}
