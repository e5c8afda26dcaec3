-- Relays, the tokens with which they enrol, the rule of an account about paths, and the relays of a site.
CREATE TABLE relay (
    account BYTEA NOT NULL REFERENCES account (account),
    id BYTEA NOT NULL CHECK (length(id) = 16),
    version BIGINT NOT NULL,
    created_ms BIGINT NOT NULL,
    updated_ms BIGINT NOT NULL,
    machine TEXT COLLATE "C" NOT NULL,
    name TEXT COLLATE "C" NOT NULL,
    name_key TEXT COLLATE "C" NOT NULL,
    addresses TEXT COLLATE "C" NOT NULL,
    draining BIGINT NOT NULL,
    revoked_ms BIGINT,
    seen_ms BIGINT,
    seen_address TEXT COLLATE "C",
    seen_software TEXT COLLATE "C",
    PRIMARY KEY (account, id)
);
CREATE UNIQUE INDEX relay_machine ON relay (account, machine);
CREATE INDEX relay_name ON relay (account, name_key);
CREATE UNIQUE INDEX relay_live_name ON relay (account, name_key) WHERE revoked_ms IS NULL;

ALTER TABLE token ADD COLUMN used_relay BYTEA;
-- An older program leaves out both columns, and writes neither.
ALTER TABLE account ADD COLUMN paths TEXT COLLATE "C" NOT NULL DEFAULT 'any';
ALTER TABLE site ADD COLUMN relays TEXT COLLATE "C" NOT NULL DEFAULT 'null';
