-- The number of scripts that have run. The column "version" is the oldest schema version whose programs may work on the
-- database: earlier programs compare that.
ALTER TABLE culvert_schema ADD COLUMN scripts BIGINT NOT NULL DEFAULT 0;

-- The schema version of a portal's program. Those of version 4 do not say it.
ALTER TABLE portal ADD COLUMN schema_version BIGINT NOT NULL DEFAULT 4;
