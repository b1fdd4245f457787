import { useDomains } from "../../api/reads.ts";
import type { DomainListing } from "../../api/types.ts";
import { useRoute } from "../../state/place.ts";
import { formatRoute } from "../../state/route.ts";
import { PageHead, Tabs } from "../../ui/basics.tsx";
import { KeyText } from "../../ui/KeyText.tsx";
import { Empty, Shown } from "../../ui/states.tsx";
import { EditTab } from "./EditTab.tsx";
import { RuleTree } from "./RuleTree.tsx";
import { VersionsTab } from "./VersionsTab.tsx";

/** The rules of one domain: as a tree, as text, and over time. */
export function DomainDetail({ domain }: { domain: string }) {
  const { query } = useRoute();
  const domains = useDomains();
  const tab = query.tab === "edit" || query.tab === "versions" ? query.tab : "tree";
  const tabs = [
    { name: "tree", text: "Tree", href: formatRoute("rules", [domain]) },
    { name: "edit", text: "Edit", href: formatRoute("rules", [domain], { tab: "edit" }) },
    { name: "versions", text: "Versions", href: formatRoute("rules", [domain], { tab: "versions" }) },
  ];
  return (
    <>
      <nav class="crumbs" aria-label="Place">
        <a href={formatRoute("rules")}>Rules</a>
      </nav>
      <Shown resource={domains}>
        {(all) => {
          const found = all.find((item) => item.domain === domain);
          return (
            <>
              <PageHead title={<KeyText text={domain} copy />} note={noteOf(found)} />
              <Tabs label="Views of the domain" current={tab} tabs={tabs} />
              {tab === "tree" && (found ? <RuleTree domain={domain} /> : <Unknown domain={domain} />)}
              {tab === "edit" &&
                (isEditable(found) ? (
                  <EditTab domain={domain} exists={found !== undefined} />
                ) : (
                  <NotHere found={found} />
                ))}
              {tab === "versions" &&
                (isEditable(found) ? (
                  <VersionsTab domain={domain} current={found?.version ?? null} />
                ) : (
                  <NotHere found={found} />
                ))}
            </>
          );
        }}
      </Shown>
    </>
  );
}

function isEditable(found: DomainListing | undefined): boolean {
  return found === undefined || found.owner === "catalog";
}

function noteOf(found: DomainListing | undefined): string {
  if (!found) return "A new domain: nothing is stored yet.";
  const tenant = found.tenant === null ? "" : ` Tenants are named by ${found.tenant}.`;
  if (found.owner === "file") return `From the rule file ${found.file ?? ""}.${tenant}`;
  if (found.owner === "catalog") return `In the catalog, version ${found.version ?? "?"}.${tenant}`;
  return `Defined in code.${tenant}`;
}

function Unknown({ domain }: { domain: string }) {
  return (
    <Empty icon="rules" title="There are no rules for this domain">
      <a href={formatRoute("rules", [domain], { tab: "edit" })}>Write them</a>
    </Empty>
  );
}

function NotHere({ found }: { found: DomainListing | undefined }) {
  return (
    <Empty
      icon="rules"
      title={found?.owner === "file" ? "These rules are in a file" : "These rules are in code"}
    >
      {found?.owner === "file" ? (
        <>
          Change <code>{found.file}</code>; the node loads it within a second. Rules in the catalog can be
          edited here, and have versions.
        </>
      ) : (
        "The program that defines them has to change them."
      )}
    </Empty>
  );
}
