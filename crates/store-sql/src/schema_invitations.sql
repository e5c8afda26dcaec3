-- The end of the link by which a person may set a password, once.
ALTER TABLE actor ADD COLUMN invitation_ends_ms INTEGER;

-- Apart from the rest, so that nothing that reads actors meets what links are checked by.
CREATE TABLE invitation (
    account BLOB NOT NULL,
    actor_id BLOB NOT NULL,
    digest BLOB NOT NULL,
    PRIMARY KEY (account, actor_id),
    FOREIGN KEY (account, actor_id) REFERENCES actor (account, id) ON DELETE CASCADE
) STRICT, WITHOUT ROWID;
