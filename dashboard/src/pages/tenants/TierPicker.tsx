import { useState } from "preact/hooks";

import { type ApiProblem, problemOf } from "../../api/problem.ts";
import type { DomainListing } from "../../api/types.ts";
import { Button } from "../../ui/basics.tsx";
import { ProblemBox } from "../../ui/states.tsx";
import { toast } from "../../ui/Toasts.tsx";
import { tiersOf } from "./TenantList.tsx";
import { setTier } from "./tenant.ts";

/** The tier of a tenant, and a change of it. */
export function TierPicker(props: {
  tenant: string;
  tier: string | null;
  domains: DomainListing[];
  onDone: () => void;
}) {
  const [chosen, setChosen] = useState<string | null>(null);
  const [problem, setProblem] = useState<ApiProblem | null>(null);
  const tiers = tiersOf(props.domains);
  const value = chosen ?? props.tier ?? "";
  const save = async () => {
    try {
      setProblem(null);
      await setTier(props.tenant, value || null);
      toast(value ? `The tier is now ${value}` : "The tier is removed");
      setChosen(null);
      props.onDone();
    } catch (error) {
      setProblem(problemOf(error));
    }
  };
  if (tiers.length === 0) return <p class="pad muted">The rules define no tiers.</p>;
  return (
    <div class="pad">
      <div class="tools">
        <select aria-label="Tier" value={value} onChange={(event) => setChosen(event.currentTarget.value)}>
          <option value="">No tier: the limits of the rules</option>
          {tiers.map((tier) => (
            <option key={tier}>{tier}</option>
          ))}
        </select>
        <Button needs="operator" disabled={value === (props.tier ?? "")} onClick={() => void save()}>
          Change the tier
        </Button>
      </div>
      {problem && <ProblemBox problem={problem} />}
    </div>
  );
}
