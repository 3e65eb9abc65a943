UPDATE {schema}."redo_records" AS r SET state = $4::smallint, result = $5::bytea, lease_until = NULL,
	expires_at = CASE $6::bigint WHEN 0 THEN r.expires_at WHEN -1 THEN NULL
		ELSE clock_timestamp() + $6::bigint * interval '1 microsecond' END
WHERE r.scope = $1::bytea AND r.key = $2::bytea AND r.fence = $3::bigint AND r.state = 1
	AND (r.expires_at IS NULL OR r.expires_at > clock_timestamp())
