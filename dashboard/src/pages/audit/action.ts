const TEXTS: Record<string, string> = {
  put_tenant: "changed tenant",
  delete_tenant: "deleted tenant",
  put_rules: "pushed rules",
  delete_rules: "deleted rules",
  roll_back_rules: "rolled back rules",
  set_switch: "set the switch of",
  unset_switch: "removed the switch of",
  create_token: "created token",
  revoke_token: "revoked token",
  reset_usage: "reset the usage of",
};

/** Returns an action of the audit trail in words. */
export function actionText(action: string): string {
  return TEXTS[action] ?? action.replaceAll("_", " ");
}

export const ACTIONS = Object.keys(TEXTS);
