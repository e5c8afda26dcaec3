-- Which programs of a client may reach a resource: every one, of those that are there already.
ALTER TABLE resource ADD COLUMN applications TEXT NOT NULL DEFAULT '"any"';
