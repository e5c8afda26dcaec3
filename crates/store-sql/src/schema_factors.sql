-- Since when a person's codes are asked for beside the password, and how many recovery codes are left.
ALTER TABLE actor ADD COLUMN second_factor_ms INTEGER;
ALTER TABLE actor ADD COLUMN recovery_codes INTEGER NOT NULL DEFAULT 0;

-- What codes of an authenticator app are made of, and the last time step of which one was accepted.
CREATE TABLE totp (
    account BLOB NOT NULL,
    actor_id BLOB NOT NULL,
    secret BLOB NOT NULL,
    last_step INTEGER NOT NULL,
    PRIMARY KEY (account, actor_id),
    FOREIGN KEY (account, actor_id) REFERENCES password (account, actor_id) ON DELETE CASCADE
) STRICT, WITHOUT ROWID;

-- Recovery codes that were not used yet, as digests.
CREATE TABLE recovery_code (
    account BLOB NOT NULL,
    actor_id BLOB NOT NULL,
    digest BLOB NOT NULL,
    PRIMARY KEY (account, actor_id, digest),
    FOREIGN KEY (account, actor_id) REFERENCES password (account, actor_id) ON DELETE CASCADE
) STRICT, WITHOUT ROWID;
