-- The key that encrypts all secrets, if one does; and whether free pages may still hold what secrets were before.
CREATE TABLE secrets_key (
    only INTEGER NOT NULL PRIMARY KEY CHECK (only = 1),
    key_id BLOB NOT NULL CHECK (length(key_id) = 8),
    is_clean INTEGER NOT NULL
) STRICT;

-- Secrets of the state directory, which are in files while no key encrypts them.
CREATE TABLE state_secret (
    name TEXT NOT NULL PRIMARY KEY,
    value BLOB NOT NULL
) STRICT, WITHOUT ROWID;
