-- Instants are milliseconds of Unix time, ids and keys blobs, what has parts JSON.
-- Tables have no rowid: rows lie in the order of account and id, as lists are read.

CREATE TABLE account (
    account BLOB NOT NULL PRIMARY KEY CHECK (length(account) = 16),
    id BLOB NOT NULL CHECK (id = account),
    version INTEGER NOT NULL,
    created_ms INTEGER NOT NULL,
    updated_ms INTEGER NOT NULL,
    name TEXT NOT NULL,
    name_key TEXT NOT NULL UNIQUE,
    settings TEXT NOT NULL,
    -- The last change and the last access that were logged.
    last_seq INTEGER NOT NULL DEFAULT 0,
    last_access INTEGER NOT NULL DEFAULT 0
) STRICT, WITHOUT ROWID;

CREATE TABLE actor (
    account BLOB NOT NULL REFERENCES account (account),
    id BLOB NOT NULL CHECK (length(id) = 16),
    version INTEGER NOT NULL,
    created_ms INTEGER NOT NULL,
    updated_ms INTEGER NOT NULL,
    kind TEXT NOT NULL,
    name TEXT NOT NULL,
    name_key TEXT NOT NULL,
    disabled INTEGER NOT NULL,
    PRIMARY KEY (account, id)
) STRICT, WITHOUT ROWID;
CREATE UNIQUE INDEX actor_name ON actor (account, name_key);

CREATE TABLE actor_group (
    account BLOB NOT NULL REFERENCES account (account),
    id BLOB NOT NULL CHECK (length(id) = 16),
    version INTEGER NOT NULL,
    created_ms INTEGER NOT NULL,
    updated_ms INTEGER NOT NULL,
    name TEXT NOT NULL,
    name_key TEXT NOT NULL,
    PRIMARY KEY (account, id)
) STRICT, WITHOUT ROWID;
CREATE UNIQUE INDEX actor_group_name ON actor_group (account, name_key);

CREATE TABLE membership (
    account BLOB NOT NULL REFERENCES account (account),
    id BLOB NOT NULL CHECK (length(id) = 16),
    version INTEGER NOT NULL,
    created_ms INTEGER NOT NULL,
    updated_ms INTEGER NOT NULL,
    group_id BLOB NOT NULL,
    actor_id BLOB NOT NULL,
    PRIMARY KEY (account, id),
    FOREIGN KEY (account, group_id) REFERENCES actor_group (account, id),
    FOREIGN KEY (account, actor_id) REFERENCES actor (account, id)
) STRICT, WITHOUT ROWID;
CREATE UNIQUE INDEX membership_pair ON membership (account, group_id, actor_id);
CREATE INDEX membership_group ON membership (account, group_id);
CREATE INDEX membership_actor ON membership (account, actor_id);

CREATE TABLE site (
    account BLOB NOT NULL REFERENCES account (account),
    id BLOB NOT NULL CHECK (length(id) = 16),
    version INTEGER NOT NULL,
    created_ms INTEGER NOT NULL,
    updated_ms INTEGER NOT NULL,
    name TEXT NOT NULL,
    name_key TEXT NOT NULL,
    PRIMARY KEY (account, id)
) STRICT, WITHOUT ROWID;
CREATE UNIQUE INDEX site_name ON site (account, name_key);

CREATE TABLE resource (
    account BLOB NOT NULL REFERENCES account (account),
    id BLOB NOT NULL CHECK (length(id) = 16),
    version INTEGER NOT NULL,
    created_ms INTEGER NOT NULL,
    updated_ms INTEGER NOT NULL,
    site_id BLOB NOT NULL,
    name TEXT NOT NULL,
    name_key TEXT NOT NULL,
    target TEXT NOT NULL,
    filters TEXT NOT NULL,
    PRIMARY KEY (account, id),
    FOREIGN KEY (account, site_id) REFERENCES site (account, id)
) STRICT, WITHOUT ROWID;
CREATE UNIQUE INDEX resource_name ON resource (account, name_key);
CREATE INDEX resource_site ON resource (account, site_id);

