SELECT fingerprint, state, result, meta, fence, born, lease_until, created_at, expires_at, clock_timestamp()
FROM {schema}."redo_records" WHERE scope = $1::bytea AND key = $2::bytea AND (SELECT CASE WHEN pg_is_in_recovery() THEN txid_current() IS NULL ELSE true END)
