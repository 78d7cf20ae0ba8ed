/** A long list that only renders the rows on the screen. */
import type { ComponentChildren, JSX, TargetedKeyboardEvent } from "preact";
import { useEffect, useLayoutEffect, useRef, useState } from "preact/hooks";

/** Rows rendered above and below the screen, for scrolling. */
const SPARE_ROWS = 8;

export interface VirtualRowsProps<Item> {
  readonly items: readonly Item[];
  readonly rowHeight: number;
  readonly label: string;
  readonly head: ComponentChildren;
  readonly keyOf: (item: Item) => string;
  readonly row: (item: Item) => ComponentChildren;
}

interface Window {
  readonly first: number;
  readonly count: number;
}

export function VirtualRows<Item>(props: VirtualRowsProps<Item>): JSX.Element {
  const { items, rowHeight, label, head, keyOf, row } = props;
  const scroller = useRef<HTMLDivElement>(null);
  const [seen, setSeen] = useState<Window>({ first: 0, count: 30 });

  const look = (): void => {
    const element = scroller.current;
    if (element === null) return;
    const first = Math.max(0, Math.floor(element.scrollTop / rowHeight) - SPARE_ROWS);
    const count = Math.ceil(element.clientHeight / rowHeight) + 2 * SPARE_ROWS;
    setSeen((old) => (old.first === first && old.count === count ? old : { first, count }));
  };
  useLayoutEffect(look, [rowHeight]);
  useEffect(() => {
    const element = scroller.current;
    if (element === null) return undefined;
    const observer = new ResizeObserver(look);
    observer.observe(element);
    return () => observer.disconnect();
  });

  const shown = items.slice(seen.first, seen.first + seen.count);
  return (
    <div class="table" role="table" aria-label={label} aria-rowcount={items.length + 1}>
      <div role="rowgroup">{head}</div>
      <div
        class="table-body"
        role="rowgroup"
        ref={scroller}
        onScroll={look}
        onKeyDown={moveFocus}
        tabIndex={-1}
      >
        <div class="table-rows" style={{ height: `${items.length * rowHeight}px` }}>
          {shown.map((item, index) => (
            <div
              key={keyOf(item)}
              class="table-row"
              role="row"
              aria-rowindex={seen.first + index + 2}
              style={{
                height: `${rowHeight}px`,
                transform: `translateY(${(seen.first + index) * rowHeight}px)`,
              }}
            >
              {row(item)}
            </div>
          ))}
        </div>
      </div>
    </div>
  );
}

const STEPS: Readonly<Record<string, number>> = { ArrowDown: 1, j: 1, ArrowUp: -1, k: -1 };

/** Arrow keys move from the link of one row to that of the next. */
function moveFocus(event: TargetedKeyboardEvent<HTMLDivElement>): void {
  const step = STEPS[event.key];
  const current = (event.target as HTMLElement).closest("[aria-rowindex]");
  if (step === undefined || current === null || event.ctrlKey || event.metaKey) return;
  const index = Number(current.getAttribute("aria-rowindex")) + step;
  const next = event.currentTarget.querySelector(`[aria-rowindex="${index}"]`);
  if (next === null) return;
  event.preventDefault();
  next.scrollIntoView({ block: "nearest" });
  next.querySelector<HTMLElement>("a, button")?.focus({ preventScroll: true });
}
