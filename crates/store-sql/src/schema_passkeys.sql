-- How many passkeys a person has.
ALTER TABLE actor ADD COLUMN passkeys INTEGER NOT NULL DEFAULT 0;

-- Keys by which people sign in (Web Authentication). The key is public: it checks signatures, and makes none.
CREATE TABLE passkey (
    account BLOB NOT NULL,
    credential BLOB NOT NULL,
    actor_id BLOB NOT NULL,
    public_key BLOB NOT NULL,
    -- How often the authenticator says that it has signed; 0 where it does not count.
    uses INTEGER NOT NULL,
    name TEXT NOT NULL,
    created_ms INTEGER NOT NULL,
    last_used_ms INTEGER,
    PRIMARY KEY (account, credential),
    FOREIGN KEY (account, actor_id) REFERENCES password (account, actor_id) ON DELETE CASCADE
) STRICT, WITHOUT ROWID;

CREATE INDEX passkey_actor ON passkey (account, actor_id);
