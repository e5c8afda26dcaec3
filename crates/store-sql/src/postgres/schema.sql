-- Instants are milliseconds of Unix time, ids and keys bytes, what has parts JSON as it was written.
-- Texts are compared byte by byte ("C"), whatever the database's own order of letters is, as SQLite compares them.

-- Whose database this is, and the number of scripts that have run. A probe counts itself.
CREATE TABLE culvert_schema (
    id BIGINT PRIMARY KEY DEFAULT 1 CHECK (id = 1),
    mark TEXT NOT NULL,
    version BIGINT NOT NULL,
    probes BIGINT NOT NULL DEFAULT 0
);
INSERT INTO culvert_schema (mark, version) VALUES ('CULVERT', 0);

CREATE TABLE account (
    account BYTEA NOT NULL PRIMARY KEY CHECK (length(account) = 16),
    id BYTEA NOT NULL CHECK (id = account),
    version BIGINT NOT NULL,
    created_ms BIGINT NOT NULL,
    updated_ms BIGINT NOT NULL,
    name TEXT COLLATE "C" NOT NULL,
    name_key TEXT COLLATE "C" NOT NULL UNIQUE,
    settings TEXT COLLATE "C" NOT NULL,
    -- The last change, access and flow that were logged.
    last_seq BIGINT NOT NULL DEFAULT 0,
    last_access BIGINT NOT NULL DEFAULT 0,
    last_flow BIGINT NOT NULL DEFAULT 0
);

CREATE TABLE actor (
    account BYTEA NOT NULL REFERENCES account (account),
    id BYTEA NOT NULL CHECK (length(id) = 16),
    version BIGINT NOT NULL,
    created_ms BIGINT NOT NULL,
    updated_ms BIGINT NOT NULL,
    kind TEXT COLLATE "C" NOT NULL,
    name TEXT COLLATE "C" NOT NULL,
    name_key TEXT COLLATE "C" NOT NULL,
    disabled BIGINT NOT NULL,
    sign_in_role TEXT COLLATE "C",
    password_set_ms BIGINT,
    second_factor_ms BIGINT,
    recovery_codes BIGINT NOT NULL,
    passkeys BIGINT NOT NULL,
    invitation_ends_ms BIGINT,
    PRIMARY KEY (account, id)
);
CREATE UNIQUE INDEX actor_name ON actor (account, name_key);

CREATE TABLE actor_group (
    account BYTEA NOT NULL REFERENCES account (account),
    id BYTEA NOT NULL CHECK (length(id) = 16),
    version BIGINT NOT NULL,
    created_ms BIGINT NOT NULL,
    updated_ms BIGINT NOT NULL,
    name TEXT COLLATE "C" NOT NULL,
    name_key TEXT COLLATE "C" NOT NULL,
    PRIMARY KEY (account, id)
);
CREATE UNIQUE INDEX actor_group_name ON actor_group (account, name_key);

CREATE TABLE membership (
    account BYTEA NOT NULL REFERENCES account (account),
    id BYTEA NOT NULL CHECK (length(id) = 16),
    version BIGINT NOT NULL,
    created_ms BIGINT NOT NULL,
    updated_ms BIGINT NOT NULL,
    group_id BYTEA NOT NULL,
    actor_id BYTEA NOT NULL,
    PRIMARY KEY (account, id),
    FOREIGN KEY (account, group_id) REFERENCES actor_group (account, id),
    FOREIGN KEY (account, actor_id) REFERENCES actor (account, id)
);
CREATE UNIQUE INDEX membership_pair ON membership (account, group_id, actor_id);
CREATE INDEX membership_group ON membership (account, group_id);
CREATE INDEX membership_actor ON membership (account, actor_id);

CREATE TABLE site (
    account BYTEA NOT NULL REFERENCES account (account),
    id BYTEA NOT NULL CHECK (length(id) = 16),
    version BIGINT NOT NULL,
    created_ms BIGINT NOT NULL,
    updated_ms BIGINT NOT NULL,
    name TEXT COLLATE "C" NOT NULL,
    name_key TEXT COLLATE "C" NOT NULL,
    PRIMARY KEY (account, id)
);
CREATE UNIQUE INDEX site_name ON site (account, name_key);

