import type { ComponentChildren } from "preact";

export interface Column<T> {
  title: string;
  cell: (row: T) => ComponentChildren;
  /** `main` is what the row is about, `wide` keeps room for text, `number` is set to the right. */
  kind?: "main" | "wide" | "number" | "actions" | "share";
  /** What the cell says on hover, such as the exact number. */
  hint?: (row: T) => string | undefined;
  /** A class of the cell, for its colour. */
  tone?: (row: T) => string | undefined;
}

interface TableProps<T> {
  columns: Column<T>[];
  rows: T[];
  keyOf: (row: T) => string | number;
  rowClass?: (row: T) => string | undefined;
  /** Whether rows are links, as a whole. */
  links?: boolean;
}

/**
 * A table; on narrow screens a list of cards, one per row, with the titles beside the values. The roles keep it a table
 * for readers of the screen when the style sheet lays it out otherwise.
 */
export function Table<T>({ columns, rows, keyOf, rowClass, links }: TableProps<T>) {
  return (
    <div class="table-box">
      <table class={`table cards${links ? " table-rows" : ""}`} role="table">
        <thead role="rowgroup">
          <tr role="row">
            {columns.map((column) => (
              <th key={column.title} scope="col" role="columnheader" class={classOf(column.kind)}>
                {column.kind === "actions" ? <span class="unseen">{column.title}</span> : column.title}
              </th>
            ))}
          </tr>
        </thead>
        <tbody role="rowgroup">
          {rows.map((row) => (
            <tr key={keyOf(row)} role="row" class={rowClass?.(row)}>
              {columns.map((column) => (
                <td
                  key={column.title}
                  role="cell"
                  class={[classOf(column.kind), column.tone?.(row)].filter(Boolean).join(" ") || undefined}
                  data-title={column.kind === "actions" ? undefined : column.title}
                  title={column.hint?.(row)}
                >
                  {column.cell(row)}
                </td>
              ))}
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}

function classOf(kind: Column<unknown>["kind"]): string | undefined {
  if (kind === undefined) return undefined;
  return kind === "share" ? "cell-share number" : kind === "number" ? "number" : `cell-${kind}`;
}

/** Nothing, as text. */
export function Dash() {
  return <span class="muted">–</span>;
}
