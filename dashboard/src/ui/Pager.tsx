import { count } from "../text/format.ts";
import { Button } from "./basics.tsx";

export const ROWS_PER_PAGE = 50;

/** Returns the rows of a page, from 1. Long lists are shown in pages, so that a thousand rows cost no more than fifty. */
export function pageOf<T>(rows: T[], page: number): T[] {
  return rows.slice((page - 1) * ROWS_PER_PAGE, page * ROWS_PER_PAGE);
}

export function pageNumber(text: string | undefined, total: number): number {
  const pages = Math.max(1, Math.ceil(total / ROWS_PER_PAGE));
  const number = Number.parseInt(text ?? "1", 10);
  return Math.min(pages, Math.max(1, Number.isNaN(number) ? 1 : number));
}

export function Pager(props: { page: number; total: number; onPage: (page: number) => void }) {
  const { page, total, onPage } = props;
  if (total <= ROWS_PER_PAGE) return null;
  const first = (page - 1) * ROWS_PER_PAGE + 1;
  const last = Math.min(total, page * ROWS_PER_PAGE);
  return (
    <nav class="pager" aria-label="Pages">
      <span class="muted">
        {count(first)}–{count(last)} of {count(total)}
      </span>
      <Button small disabled={page === 1} onClick={() => onPage(page - 1)}>
        Previous
      </Button>
      <Button small disabled={last === total} onClick={() => onPage(page + 1)}>
        Next
      </Button>
    </nav>
  );
}