CREATE TABLE resource (
    account BYTEA NOT NULL REFERENCES account (account),
    id BYTEA NOT NULL CHECK (length(id) = 16),
    version BIGINT NOT NULL,
    created_ms BIGINT NOT NULL,
    updated_ms BIGINT NOT NULL,
    site_id BYTEA NOT NULL,
    name TEXT COLLATE "C" NOT NULL,
    name_key TEXT COLLATE "C" NOT NULL,
    target TEXT COLLATE "C" NOT NULL,
    filters TEXT COLLATE "C" NOT NULL,
    applications TEXT COLLATE "C" NOT NULL,
    within TEXT COLLATE "C" NOT NULL,
    PRIMARY KEY (account, id),
    FOREIGN KEY (account, site_id) REFERENCES site (account, id)
);
CREATE UNIQUE INDEX resource_name ON resource (account, name_key);
CREATE INDEX resource_site ON resource (account, site_id);

CREATE TABLE policy (
    account BYTEA NOT NULL REFERENCES account (account),
    id BYTEA NOT NULL CHECK (length(id) = 16),
    version BIGINT NOT NULL,
    created_ms BIGINT NOT NULL,
    updated_ms BIGINT NOT NULL,
    name TEXT COLLATE "C" NOT NULL,
    name_key TEXT COLLATE "C" NOT NULL,
    group_id BYTEA NOT NULL,
    resource_id BYTEA NOT NULL,
    disabled BIGINT NOT NULL,
    conditions TEXT COLLATE "C" NOT NULL,
    PRIMARY KEY (account, id),
    FOREIGN KEY (account, group_id) REFERENCES actor_group (account, id),
    FOREIGN KEY (account, resource_id) REFERENCES resource (account, id)
);
CREATE UNIQUE INDEX policy_name ON policy (account, name_key);
CREATE INDEX policy_group ON policy (account, group_id);
CREATE INDEX policy_resource ON policy (account, resource_id);

CREATE TABLE token (
    account BYTEA NOT NULL REFERENCES account (account),
    id BYTEA NOT NULL CHECK (length(id) = 16),
    version BIGINT NOT NULL,
    created_ms BIGINT NOT NULL,
    updated_ms BIGINT NOT NULL,
    kind TEXT COLLATE "C" NOT NULL,
    actor_id BYTEA,
    site_id BYTEA,
    role TEXT COLLATE "C",
    name TEXT COLLATE "C" NOT NULL,
    name_key TEXT COLLATE "C" NOT NULL,
    uses TEXT COLLATE "C" NOT NULL,
    expires_ms BIGINT,
    revoked_ms BIGINT,
    used_ms BIGINT,
    used_client BYTEA,
    used_gateway BYTEA,
    last_used_ms BIGINT,
    proven_ms BIGINT,
    PRIMARY KEY (account, id),
    FOREIGN KEY (account, actor_id) REFERENCES actor (account, id),
    FOREIGN KEY (account, site_id) REFERENCES site (account, id)
);
CREATE INDEX token_name ON token (account, name_key);
CREATE UNIQUE INDEX token_live_name ON token (account, name_key) WHERE revoked_ms IS NULL;
CREATE INDEX token_actor ON token (account, actor_id);
CREATE INDEX token_site ON token (account, site_id);

-- Apart from the rest, so that nothing that reads tokens meets a digest.
CREATE TABLE token_digest (
    id BYTEA NOT NULL PRIMARY KEY,
    account BYTEA NOT NULL,
    digest BYTEA NOT NULL CHECK (length(digest) = 32),
    FOREIGN KEY (account, id) REFERENCES token (account, id) ON DELETE CASCADE
);
CREATE INDEX token_digest_token ON token_digest (account, id);

CREATE TABLE client (
    account BYTEA NOT NULL REFERENCES account (account),
    id BYTEA NOT NULL CHECK (length(id) = 16),
    version BIGINT NOT NULL,
    created_ms BIGINT NOT NULL,
    updated_ms BIGINT NOT NULL,
    actor_id BYTEA NOT NULL,
    machine TEXT COLLATE "C" NOT NULL,
    name TEXT COLLATE "C" NOT NULL,
    name_key TEXT COLLATE "C" NOT NULL,
    public_key BYTEA NOT NULL CHECK (length(public_key) = 32),
    ipv4 BYTEA NOT NULL CHECK (length(ipv4) = 4),
    ipv6 BYTEA NOT NULL CHECK (length(ipv6) = 16),
    verified_ms BIGINT,
    revoked_ms BIGINT,
    seen_ms BIGINT,
    seen_address TEXT COLLATE "C",
    seen_software TEXT COLLATE "C",
    PRIMARY KEY (account, id),
    FOREIGN KEY (account, actor_id) REFERENCES actor (account, id)
);
CREATE UNIQUE INDEX client_machine ON client (account, actor_id, machine);
CREATE UNIQUE INDEX client_key ON client (account, public_key);
CREATE INDEX client_name ON client (account, name_key);
CREATE UNIQUE INDEX client_live_name ON client (account, name_key) WHERE revoked_ms IS NULL;
CREATE INDEX client_actor ON client (account, actor_id);

