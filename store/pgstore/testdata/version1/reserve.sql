WITH look AS MATERIALIZED (
	SELECT fingerprint, state, result, meta, fence, born, lease_until, created_at, expires_at, clock_timestamp() AS read_at
	FROM {schema}."redo_records" WHERE scope = $1::bytea AND key = $2::bytea
), standing AS MATERIALIZED (
	SELECT * FROM look
	WHERE (expires_at IS NULL OR expires_at > read_at)
		AND (fingerprint <> $3::bytea OR state <> 1 OR lease_until > read_at OR NOT coalesce(octet_length(fingerprint) = 33 AND state BETWEEN 1 AND 3 AND fence > 0
		AND isfinite(created_at) AND isfinite(coalesce(lease_until, created_at))
		AND isfinite(coalesce(expires_at, created_at)), false))
), turn AS MATERIALIZED (
	SELECT CASE WHEN NOT EXISTS (SELECT FROM standing) THEN pg_try_advisory_xact_lock($4::bigint) END AS had
), drawn AS MATERIALIZED (
	SELECT clock_timestamp() AS instant, nextval('{schema}."redo_records_fence"'::regclass) * 65536 + floor(random() * 65536)::bigint AS fence
	FROM turn WHERE had
), written AS (
	INSERT INTO {schema}."redo_records" AS r (scope, key, fingerprint, state, meta, fence, born, lease_until, created_at, expires_at)
	SELECT $1::bytea, $2::bytea, $3::bytea, 1, $5::bytea, fence, fence,
		CASE WHEN $6::bigint > 0 THEN instant + $6::bigint * interval '1 microsecond' END,
		instant,
		CASE WHEN $7::bigint > 0 THEN instant + greatest($6::bigint, $7::bigint) * interval '1 microsecond' END
	FROM drawn
	ON CONFLICT (scope, key) DO UPDATE SET
		fingerprint = excluded.fingerprint, state = 1, result = NULL,
		meta = CASE WHEN r.expires_at <= excluded.created_at THEN excluded.meta ELSE r.meta END,
		fence = excluded.fence,
		born = CASE WHEN r.expires_at <= excluded.created_at THEN excluded.born ELSE r.born END,
		lease_until = excluded.lease_until,
		created_at = CASE WHEN r.expires_at <= excluded.created_at THEN excluded.created_at ELSE r.created_at END,
		expires_at = excluded.expires_at
	WHERE r.expires_at <= excluded.created_at
		OR r.fingerprint = excluded.fingerprint AND r.state = 1
			AND (r.lease_until IS NULL OR r.lease_until <= excluded.created_at) AND coalesce(octet_length(r.fingerprint) = 33 AND r.state BETWEEN 1 AND 3 AND r.fence > 0
		AND isfinite(r.created_at) AND isfinite(coalesce(r.lease_until, r.created_at))
		AND isfinite(coalesce(r.expires_at, r.created_at)), false)
	RETURNING ctid AS place, fingerprint, state, result, meta, fence, born, lease_until, created_at, expires_at
)
SELECT false, fingerprint, state, result, meta, fence, born, lease_until, created_at, expires_at, read_at FROM standing
UNION ALL
SELECT true, fingerprint, state, result, meta, fence, born, lease_until, created_at, expires_at, clock_timestamp() FROM written
