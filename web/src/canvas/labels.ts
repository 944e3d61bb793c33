// How much room a label takes, before it is drawn.
export const LABEL_WIDTH = 150;
/** A longer text is cut; its title has all of it. */
export const LABEL_LINES = 7;
const LINE = 14.5;
const ROOM = 14;

/** A few letters are wider than measured where another font is drawn. */
const SAFETY = 1.06;
let pen: OffscreenCanvasRenderingContext2D | null = null;

function widthOf(text: string): number {
  pen ??= new OffscreenCanvas(1, 1).getContext("2d");
  if (pen === null) return text.length * 6.6;
  pen.font = "12px system-ui, sans-serif";
  return pen.measureText(text).width * SAFETY;
}

/** Return the size of a label whose words are broken into lines as the browser breaks them. */
export function labelSize(text: string): { width: number; height: number } {
  if (text === "") return { width: 24, height: 20 };
  const most = LABEL_WIDTH - ROOM;
  let lines = 1;
  let used = 0;
  for (const word of text.split(/\s+/)) {
    const width = widthOf(word);
    const joined = used === 0 ? width : used + widthOf(" ") + width;
    if (joined <= most) {
      used = joined;
      continue;
    }
    // A word that is wider than a line is broken.
    lines += (used === 0 ? 0 : 1) + Math.floor(width / most);
    used = width % most;
  }
  return {
    // The browser gives broken text all the width there is.
    width: lines > 1 ? LABEL_WIDTH : Math.ceil(used + ROOM),
    height: Math.ceil(Math.min(lines, LABEL_LINES) * LINE + 6),
  };
}
