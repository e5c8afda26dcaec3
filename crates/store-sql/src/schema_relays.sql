-- Relays, the tokens with which they enrol, the rule of an account about paths, and the relays of a site.
CREATE TABLE relay (
    account BLOB NOT NULL REFERENCES account (account),
    id BLOB NOT NULL CHECK (length(id) = 16),
    version INTEGER NOT NULL,
    created_ms INTEGER NOT NULL,
    updated_ms INTEGER NOT NULL,
    machine TEXT NOT NULL,
    name TEXT NOT NULL,
    name_key TEXT NOT NULL,
    addresses TEXT NOT NULL,
    draining INTEGER NOT NULL,
    revoked_ms INTEGER,
    seen_ms INTEGER,
    seen_address TEXT,
    seen_software TEXT,
    PRIMARY KEY (account, id)
) STRICT, WITHOUT ROWID;
CREATE UNIQUE INDEX relay_machine ON relay (account, machine);
CREATE INDEX relay_name ON relay (account, name_key);
CREATE UNIQUE INDEX relay_live_name ON relay (account, name_key) WHERE revoked_ms IS NULL;

ALTER TABLE token ADD COLUMN used_relay BLOB;
-- An older program leaves out both columns, and writes neither.
ALTER TABLE account ADD COLUMN paths TEXT NOT NULL DEFAULT 'any';
ALTER TABLE site ADD COLUMN relays TEXT NOT NULL DEFAULT 'null';