CREATE TABLE gateway (
    account BYTEA NOT NULL REFERENCES account (account),
    id BYTEA NOT NULL CHECK (length(id) = 16),
    version BIGINT NOT NULL,
    created_ms BIGINT NOT NULL,
    updated_ms BIGINT NOT NULL,
    site_id BYTEA NOT NULL,
    machine TEXT COLLATE "C" NOT NULL,
    name TEXT COLLATE "C" NOT NULL,
    name_key TEXT COLLATE "C" NOT NULL,
    public_key BYTEA NOT NULL CHECK (length(public_key) = 32),
    ipv4 BYTEA NOT NULL CHECK (length(ipv4) = 4),
    ipv6 BYTEA NOT NULL CHECK (length(ipv6) = 16),
    draining BIGINT NOT NULL,
    revoked_ms BIGINT,
    seen_ms BIGINT,
    seen_address TEXT COLLATE "C",
    seen_software TEXT COLLATE "C",
    verified_ms BIGINT,
    token_id BYTEA,
    PRIMARY KEY (account, id),
    FOREIGN KEY (account, site_id) REFERENCES site (account, id)
);
CREATE UNIQUE INDEX gateway_machine ON gateway (account, site_id, machine);
CREATE UNIQUE INDEX gateway_key ON gateway (account, public_key);
CREATE INDEX gateway_name ON gateway (account, name_key);
CREATE UNIQUE INDEX gateway_live_name ON gateway (account, name_key) WHERE revoked_ms IS NULL;
CREATE INDEX gateway_site ON gateway (account, site_id);

-- Addresses that machines have or had not long ago, of clients and gateways alike.
CREATE TABLE machine_address (
    account BYTEA NOT NULL REFERENCES account (account),
    address BYTEA NOT NULL,
    -- Since when no machine has it.
    released_ms BIGINT,
    PRIMARY KEY (account, address)
);

CREATE TABLE change_log (
    account BYTEA NOT NULL REFERENCES account (account),
    seq BIGINT NOT NULL,
    at_ms BIGINT NOT NULL,
    actor_id BYTEA,
    token_id BYTEA,
    operation TEXT COLLATE "C" NOT NULL,
    kind TEXT COLLATE "C" NOT NULL,
    row_id BYTEA NOT NULL,
    row_before TEXT COLLATE "C",
    row_after TEXT COLLATE "C",
    PRIMARY KEY (account, seq)
);
CREATE INDEX change_log_kind ON change_log (account, kind, seq);
CREATE INDEX change_log_row ON change_log (account, row_id, seq);
CREATE INDEX change_log_actor ON change_log (account, actor_id, seq);

CREATE TABLE access_grant (
    account BYTEA NOT NULL REFERENCES account (account),
    id BYTEA NOT NULL CHECK (length(id) = 16),
    client_id BYTEA NOT NULL,
    gateway_id BYTEA NOT NULL,
    resource_id BYTEA NOT NULL,
    policy_id BYTEA NOT NULL,
    cipher TEXT COLLATE "C" NOT NULL,
    issued_ms BIGINT NOT NULL,
    expires_ms BIGINT NOT NULL,
    PRIMARY KEY (account, id)
);
CREATE INDEX access_grant_expiry ON access_grant (account, expires_ms);

