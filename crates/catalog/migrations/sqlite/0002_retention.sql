-- For what need not be kept any longer to be found without looking at all that is.

CREATE INDEX tenants_gone ON tenants (updated_at) WHERE deleted = 1;
CREATE INDEX domains_gone ON domains (domain) WHERE deleted = 1;
CREATE INDEX domains_version ON domains (version);
CREATE INDEX tokens_ended ON tokens (coalesce(revoked_at, expires_at));
