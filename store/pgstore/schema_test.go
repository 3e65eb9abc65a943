package pgstore_test

import (
	"fmt"

	"github.com/redo-go/redo/store/pgstore"
)

// A program's own migration tool can make the table. A later release adds steps.
func ExampleMigrationFrom() {
	text, err := pgstore.MigrationFrom(1, pgstore.WithSchema("billing"), pgstore.WithTable("idempotency"))
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(text)
	// Output:
	// ALTER TABLE "billing"."idempotency"
	// 	ADD COLUMN owner bytea, -- of the claim, while the record is pending
	// 	ADD COLUMN format smallint NOT NULL DEFAULT 1; -- a release refuses a record of a later format
	// ALTER TABLE "billing"."idempotency" SET (fillfactor = 80);
	// DROP INDEX "billing"."idempotency_pending";
	// COMMENT ON TABLE "billing"."idempotency" IS 'redo pgstore 2';
}
