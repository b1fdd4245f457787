-- Names are compared byte by byte, as on SQLite. Times are microseconds since 1970. `revision` is the
-- version of the catalog at which a row changed last.

-- One row. A reader that is below `base` must begin anew.
CREATE TABLE catalog (
    one BIGINT PRIMARY KEY CHECK (one = 1),
    version BIGINT NOT NULL CHECK (version >= 0),
    base BIGINT NOT NULL,
    lineage TEXT NOT NULL,
    -- Tells this database from any other; a copy has that of the one it is of.
    identity TEXT NOT NULL
);
INSERT INTO catalog (one, version, base, lineage, identity) VALUES (1, 0, 0, '', md5(random()::text || clock_timestamp()::text));

-- What is deleted stays as a row, so that readers hear of it.
CREATE TABLE tenants (
    name TEXT COLLATE "C" NOT NULL PRIMARY KEY CHECK (char_length(name) BETWEEN 1 AND 256),
    tier TEXT COLLATE "C" CHECK (char_length(tier) BETWEEN 1 AND 256),
    deleted BIGINT NOT NULL CHECK (deleted IN (0, 1)),
    updated_at BIGINT NOT NULL,
    revision BIGINT NOT NULL
);
CREATE INDEX tenants_revision ON tenants (revision);
CREATE INDEX tenants_live ON tenants (name) WHERE deleted = 0;
CREATE INDEX tenants_tier ON tenants (tier, name) WHERE deleted = 0;

CREATE TABLE overrides (
    tenant TEXT COLLATE "C" NOT NULL REFERENCES tenants (name),
    position BIGINT NOT NULL,
    domain TEXT COLLATE "C" CHECK (char_length(domain) BETWEEN 1 AND 256),
    descriptor TEXT NOT NULL CHECK (char_length(descriptor) <= 1024),
    limit_name TEXT CHECK (char_length(limit_name) BETWEEN 1 AND 256),
    unlimited BIGINT NOT NULL CHECK (unlimited IN (0, 1)),
    requests BIGINT CHECK (requests BETWEEN 0 AND 9007199254740992),
    unit TEXT CHECK (unit IN ('second', 'minute', 'hour', 'day', 'week', 'month', 'year')),
    duration_us BIGINT CHECK (duration_us > 0),
    burst BIGINT CHECK (burst BETWEEN 1 AND 9007199254740992),
    algorithm TEXT,
    effective_at BIGINT,
    expires_at BIGINT,
    created_at BIGINT NOT NULL,
    PRIMARY KEY (tenant, position),
    CHECK ((unlimited = 1) = (requests IS NULL)),
    CHECK (unlimited = 0 OR coalesce(unit, algorithm) IS NULL AND coalesce(duration_us, burst) IS NULL),
    CHECK (unit IS NULL OR duration_us IS NULL),
    CHECK (expires_at > effective_at)
);
CREATE INDEX overrides_effective ON overrides (effective_at, tenant) WHERE effective_at IS NOT NULL;
CREATE INDEX overrides_expires ON overrides (expires_at, tenant) WHERE expires_at IS NOT NULL;

-- Every version there was; one without text is a deletion.
CREATE TABLE rule_sets (
    domain TEXT COLLATE "C" NOT NULL CHECK (char_length(domain) BETWEEN 1 AND 256),
    version BIGINT NOT NULL CHECK (version > 0),
    text TEXT,
    author TEXT NOT NULL,
    comment TEXT NOT NULL,
    restored_from BIGINT,
    created_at BIGINT NOT NULL,
    revision BIGINT NOT NULL,
    PRIMARY KEY (domain, version)
);

-- Which version of a domain is the current one.
CREATE TABLE domains (
    domain TEXT COLLATE "C" NOT NULL PRIMARY KEY,
    version BIGINT NOT NULL,
    deleted BIGINT NOT NULL CHECK (deleted IN (0, 1)),
    revision BIGINT NOT NULL,
    FOREIGN KEY (domain, version) REFERENCES rule_sets (domain, version)
);
CREATE INDEX domains_revision ON domains (revision);

CREATE TABLE switches (
    rule TEXT COLLATE "C" NOT NULL PRIMARY KEY CHECK (char_length(rule) BETWEEN 1 AND 512),
    mode TEXT NOT NULL CHECK (mode IN ('enforce', 'shadow', 'off')),
    updated_at BIGINT NOT NULL,
    revision BIGINT NOT NULL
);
CREATE INDEX switches_revision ON switches (revision);

-- The hash is SHA-256 of the secret, in hexadecimal digits.
CREATE TABLE tokens (
    id TEXT COLLATE "C" NOT NULL PRIMARY KEY CHECK (char_length(id) BETWEEN 1 AND 256),
    name TEXT COLLATE "C" NOT NULL CHECK (char_length(name) BETWEEN 1 AND 256),
    role TEXT NOT NULL CHECK (role IN ('viewer', 'operator', 'admin', 'check')),
    hash TEXT NOT NULL CHECK (char_length(hash) = 64),
    created_at BIGINT NOT NULL,
    expires_at BIGINT,
    revoked_at BIGINT,
    last_used_at BIGINT,
    revision BIGINT NOT NULL
);
CREATE INDEX tokens_revision ON tokens (revision);

-- One row per version of the catalog, which is its number. Before and after are JSON.
CREATE TABLE audit (
    id BIGINT NOT NULL PRIMARY KEY,
    at BIGINT NOT NULL,
    actor TEXT COLLATE "C" NOT NULL,
    action TEXT COLLATE "C" NOT NULL,
    object_kind TEXT NOT NULL,
    object TEXT COLLATE "C" NOT NULL,
    before TEXT,
    after TEXT,
    request_id TEXT NOT NULL
);
CREATE INDEX audit_at ON audit (at, id);
CREATE INDEX audit_actor ON audit (actor, at, id);
CREATE INDEX audit_action ON audit (action, at, id);
CREATE INDEX audit_object ON audit (object, at, id);
