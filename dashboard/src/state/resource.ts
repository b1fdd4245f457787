import { useCallback, useEffect, useRef, useState } from "preact/hooks";

import { type ApiProblem, problemOf } from "../api/problem.ts";
import { live, useLive } from "./live.ts";

/** Something that is read from the node. Old data stays while newer data is read, and if that fails. */
export interface Resource<T> {
  data: T | undefined;
  problem: ApiProblem | undefined;
  loading: boolean;
  reload(): void;
}

interface Options {
  /** Reads it again after so many milliseconds, unless the reader has paused. */
  everyMs?: number;
  /** Reads it again when rules, switches or quotas change. */
  onChange?: boolean;
}

/**
 * Reads something, again whenever `key` changes. Without a `key` nothing is read. Data of another key is not shown, so
 * that a reader never takes one thing for another.
 */
export function useResource<T>(
  key: string | null,
  load: (signal: AbortSignal) => Promise<T>,
  options: Options = {},
): Resource<T> {
  const [held, setHeld] = useState<{ key: string; data?: T; problem?: ApiProblem } | null>(null);
  const [round, setRound] = useState(0);
  const [loading, setLoading] = useState(false);
  const loader = useRef(load);
  loader.current = load;
  const changes = useLive((view) => (options.onChange ? view.changes : 0));

  useEffect(() => {
    if (key === null) return;
    const abort = new AbortController();
    setLoading(true);
    loader.current(abort.signal).then(
      (data) => {
        if (abort.signal.aborted) return;
        setHeld({ key, data });
        setLoading(false);
      },
      (error: unknown) => {
        if (abort.signal.aborted) return;
        const problem = problemOf(error);
        setHeld((before) => ({ key, data: before?.key === key ? before.data : undefined, problem }));
        setLoading(false);
      },
    );
    return () => abort.abort();
  }, [key, round, changes]);

  useEffect(() => {
    if (!options.everyMs || key === null) return;
    const timer = setInterval(() => {
      const { pausedByReader } = live.get();
      if (!pausedByReader && !document.hidden) setRound((number) => number + 1);
    }, options.everyMs);
    return () => clearInterval(timer);
  }, [key, options.everyMs]);

  const reload = useCallback(() => setRound((number) => number + 1), []);
  const own = held?.key === key ? held : null;
  return {
    data: own?.data,
    problem: own?.problem,
    loading: loading || (key !== null && own === null),
    reload,
  };
}
