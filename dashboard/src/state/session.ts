import { get, post, remove, setSession, whenSignedOut } from "../api/client.ts";
import { ApiProblem } from "../api/problem.ts";
import type { Role, Session } from "../api/types.ts";
import { startLive, stopLive } from "./live.ts";
import { createStore, useStore } from "./store.ts";

interface SessionView {
  /** Undefined until the node has been asked. */
  session: Session | null | undefined;
  /** Whether a session ended by itself, rather than by signing out. */
  ended: boolean;
}

const view = createStore<SessionView>({ session: undefined, ended: false });

whenSignedOut(() => {
  if (view.get().session) enter(null, true);
});

function enter(session: Session | null, ended = false): void {
  setSession(session);
  setHint(session !== null);
  view.set({ session, ended });
  if (session) startLive();
  else stopLive();
}

/** Remembers that there is a session, and nothing about it: the cookie itself is hidden from scripts. */
const HINT = "tidegate.session";

/** Asks the node whether this browser is signed in, unless it never was: a refusal would be an error in the console. */
export async function resume(): Promise<void> {
  if (!hasHint()) return enter(null);
  try {
    enter(await get<Session>("session"));
  } catch (error) {
    if (!(error instanceof ApiProblem) || error.status !== 401) throw error;
    enter(null, true);
  }
}

function hasHint(): boolean {
  try {
    return localStorage.getItem(HINT) !== null;
  } catch {
    return true;
  }
}

function setHint(present: boolean): void {
  try {
    if (present) localStorage.setItem(HINT, "1");
    else localStorage.removeItem(HINT);
  } catch {
    // Without storage the node is asked each time.
  }
}

export async function signIn(token: string): Promise<void> {
  enter(await post<Session>("session", { token }));
}

export async function signOut(): Promise<void> {
  await remove("session");
  enter(null);
}

export function useSession(): SessionView {
  return useStore(view, (value) => value);
}

const RANK: Record<Role, number> = { check: 0, viewer: 1, operator: 2, admin: 3 };

/** Returns whether the reader's role permits what needs `role`. The node checks it again. */
export function useMay(role: Role): boolean {
  return useStore(view, ({ session }) => RANK[session?.role ?? "check"] >= RANK[role]);
}
