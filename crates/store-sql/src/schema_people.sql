-- That an actor signs in with a password, and as what; both are there or neither.
ALTER TABLE actor ADD COLUMN sign_in_role TEXT;
ALTER TABLE actor ADD COLUMN password_set_ms INTEGER;

-- Apart from the rest, so that nothing that reads actors meets what passwords are checked by.
CREATE TABLE password (
    account BLOB NOT NULL,
    actor_id BLOB NOT NULL,
    verifier BLOB NOT NULL,
    PRIMARY KEY (account, actor_id),
    FOREIGN KEY (account, actor_id) REFERENCES actor (account, id) ON DELETE CASCADE
) STRICT, WITHOUT ROWID;