CREATE TABLE policy (
    account BLOB NOT NULL REFERENCES account (account),
    id BLOB NOT NULL CHECK (length(id) = 16),
    version INTEGER NOT NULL,
    created_ms INTEGER NOT NULL,
    updated_ms INTEGER NOT NULL,
    name TEXT NOT NULL,
    name_key TEXT NOT NULL,
    group_id BLOB NOT NULL,
    resource_id BLOB NOT NULL,
    disabled INTEGER NOT NULL,
    conditions TEXT NOT NULL,
    PRIMARY KEY (account, id),
    FOREIGN KEY (account, group_id) REFERENCES actor_group (account, id),
    FOREIGN KEY (account, resource_id) REFERENCES resource (account, id)
) STRICT, WITHOUT ROWID;
CREATE UNIQUE INDEX policy_name ON policy (account, name_key);
CREATE INDEX policy_group ON policy (account, group_id);
CREATE INDEX policy_resource ON policy (account, resource_id);

CREATE TABLE token (
    account BLOB NOT NULL REFERENCES account (account),
    id BLOB NOT NULL CHECK (length(id) = 16),
    version INTEGER NOT NULL,
    created_ms INTEGER NOT NULL,
    updated_ms INTEGER NOT NULL,
    kind TEXT NOT NULL,
    actor_id BLOB,
    site_id BLOB,
    role TEXT,
    name TEXT NOT NULL,
    name_key TEXT NOT NULL,
    uses TEXT NOT NULL,
    expires_ms INTEGER,
    revoked_ms INTEGER,
    used_ms INTEGER,
    used_client BLOB,
    used_gateway BLOB,
    last_used_ms INTEGER,
    PRIMARY KEY (account, id),
    FOREIGN KEY (account, actor_id) REFERENCES actor (account, id),
    FOREIGN KEY (account, site_id) REFERENCES site (account, id)
) STRICT, WITHOUT ROWID;
CREATE INDEX token_name ON token (account, name_key);
CREATE UNIQUE INDEX token_live_name ON token (account, name_key) WHERE revoked_ms IS NULL;
CREATE INDEX token_actor ON token (account, actor_id);
CREATE INDEX token_site ON token (account, site_id);

-- Apart from the rest, so that nothing that reads tokens meets a digest.
CREATE TABLE token_digest (
    id BLOB NOT NULL PRIMARY KEY,
    account BLOB NOT NULL,
    digest BLOB NOT NULL CHECK (length(digest) = 32),
    FOREIGN KEY (account, id) REFERENCES token (account, id) ON DELETE CASCADE
) STRICT, WITHOUT ROWID;
CREATE INDEX token_digest_token ON token_digest (account, id);

CREATE TABLE client (
    account BLOB NOT NULL REFERENCES account (account),
    id BLOB NOT NULL CHECK (length(id) = 16),
    version INTEGER NOT NULL,
    created_ms INTEGER NOT NULL,
    updated_ms INTEGER NOT NULL,
    actor_id BLOB NOT NULL,
    machine TEXT NOT NULL,
    name TEXT NOT NULL,
    name_key TEXT NOT NULL,
    public_key BLOB NOT NULL CHECK (length(public_key) = 32),
    ipv4 BLOB NOT NULL CHECK (length(ipv4) = 4),
    ipv6 BLOB NOT NULL CHECK (length(ipv6) = 16),
    verified_ms INTEGER,
    revoked_ms INTEGER,
    seen_ms INTEGER,
    seen_address TEXT,
    seen_software TEXT,
    PRIMARY KEY (account, id),
    FOREIGN KEY (account, actor_id) REFERENCES actor (account, id)
) STRICT, WITHOUT ROWID;
CREATE UNIQUE INDEX client_machine ON client (account, actor_id, machine);
CREATE UNIQUE INDEX client_key ON client (account, public_key);
CREATE INDEX client_name ON client (account, name_key);
CREATE UNIQUE INDEX client_live_name ON client (account, name_key) WHERE revoked_ms IS NULL;
CREATE INDEX client_actor ON client (account, actor_id);

