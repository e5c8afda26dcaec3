-- The number of scripts that have run. PRAGMA user_version is the oldest schema version whose programs may work on the
-- database: earlier programs compare that.
CREATE TABLE culvert_schema (
    id INTEGER PRIMARY KEY CHECK (id = 1),
    scripts INTEGER NOT NULL
) STRICT;
INSERT INTO culvert_schema (id, scripts) VALUES (1, 0);
