package pgstore_test

import (
	"fmt"

	"github.com/redo-go/redo/store/pgstore"
)

// The table may be made by the program's own migration tool.
func ExampleMigration() {
	text, err := pgstore.Migration(pgstore.WithSchema("billing"), pgstore.WithTable("idempotency"))
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(text)
	// Output:
	// CREATE TABLE "billing"."idempotency" (
	// 	scope       bytea       NOT NULL,
	// 	key         bytea       NOT NULL,
	// 	fingerprint bytea       NOT NULL CHECK (octet_length(fingerprint) = 33),
	// 	state       smallint    NOT NULL CHECK (state BETWEEN 1 AND 3), -- pending, complete, failed
	// 	result      bytea,
	// 	meta        bytea,
	// 	fence       bigint      NOT NULL, -- of the owner, from the sequence
	// 	born        bigint      NOT NULL, -- the fence that the record was made under
	// 	lease_until timestamptz, -- NULL: no lease
	// 	created_at  timestamptz NOT NULL,
	// 	expires_at  timestamptz, -- NULL: never
	// 	CONSTRAINT "idempotency_pkey" PRIMARY KEY (scope, key)
	// ) WITH (autovacuum_vacuum_scale_factor = 0.05, autovacuum_analyze_scale_factor = 0.05);
	// CREATE INDEX "idempotency_pending" ON "billing"."idempotency" (created_at, born) WHERE state = 1;
	// CREATE INDEX "idempotency_expiry" ON "billing"."idempotency" (expires_at) WHERE expires_at IS NOT NULL;
	// CREATE SEQUENCE "billing"."idempotency_fence" AS bigint CACHE 1 NO CYCLE OWNED BY "billing"."idempotency".fence;
	// COMMENT ON TABLE "billing"."idempotency" IS 'redo pgstore 1';
}
