import type { ComponentChildren } from "preact";

import type { ApiProblem } from "../api/problem.ts";
import type { Resource } from "../state/resource.ts";
import { Button } from "./basics.tsx";
import { Icon, type IconName } from "./icons.tsx";

/** Bars where text will be. */
export function Loading({ rows = 4 }: { rows?: number }) {
  return (
    <div class="loading" role="status">
      <span class="unseen">Loading</span>
      {Array.from({ length: rows }, (_, index) => (
        <div key={index} class="loading-bar" />
      ))}
    </div>
  );
}

export function Empty(props: { icon: IconName; title: string; children?: ComponentChildren }) {
  return (
    <div class="empty">
      <Icon name={props.icon} size={28} />
      <p class="empty-title">{props.title}</p>
      {props.children && <div class="muted">{props.children}</div>}
    </div>
  );
}

export function ProblemBox({ problem, onRetry }: { problem: ApiProblem; onRetry?: () => void }) {
  const several = problem.errors.length > 1;
  return (
    <div class="notice notice-error" role="alert">
      <Icon name="warning" />
      <div>
        <p>{sentence(problem.message)}</p>
        {several && (
          <ul>
            {problem.errors.map((error) => (
              <li key={`${error.field}${error.reason}`}>
                <code>{error.field}</code>: {error.reason}
              </li>
            ))}
          </ul>
        )}
      </div>
      {onRetry && (
        <Button small onClick={onRetry}>
          Try again
        </Button>
      )}
    </div>
  );
}

/** Shows a resource: what is loading, what failed, or its data. Old data stays visible below a failure. */
export function Shown<T>(props: {
  resource: Resource<T>;
  rows?: number;
  children: (data: T) => ComponentChildren;
}) {
  const { data, problem, reload } = props.resource;
  return (
    <>
      {problem && <ProblemBox problem={problem} onRetry={reload} />}
      {data === undefined ? !problem && <Loading rows={props.rows} /> : props.children(data)}
    </>
  );
}

/** An error of the service begins in lower case; on a page it is a sentence. */
export function sentence(text: string): string {
  return text.charAt(0).toUpperCase() + text.slice(1);
}
