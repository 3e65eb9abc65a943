package pgoutbox_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/redo-go/redo/outbox"
	"github.com/redo-go/redo/store"
)

// failCommits makes Postgres refuse the next commits of new events with the SQLSTATE.
func (d desk) failCommits(times int, code string) {
	d.Helper()
	sequence := strings.ReplaceAll(d.named("_commits"), "'", "''")
	d.exec(d.T, "CREATE SEQUENCE "+d.named("_commits"))
	d.exec(d.T, "CREATE FUNCTION "+d.named("_commit")+"() RETURNS trigger LANGUAGE plpgsql AS $commit$"+fmt.Sprintf(
		"BEGIN IF nextval('%s') <= %d THEN RAISE EXCEPTION 'refused' USING ERRCODE = '%s'; END IF; RETURN NULL; END",
		sequence, times, code)+"$commit$")
	d.exec(d.T, "CREATE CONSTRAINT TRIGGER refuse AFTER INSERT ON "+d.table()+
		" DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION "+d.named("_commit")+"()")
}

// The code is that of a failure to serialize.
func TestAnAppendWhoseCommitLosesARaceIsRepeated(t *testing.T) {
	d := newDesk(t)
	d.failCommits(2, "40001")
	require.NoError(t, d.q.Append(t.Context(), outbox.Event{ID: "a"}, outbox.Event{ID: "b"}))
	d.claim("a", "b")
}

func TestAnAppendWhoseCommitIsRefusedAddsNothing(t *testing.T) {
	d := newDesk(t)
	d.failCommits(1, "55006")
	err := d.q.Append(t.Context(), outbox.Event{ID: "a"}, outbox.Event{ID: "b"})
	require.ErrorIs(t, err, store.ErrUnavailable)
	require.ErrorContains(t, err, "refused")
	d.claim()
	d.enqueue(outbox.Event{ID: "a"})
	d.claim("a")
}