CREATE TABLE access_log (
    account BYTEA NOT NULL REFERENCES account (account),
    seq BIGINT NOT NULL,
    at_ms BIGINT NOT NULL,
    client_id BYTEA NOT NULL,
    resource_id BYTEA NOT NULL,
    gateway_id BYTEA,
    policy_id BYTEA,
    grant_id BYTEA,
    decision TEXT COLLATE "C" NOT NULL,
    reason TEXT COLLATE "C" NOT NULL,
    actor_id BYTEA,
    PRIMARY KEY (account, seq)
);
CREATE INDEX access_log_at ON access_log (account, at_ms);
CREATE INDEX access_log_client ON access_log (account, client_id, seq);
CREATE INDEX access_log_resource ON access_log (account, resource_id, seq);
CREATE INDEX access_log_gateway ON access_log (account, gateway_id, seq);

CREATE TABLE secret (
    account BYTEA NOT NULL REFERENCES account (account),
    name TEXT COLLATE "C" NOT NULL,
    value BYTEA NOT NULL,
    PRIMARY KEY (account, name)
);

-- Apart from the rest, so that nothing that reads actors meets what passwords are checked by.
CREATE TABLE password (
    account BYTEA NOT NULL,
    actor_id BYTEA NOT NULL,
    verifier BYTEA NOT NULL,
    PRIMARY KEY (account, actor_id),
    FOREIGN KEY (account, actor_id) REFERENCES actor (account, id) ON DELETE CASCADE
);
CREATE INDEX access_log_actor ON access_log (account, actor_id, seq);
CREATE INDEX access_log_decision ON access_log (account, decision, seq);
CREATE INDEX change_log_at ON change_log (account, at_ms);

CREATE TABLE flow_log (
    account BYTEA NOT NULL REFERENCES account (account),
    seq BIGINT NOT NULL,
    at_ms BIGINT NOT NULL,
    started_ms BIGINT NOT NULL,
    gateway_id BYTEA NOT NULL,
    client_id BYTEA NOT NULL,
    actor_id BYTEA,
    resource_id BYTEA NOT NULL,
    grant_id BYTEA NOT NULL,
    protocol BIGINT NOT NULL,
    address TEXT COLLATE "C" NOT NULL,
    port BIGINT NOT NULL,
    application TEXT COLLATE "C",
    sent_bytes BIGINT NOT NULL,
    sent_packets BIGINT NOT NULL,
    received_bytes BIGINT NOT NULL,
    received_packets BIGINT NOT NULL,
    flow_end TEXT COLLATE "C" NOT NULL,
    PRIMARY KEY (account, seq)
);
CREATE INDEX flow_log_at ON flow_log (account, at_ms);
CREATE INDEX flow_log_client ON flow_log (account, client_id, seq);
CREATE INDEX flow_log_actor ON flow_log (account, actor_id, seq);
CREATE INDEX flow_log_resource ON flow_log (account, resource_id, seq);
CREATE INDEX flow_log_gateway ON flow_log (account, gateway_id, seq);
CREATE INDEX flow_log_end ON flow_log (account, flow_end, seq);

-- The last report of each gateway that is in the log, so that none is in it twice.
CREATE TABLE flow_source (
    account BYTEA NOT NULL REFERENCES account (account),
    gateway_id BYTEA NOT NULL,
    run BIGINT NOT NULL,
    batch BIGINT NOT NULL,
    lost BIGINT NOT NULL,
    PRIMARY KEY (account, gateway_id)
);

-- What happened in each minute, for charts.
CREATE TABLE activity (
    account BYTEA NOT NULL REFERENCES account (account),
    at_ms BIGINT NOT NULL,
    bytes BIGINT NOT NULL DEFAULT 0,
    granted BIGINT NOT NULL DEFAULT 0,
    denied BIGINT NOT NULL DEFAULT 0,
    PRIMARY KEY (account, at_ms)
);

-- How far those who get the logs besides have come.
CREATE TABLE sink_position (
    account BYTEA NOT NULL REFERENCES account (account),
    sink TEXT COLLATE "C" NOT NULL,
    log TEXT COLLATE "C" NOT NULL,
    seq BIGINT NOT NULL,
    PRIMARY KEY (account, sink, log)
);

CREATE TABLE sink_secret (
    account BYTEA NOT NULL REFERENCES account (account),
    sink TEXT COLLATE "C" NOT NULL,
    value BYTEA NOT NULL,
    PRIMARY KEY (account, sink)
);

