-- Times are microseconds since 1970. `revision` is the version of the catalog at which a row changed last.

-- One row. A reader that is below `base` must begin anew.
CREATE TABLE catalog (
    one INTEGER PRIMARY KEY CHECK (one = 1),
    version INTEGER NOT NULL CHECK (version >= 0),
    base INTEGER NOT NULL,
    lineage TEXT NOT NULL,
    -- Tells this database from any other; a copy has that of the one it is of.
    identity TEXT NOT NULL
) STRICT;
INSERT INTO catalog (one, version, base, lineage, identity) VALUES (1, 0, 0, '', lower(hex(randomblob(16))));

-- What is deleted stays as a row, so that readers hear of it.
CREATE TABLE tenants (
    name TEXT NOT NULL PRIMARY KEY CHECK (length(name) BETWEEN 1 AND 256),
    tier TEXT CHECK (length(tier) BETWEEN 1 AND 256),
    deleted INTEGER NOT NULL CHECK (deleted IN (0, 1)),
    updated_at INTEGER NOT NULL,
    revision INTEGER NOT NULL
) STRICT;
CREATE INDEX tenants_revision ON tenants (revision);
CREATE INDEX tenants_live ON tenants (name) WHERE deleted = 0;
CREATE INDEX tenants_tier ON tenants (tier, name) WHERE deleted = 0;

CREATE TABLE overrides (
    tenant TEXT NOT NULL REFERENCES tenants (name),
    position INTEGER NOT NULL,
    domain TEXT CHECK (length(domain) BETWEEN 1 AND 256),
    descriptor TEXT NOT NULL CHECK (length(descriptor) <= 1024),
    limit_name TEXT CHECK (length(limit_name) BETWEEN 1 AND 256),
    unlimited INTEGER NOT NULL CHECK (unlimited IN (0, 1)),
    requests INTEGER CHECK (requests BETWEEN 0 AND 9007199254740992),
    unit TEXT CHECK (unit IN ('second', 'minute', 'hour', 'day', 'week', 'month', 'year')),
    duration_us INTEGER CHECK (duration_us > 0),
    burst INTEGER CHECK (burst BETWEEN 1 AND 9007199254740992),
    algorithm TEXT,
    effective_at INTEGER,
    expires_at INTEGER,
    created_at INTEGER NOT NULL,
    PRIMARY KEY (tenant, position),
    CHECK ((unlimited = 1) = (requests IS NULL)),
    CHECK (unlimited = 0 OR coalesce(unit, algorithm) IS NULL AND coalesce(duration_us, burst) IS NULL),
    CHECK (unit IS NULL OR duration_us IS NULL),
    CHECK (expires_at > effective_at)
) STRICT, WITHOUT ROWID;
CREATE INDEX overrides_effective ON overrides (effective_at, tenant) WHERE effective_at IS NOT NULL;
CREATE INDEX overrides_expires ON overrides (expires_at, tenant) WHERE expires_at IS NOT NULL;

-- Every version there was; one without text is a deletion.
CREATE TABLE rule_sets (
    domain TEXT NOT NULL CHECK (length(domain) BETWEEN 1 AND 256),
    version INTEGER NOT NULL CHECK (version > 0),
    text TEXT,
    author TEXT NOT NULL,
    comment TEXT NOT NULL,
    restored_from INTEGER,
    created_at INTEGER NOT NULL,
    revision INTEGER NOT NULL,
    PRIMARY KEY (domain, version)
) STRICT;

-- Which version of a domain is the current one.
CREATE TABLE domains (
    domain TEXT NOT NULL PRIMARY KEY,
    version INTEGER NOT NULL,
    deleted INTEGER NOT NULL CHECK (deleted IN (0, 1)),
    revision INTEGER NOT NULL,
    FOREIGN KEY (domain, version) REFERENCES rule_sets (domain, version)
) STRICT, WITHOUT ROWID;
CREATE INDEX domains_revision ON domains (revision);

CREATE TABLE switches (
    rule TEXT NOT NULL PRIMARY KEY CHECK (length(rule) BETWEEN 1 AND 512),
    mode TEXT NOT NULL CHECK (mode IN ('enforce', 'shadow', 'off')),
    updated_at INTEGER NOT NULL,
    revision INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
CREATE INDEX switches_revision ON switches (revision);

-- The hash is SHA-256 of the secret, in hexadecimal digits.
CREATE TABLE tokens (
    id TEXT NOT NULL PRIMARY KEY CHECK (length(id) BETWEEN 1 AND 256),
    name TEXT NOT NULL CHECK (length(name) BETWEEN 1 AND 256),
    role TEXT NOT NULL CHECK (role IN ('viewer', 'operator', 'admin', 'check')),
    hash TEXT NOT NULL CHECK (length(hash) = 64),
    created_at INTEGER NOT NULL,
    expires_at INTEGER,
    revoked_at INTEGER,
    last_used_at INTEGER,
    revision INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
CREATE INDEX tokens_revision ON tokens (revision);

-- One row per version of the catalog, which is its number. Before and after are JSON.
CREATE TABLE audit (
    id INTEGER NOT NULL PRIMARY KEY,
    at INTEGER NOT NULL,
    actor TEXT NOT NULL,
    action TEXT NOT NULL,
    object_kind TEXT NOT NULL,
    object TEXT NOT NULL,
    before TEXT,
    after TEXT,
    request_id TEXT NOT NULL
) STRICT;
CREATE INDEX audit_at ON audit (at, id);
CREATE INDEX audit_actor ON audit (actor, at, id);
CREATE INDEX audit_action ON audit (action, at, id);
CREATE INDEX audit_object ON audit (object, at, id);