CREATE TABLE gateway (
    account BLOB NOT NULL REFERENCES account (account),
    id BLOB NOT NULL CHECK (length(id) = 16),
    version INTEGER NOT NULL,
    created_ms INTEGER NOT NULL,
    updated_ms INTEGER NOT NULL,
    site_id BLOB NOT NULL,
    machine TEXT NOT NULL,
    name TEXT NOT NULL,
    name_key TEXT NOT NULL,
    public_key BLOB NOT NULL CHECK (length(public_key) = 32),
    ipv4 BLOB NOT NULL CHECK (length(ipv4) = 4),
    ipv6 BLOB NOT NULL CHECK (length(ipv6) = 16),
    draining INTEGER NOT NULL,
    revoked_ms INTEGER,
    seen_ms INTEGER,
    seen_address TEXT,
    seen_software TEXT,
    PRIMARY KEY (account, id),
    FOREIGN KEY (account, site_id) REFERENCES site (account, id)
) STRICT, WITHOUT ROWID;
CREATE UNIQUE INDEX gateway_machine ON gateway (account, site_id, machine);
CREATE UNIQUE INDEX gateway_key ON gateway (account, public_key);
CREATE INDEX gateway_name ON gateway (account, name_key);
CREATE UNIQUE INDEX gateway_live_name ON gateway (account, name_key) WHERE revoked_ms IS NULL;
CREATE INDEX gateway_site ON gateway (account, site_id);

-- Addresses that machines have or had not long ago, of clients and gateways alike.
CREATE TABLE machine_address (
    account BLOB NOT NULL REFERENCES account (account),
    address BLOB NOT NULL,
    -- Since when no machine has it.
    released_ms INTEGER,
    PRIMARY KEY (account, address)
) STRICT, WITHOUT ROWID;

CREATE TABLE change_log (
    account BLOB NOT NULL REFERENCES account (account),
    seq INTEGER NOT NULL,
    at_ms INTEGER NOT NULL,
    actor_id BLOB,
    token_id BLOB,
    operation TEXT NOT NULL,
    kind TEXT NOT NULL,
    row_id BLOB NOT NULL,
    row_before TEXT,
    row_after TEXT,
    PRIMARY KEY (account, seq)
) STRICT, WITHOUT ROWID;
CREATE INDEX change_log_kind ON change_log (account, kind, seq);
CREATE INDEX change_log_row ON change_log (account, row_id, seq);
CREATE INDEX change_log_actor ON change_log (account, actor_id, seq);

CREATE TABLE access_grant (
    account BLOB NOT NULL REFERENCES account (account),
    id BLOB NOT NULL CHECK (length(id) = 16),
    client_id BLOB NOT NULL,
    gateway_id BLOB NOT NULL,
    resource_id BLOB NOT NULL,
    policy_id BLOB NOT NULL,
    cipher TEXT NOT NULL,
    issued_ms INTEGER NOT NULL,
    expires_ms INTEGER NOT NULL,
    PRIMARY KEY (account, id)
) STRICT, WITHOUT ROWID;
CREATE INDEX access_grant_expiry ON access_grant (account, expires_ms);

CREATE TABLE access_log (
    account BLOB NOT NULL REFERENCES account (account),
    seq INTEGER NOT NULL,
    at_ms INTEGER NOT NULL,
    client_id BLOB NOT NULL,
    resource_id BLOB NOT NULL,
    gateway_id BLOB,
    policy_id BLOB,
    grant_id BLOB,
    decision TEXT NOT NULL,
    reason TEXT NOT NULL,
    PRIMARY KEY (account, seq)
) STRICT, WITHOUT ROWID;
CREATE INDEX access_log_at ON access_log (account, at_ms);
CREATE INDEX access_log_client ON access_log (account, client_id, seq);
CREATE INDEX access_log_resource ON access_log (account, resource_id, seq);
CREATE INDEX access_log_gateway ON access_log (account, gateway_id, seq);

CREATE TABLE secret (
    account BLOB NOT NULL REFERENCES account (account),
    name TEXT NOT NULL,
    value BLOB NOT NULL,
    PRIMARY KEY (account, name)
) STRICT, WITHOUT ROWID;
