package pgstore_test

import (
	"fmt"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/redo-go/redo/store"
	"github.com/redo-go/redo/store/pgstore/pgtest"
)

// Without its record, the effect would be made again. A trigger that keeps the record is accepted.
func TestCommitWhoseRecordATriggerDropsIsLost(t *testing.T) {
	p, _ := newTxPlace(t)
	st := p.open(t)
	pgtest.Exec(t, pgtest.Connect(t, p.url), fmt.Sprintf(`CREATE FUNCTION %[1]s.touch() RETURNS trigger LANGUAGE plpgsql AS
		$$ BEGIN
			IF NEW.state <> 1 AND encode(NEW.key, 'escape') LIKE TG_OP || '%%' THEN RETURN NULL; END IF;
			RETURN NEW;
		END $$;
		CREATE TRIGGER touch BEFORE INSERT OR UPDATE ON %[2]s FOR EACH ROW EXECUTE FUNCTION %[1]s.touch()`,
		pgx.Identifier{p.schema}.Sanitize(), p.table()))
	for _, c := range []struct {
		key  string
		over bool
		want error
	}{
		{"INSERT, and expired records are searched", false, store.ErrLost},
		{"INSERT", false, store.ErrLost},
		{"UPDATE", true, store.ErrLost},
		{"kept", false, nil},
		{"kept over", true, nil},
	} {
		verdict, effects := store.Acquired, 0
		if c.over {
			reserve(t, st, unleased(c.key), verdict)
			verdict = store.TakenOver
		}
		tx, _ := begin(t, st, unleased(c.key), verdict)
		effect(t, tx.Tx(), c.key)
		require.ErrorIs(t, tx.Commit(t.Context(), store.Outcome{}), c.want, c.key)
		if c.want == nil {
			verdict, effects = store.Complete, 1
		}
		p.requireEffects(t, c.key, effects)
		begin(t, st, unleased(c.key), verdict)
	}
}
