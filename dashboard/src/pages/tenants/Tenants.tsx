import { useRoute } from "../../state/place.ts";
import { TenantDetail } from "./TenantDetail.tsx";
import { TenantList } from "./TenantList.tsx";

/** Customers: all of them, or one. */
export function Tenants() {
  const { path } = useRoute();
  const [tenant] = path;
  return tenant === undefined ? <TenantList /> : <TenantDetail key={tenant} tenant={tenant} />;
}
