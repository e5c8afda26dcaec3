-- Who vouches for people who sign in, and whom it knows.
CREATE TABLE provider (
    account BLOB NOT NULL REFERENCES account (account),
    id BLOB NOT NULL CHECK (length(id) = 16),
    version INTEGER NOT NULL,
    created_ms INTEGER NOT NULL,
    updated_ms INTEGER NOT NULL,
    name TEXT NOT NULL,
    name_key TEXT NOT NULL,
    issuer TEXT NOT NULL,
    client_id TEXT NOT NULL,
    secret_set_ms INTEGER,
    disabled INTEGER NOT NULL,
    settings TEXT NOT NULL,
    PRIMARY KEY (account, id)
) STRICT, WITHOUT ROWID;
CREATE UNIQUE INDEX provider_name ON provider (account, name_key);

-- Apart from the rest, so that nothing that reads providers meets a secret.
CREATE TABLE provider_secret (
    account BLOB NOT NULL,
    provider_id BLOB NOT NULL,
    secret BLOB NOT NULL,
    PRIMARY KEY (account, provider_id),
    FOREIGN KEY (account, provider_id) REFERENCES provider (account, id) ON DELETE CASCADE
) STRICT, WITHOUT ROWID;

CREATE TABLE identity (
    account BLOB NOT NULL REFERENCES account (account),
    id BLOB NOT NULL CHECK (length(id) = 16),
    version INTEGER NOT NULL,
    created_ms INTEGER NOT NULL,
    updated_ms INTEGER NOT NULL,
    provider_id BLOB NOT NULL,
    subject TEXT NOT NULL,
    actor_id BLOB NOT NULL,
    memberships TEXT NOT NULL,
    PRIMARY KEY (account, id),
    FOREIGN KEY (account, provider_id) REFERENCES provider (account, id),
    FOREIGN KEY (account, actor_id) REFERENCES actor (account, id)
) STRICT, WITHOUT ROWID;
CREATE UNIQUE INDEX identity_subject ON identity (account, provider_id, subject);
CREATE INDEX identity_actor ON identity (account, actor_id);
