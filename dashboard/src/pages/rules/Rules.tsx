import { useRoute } from "../../state/place.ts";
import { DomainDetail } from "./DomainDetail.tsx";
import { RuleDetail } from "./RuleDetail.tsx";
import { RuleList } from "./RuleList.tsx";

/** All rules, the rules of a domain, or one rule. */
export function Rules() {
  const { path } = useRoute();
  const [domain, rule] = path;
  if (domain === undefined) return <RuleList />;
  if (rule === undefined) return <DomainDetail key={domain} domain={domain} />;
  return <RuleDetail key={`${domain}/${rule}`} domain={domain} rule={rule} />;
}
