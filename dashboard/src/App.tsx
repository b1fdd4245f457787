import { useEffect, useState } from "preact/hooks";

import { type ApiProblem, problemOf } from "./api/problem.ts";
import { Shell } from "./layout/Shell.tsx";
import { SignIn } from "./pages/sign-in/SignIn.tsx";
import { resume, useSession } from "./state/session.ts";
import { Loading, ProblemBox } from "./ui/states.tsx";

/** The dashboard, or the page to sign in. */
export function App() {
  const { session, ended } = useSession();
  const [problem, setProblem] = useState<ApiProblem | null>(null);
  const ask = () => {
    setProblem(null);
    resume().catch((error: unknown) => setProblem(problemOf(error)));
  };
  useEffect(ask, []);
  if (session === undefined) {
    return (
      <main class="alone">
        <h1 class="unseen">Tidegate</h1>
        {problem ? <ProblemBox problem={problem} onRetry={ask} /> : <Loading />}
      </main>
    );
  }
  return session ? <Shell session={session} /> : <SignIn ended={ended} />;
}
