-- When the person of a session last proved who they are; sessions that are there already began with it.
ALTER TABLE token ADD COLUMN proven_ms INTEGER;
UPDATE token SET proven_ms = created_ms WHERE kind = 'session';