-- Who vouches for people who sign in, and whom it knows.
CREATE TABLE provider (
    account BYTEA NOT NULL REFERENCES account (account),
    id BYTEA NOT NULL CHECK (length(id) = 16),
    version BIGINT NOT NULL,
    created_ms BIGINT NOT NULL,
    updated_ms BIGINT NOT NULL,
    name TEXT COLLATE "C" NOT NULL,
    name_key TEXT COLLATE "C" NOT NULL,
    issuer TEXT COLLATE "C" NOT NULL,
    client_id TEXT COLLATE "C" NOT NULL,
    secret_set_ms BIGINT,
    disabled BIGINT NOT NULL,
    settings TEXT COLLATE "C" NOT NULL,
    PRIMARY KEY (account, id)
);
CREATE UNIQUE INDEX provider_name ON provider (account, name_key);

-- Apart from the rest, so that nothing that reads providers meets a secret.
CREATE TABLE provider_secret (
    account BYTEA NOT NULL,
    provider_id BYTEA NOT NULL,
    secret BYTEA NOT NULL,
    PRIMARY KEY (account, provider_id),
    FOREIGN KEY (account, provider_id) REFERENCES provider (account, id) ON DELETE CASCADE
);

CREATE TABLE identity (
    account BYTEA NOT NULL REFERENCES account (account),
    id BYTEA NOT NULL CHECK (length(id) = 16),
    version BIGINT NOT NULL,
    created_ms BIGINT NOT NULL,
    updated_ms BIGINT NOT NULL,
    provider_id BYTEA NOT NULL,
    subject TEXT COLLATE "C" NOT NULL,
    actor_id BYTEA NOT NULL,
    memberships TEXT COLLATE "C" NOT NULL,
    PRIMARY KEY (account, id),
    FOREIGN KEY (account, provider_id) REFERENCES provider (account, id),
    FOREIGN KEY (account, actor_id) REFERENCES actor (account, id)
);
CREATE UNIQUE INDEX identity_subject ON identity (account, provider_id, subject);
CREATE INDEX identity_actor ON identity (account, actor_id);

-- What codes of an authenticator app are made of, and the last time step of which one was accepted.
CREATE TABLE totp (
    account BYTEA NOT NULL,
    actor_id BYTEA NOT NULL,
    secret BYTEA NOT NULL,
    last_step BIGINT NOT NULL,
    PRIMARY KEY (account, actor_id),
    FOREIGN KEY (account, actor_id) REFERENCES password (account, actor_id) ON DELETE CASCADE
);

-- Recovery codes that were not used yet, as digests.
CREATE TABLE recovery_code (
    account BYTEA NOT NULL,
    actor_id BYTEA NOT NULL,
    digest BYTEA NOT NULL,
    PRIMARY KEY (account, actor_id, digest),
    FOREIGN KEY (account, actor_id) REFERENCES password (account, actor_id) ON DELETE CASCADE
);

-- Keys by which people sign in (Web Authentication). The key is public: it checks signatures, and makes none.
CREATE TABLE passkey (
    account BYTEA NOT NULL,
    credential BYTEA NOT NULL,
    actor_id BYTEA NOT NULL,
    public_key BYTEA NOT NULL,
    -- How often the authenticator says that it has signed; 0 where it does not count.
    uses BIGINT NOT NULL,
    name TEXT COLLATE "C" NOT NULL,
    created_ms BIGINT NOT NULL,
    last_used_ms BIGINT,
    PRIMARY KEY (account, credential),
    FOREIGN KEY (account, actor_id) REFERENCES password (account, actor_id) ON DELETE CASCADE
);
CREATE INDEX passkey_actor ON passkey (account, actor_id);

-- The key that encrypts all secrets, if one does.
CREATE TABLE secrets_key (
    id BIGINT PRIMARY KEY DEFAULT 1 CHECK (id = 1),
    key_id BYTEA NOT NULL CHECK (length(key_id) = 8)
);

-- The portal's own certificate and keys.
CREATE TABLE state_secret (
    name TEXT COLLATE "C" NOT NULL PRIMARY KEY,
    value BYTEA NOT NULL
);
CREATE INDEX resource_target ON resource (account, site_id, target);

-- Apart from the rest, so that nothing that reads actors meets what links are checked by.
CREATE TABLE invitation (
    account BYTEA NOT NULL,
    actor_id BYTEA NOT NULL,
    digest BYTEA NOT NULL,
    PRIMARY KEY (account, actor_id),
    FOREIGN KEY (account, actor_id) REFERENCES actor (account, id) ON DELETE CASCADE
);
