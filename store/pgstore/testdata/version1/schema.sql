CREATE TABLE {schema}."redo_records" (
	scope       bytea       NOT NULL,
	key         bytea       NOT NULL,
	fingerprint bytea       NOT NULL CHECK (octet_length(fingerprint) = 33),
	state       smallint    NOT NULL CHECK (state BETWEEN 1 AND 3), -- pending, complete, failed
	result      bytea,
	meta        bytea,
	fence       bigint      NOT NULL, -- of the owner, from the sequence
	born        bigint      NOT NULL, -- the fence that the record was made under
	lease_until timestamptz, -- NULL: no lease
	created_at  timestamptz NOT NULL,
	expires_at  timestamptz, -- NULL: never
	CONSTRAINT "redo_records_pkey" PRIMARY KEY (scope, key)
) WITH (autovacuum_vacuum_scale_factor = 0.05, autovacuum_analyze_scale_factor = 0.05);
CREATE INDEX "redo_records_pending" ON {schema}."redo_records" (created_at, born) WHERE state = 1;
CREATE INDEX "redo_records_expiry" ON {schema}."redo_records" (expires_at) WHERE expires_at IS NOT NULL;
CREATE SEQUENCE {schema}."redo_records_fence" AS bigint CACHE 1 NO CYCLE OWNED BY {schema}."redo_records".fence;
COMMENT ON TABLE {schema}."redo_records" IS 'redo pgstore 1';
