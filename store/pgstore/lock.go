package pgstore

import (
	"context"
	"crypto/sha256"
	"database/sql"
	"encoding/binary"
	"errors"

	"github.com/redo-go/redo/store"
)

// Two advisory locks of a transaction guard an ID; both end with the transaction. Nobody waits for one that an open
// transaction has, and Begin for none at all.
//
// The turn is exclusive. Whoever writes a record in Reserve or Begin has it: Reserve for the length of a statement,
// Begin until its transaction ends. It is tried after the look and before the clock and the fence are read. So a
// second owner can't come and go between the drawing of a fence and its writing, and no insert runs into a row
// that is not committed yet: that would wait as long as its transaction lasts.
//
// The label is shared, and excludes nobody: it is there to be read. It says which payload an open transaction holds
// the ID for, whose record nobody else can see. Its two numbers are of the ID and of the fingerprint. It is taken
// last, by the one who has the turn and has written.
//
// Who does not get the turn looks in pg_locks who has it. That is a Mismatch only when one and the same backend, in
// one look, has the ID's turn and a label of the ID whose second number differs from the asker's: then it took the
// label after it had written the record, for a fingerprint that is not the asker's, since equal ones have equal numbers.
// Should it be ending at that instant, then it has either committed that record or given it up just now. Nothing weaker
// will do, since a mismatch is final for who is told so, and two nearby rules would be wrong:
//
//   - A lock for each fingerprint, tried before the turn, with the rule that who has the first and not the second has met
//     another payload: a transaction that ends drops its locks one by one, so that for an instant its fingerprint's
//     is free and the ID's is not, and its own duplicate would be told of a mismatch.
//   - A label taken before the record is written: one that is about to find a committed record under the other
//     fingerprint, and to leave, would be believed.
//
// All other cases are InFlight to Begin, which is true a moment later at the worst. Two fingerprints whose numbers
// agree by chance are InFlight until the commit and a Mismatch from then on.
type lock struct {
	turn        int64
	class, mark int32 // the label
}

// lockOf is the lock of a claim's ID in one table. IDs whose numbers agree by chance are in flight for each other.
func (q *statements) lockOf(c store.Claim) lock {
	id := digest("id", q.table, c.ID.Scope, c.ID.Key)
	mark := digest("fingerprint", string(c.Fingerprint[:]))
	return lock{
		turn:  int64(binary.BigEndian.Uint64(id[:])),
		class: int32(binary.BigEndian.Uint32(id[8:])),
		mark:  int32(binary.BigEndian.Uint32(mark[:])),
	}
}

// digest tells apart all lists of parts.
func digest(parts ...string) [sha256.Size]byte {
	var buf [512]byte
	in := append(buf[:0], "redo/pgstore/"...)
	for _, p := range parts {
		in = append(binary.AppendUvarint(in, uint64(len(p))), p...)
	}
	return sha256.Sum256(in)
}

// holderSQL reads the locks once, since two looks could see two owners. A turn without a label is a Reserve's, or a
// Begin's that has not written yet.
const holderSQL = `
WITH locks AS MATERIALIZED (
	SELECT pid, mode, objsubid, classid::bigint AS class, objid::bigint AS obj FROM pg_catalog.pg_locks
	WHERE locktype = 'advisory' AND granted
		AND database = (SELECT oid FROM pg_catalog.pg_database WHERE datname = current_database())
)
SELECT coalesce(label.obj, -1) FROM locks AS turn
LEFT JOIN locks AS label ON label.pid = turn.pid AND label.objsubid = 2 AND label.class = $3::bigint
WHERE turn.objsubid = 1 AND turn.mode = 'ExclusiveLock' AND turn.class = $1::bigint AND turn.obj = $2::bigint`

// A holder is what can be told of who has an ID's turn.
type holder uint8

const (
	nobody   holder = iota // by now
	unmarked               // somebody who is writing
	same                   // an open transaction for this payload
	another                // an open transaction for another payload
)

// holderOn asks for the holder of a claim's turn, in a statement of its own: locks of the session's own transaction would
// be among those found.
func holderOn(ctx context.Context, on session, l lock) (holder, error) {
	var mark int64
	err := on.queryRow(ctx, holderSQL, int64(uint64(l.turn)>>32), int64(uint32(l.turn)), int64(uint32(l.class))).Scan(&mark)
	switch {
	case errors.Is(err, sql.ErrNoRows):
		return nobody, nil
	case err != nil:
		return nobody, err
	case mark < 0:
		return unmarked, nil
	case mark == int64(uint32(l.mark)):
		return same, nil
	}
	return another, nil
}

// unseen is the grant of a claim whose ID an open transaction holds, of whose record nobody else can see more.
func unseen(c store.Claim, mismatch bool) store.Grant {
	g := store.Grant{Verdict: store.InFlight, Record: store.Record{ID: c.ID, State: store.StatePending}}
	if mismatch {
		g.Verdict = store.Mismatch
	}
	return g
}
