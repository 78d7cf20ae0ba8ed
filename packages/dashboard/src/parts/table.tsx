/** A table that becomes a list of cards on a narrow screen. */
import type { ComponentChildren, JSX } from "preact";

export interface Column<Item> {
  readonly title: string;
  readonly cell: (item: Item) => ComponentChildren;
  readonly class?: string;
}

export interface TableProps<Item> {
  readonly items: readonly Item[];
  readonly keyOf: (item: Item) => string | number;
  /** The first column names the row. */
  readonly columns: readonly Column<Item>[];
  /** Buttons at the end of each row. */
  readonly actions?: (item: Item) => ComponentChildren;
}

export function Table<Item>({ items, keyOf, columns, actions }: TableProps<Item>): JSX.Element {
  return (
    <table class="plain-table">
      <thead>
        <tr>
          {columns.map(({ title }) => (
            <th key={title} scope="col">
              {title}
            </th>
          ))}
          {actions !== undefined && (
            <th scope="col">
              <span class="unseen">Actions</span>
            </th>
          )}
        </tr>
      </thead>
      <tbody>
        {items.map((item) => (
          <tr key={keyOf(item)}>
            {columns.map(({ title, cell, class: name }, index) =>
              index === 0 ? (
                <th key={title} scope="row" class={name}>
                  {cell(item)}
                </th>
              ) : (
                <td key={title} class={name} data-title={title}>
                  {cell(item)}
                </td>
              ),
            )}
            {actions !== undefined && <td class="row-buttons">{actions(item)}</td>}
          </tr>
        ))}
      </tbody>
    </table>
  );
}
