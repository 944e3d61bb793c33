// Actions as buttons, and as the menu of a right click.
import type { ComponentProps } from "preact";
import { useLayoutEffect, useRef } from "preact/hooks";
import type { Action } from "../state/menus";
import { change, useStudio } from "../state/store";
import { walk } from "./rows";

interface PressProps extends Omit<ComponentProps<"button">, "onClick"> {
  readonly run: () => unknown;
  readonly label?: string;
}

/** A button that does something, and does not wait for its end. */
export const Press = ({ run, label, children, ...rest }: PressProps) => (
  <button type="button" {...rest} onClick={() => void run()}>
    {label ?? children}
  </button>
);

/** What went wrong, if something did. */
export const Alert = ({ words }: { words: string }) =>
  words === "" ? null : (
    <p role="alert" class="error">
      {words}
    </p>
  );

export function Buttons({ actions }: { actions: readonly Action[] }) {
  return (
    <div class="buttons">
      {actions.map(([label, run]) => (
        <Press key={label} run={run} label={label} />
      ))}
    </div>
  );
}

/** The menu of what was clicked. Arrow keys go through it; Escape and any other click close it. */
export function ContextMenu() {
  const menu = useStudio((state) => state.menu);
  const list = useRef<HTMLDivElement>(null);
  useLayoutEffect(() => {
    const box = list.current;
    if (!box || !menu) return;
    const before = document.activeElement as HTMLElement | null;
    const inside = (at: number, size: number, room: number) =>
      Math.max(0, Math.min(at, room - size));
    box.style.left = `${inside(menu.x, box.offsetWidth, innerWidth)}px`;
    box.style.top = `${inside(menu.y, box.offsetHeight, innerHeight)}px`;
    box.querySelector("button")?.focus();
    return () => before?.focus();
  }, [menu]);
  if (menu === null) return null;
  const close = () => change({ menu: null });
  const choose = (run: Action[1]) => {
    close();
    void run();
  };
  const step = (event: KeyboardEvent) => {
    const isEnd = event.key === "Escape" || event.key === "Tab";
    if (isEnd) close();
    else if (!walk(event, list.current!, "button")) return;
    event.preventDefault();
    event.stopPropagation();
  };
  return (
    <div
      class="menu-room"
      onPointerDown={(event) => event.target === event.currentTarget && close()}
    >
      <div class="menu" role="menu" aria-label={menu.title} ref={list} onKeyDown={step}>
        {menu.actions.map(([label, run]) => (
          <Press key={label} role="menuitem" run={() => choose(run)} label={label} />
        ))}
      </div>
    </div>
  );
}
