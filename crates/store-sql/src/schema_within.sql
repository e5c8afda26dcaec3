-- The only networks that the addresses of a resource's names may be in, as a list; null is no restriction, and what
-- resources have that are there already.
ALTER TABLE resource ADD COLUMN within TEXT NOT NULL DEFAULT 'null';
