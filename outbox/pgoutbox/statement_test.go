package pgoutbox_test

import (
	"context"
	"reflect"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/redo-go/redo/outbox"
	"github.com/redo-go/redo/outbox/pgoutbox"
)

// A claim of few events is one statement, and so is each later claim of the same kind.
func TestKindOfTheLastEventsDecidesTheStatement(t *testing.T) {
	d, sent := newTracedDesk(t)
	for _, step := range []struct {
		key  string
		n    int
		want []string
	}{
		{"", 1, []string{"Few"}},
		{"", 5, []string{"Few"}},
		{"", 0, []string{"Few"}},
		{"a", 2, []string{"Few", "Log"}},
		{"b", 1, []string{"Log"}},
		{"", 0, []string{"Log"}},
		{"", 1, []string{"Log"}},
		{"", 1, []string{"Few"}},
		{"", 99, []string{"Few"}},
		{"", 100, []string{"Few"}}, // as many as it may claim: there may be more
		{"", 1, []string{"Log"}},
	} {
		var evs []outbox.Event
		for range step.n {
			evs = append(evs, outbox.Event{OrderingKey: step.key})
		}
		d.enqueue(evs...)
		sent.forget()
		ds, err := d.q.Claim(t.Context(), outbox.Claim{Max: 100, Lease: time.Hour})
		require.NoError(t, err)
		require.Len(t, ds, step.n)
		require.Equal(t, step.want, sent.of(d.q, "Few", "Log"))
		d.settle(outbox.Sent, ds...)
	}
}

// A claim that finds the log locked by another claim tries again four times, and then returns what it has.
func TestClaimTriesAgainWhileAnotherReadsTheLog(t *testing.T) {
	for n, left := range map[int][]string{1: nil, 3: {"e-0002"}} {
		d, sent := newTracedDesk(t)
		d.enqueue(batch("e", n)...)
		other := d.begin(pgx.ReadCommitted)
		other.exec(d.q.Statements().Log, logArgs(2)...)
		sent.forget()
		d.claim()
		require.Equal(t, []string{"Few", "Log", "Log", "Log", "Log"}, sent.of(d.q, "Few", "Log"))
		other.commit()
		d.claim(left...)
	}
}

// The first claim of a process looks for all expired leases, and so does one claim a minute. The others find the leases
// that have expired since the last claim.
func TestOneClaimAMinuteLooksForAllExpiredLeases(t *testing.T) {
	d, sent := newTracedDesk(t)
	clock := stopped(d.q)
	for _, step := range []struct {
		later time.Duration
		want  []string
	}{
		{0, []string{"Sweep"}}, {0, nil}, {time.Minute - 1, nil}, {1, []string{"Sweep"}}, {0, nil},
		{time.Hour, []string{"Sweep"}}, {0, nil},
	} {
		clock.forward(step.later)
		sent.forget()
		d.claim()
		require.Equal(t, step.want, sent.of(d.q, "Sweep"))
	}
}

// Lines are claimed by a second statement, if the first one finds any.
func TestClaimOfLateEventsWithoutLinesIsNoStatementOfLines(t *testing.T) {
	d, sent := newTracedDesk(t)
	d.enqueue(outbox.Event{ID: "free"}, keyed("a1", "a"))
	ds := d.claim("free", "a1")
	d.settle(outbox.Released, ds[0])
	sent.forget()
	d.claim("free")
	require.Equal(t, []string{"ReadyLines"}, sent.of(d.q, "ReadyLines", "Lines"))
	d.settle(outbox.Released, ds[1])
	sent.forget()
	d.claim("a1")
	require.Equal(t, []string{"ReadyLines", "Lines"}, sent.of(d.q, "ReadyLines", "Lines"))
}

// Nothing else may be claimed then.
func TestAClaimThatLateEventsFillLooksForNoLine(t *testing.T) {
	d, sent := newTracedDesk(t)
	d.enqueue(outbox.Event{ID: "a"}, outbox.Event{ID: "b"})
	for most, want := range map[int][]string{2: nil, 3: {"ReadyLines"}} {
		d.settle(outbox.Released, d.claim("a", "b")...)
		sent.forget()
		d.settle(outbox.Released, d.claimed(outbox.Claim{Max: most}, "a", "b")...)
		require.Equal(t, want, sent.of(d.q, "ReadyLines"), most)
	}
}

// A wait is never shortened, and not lengthened by more than is needed.
func TestMicrosecondsAreRoundedUp(t *testing.T) {
	for d, want := range map[time.Duration]int64{
		0: 0, 1: 1, 999: 1, time.Microsecond: 1, time.Microsecond + 1: 2, time.Second: 1_000_000,
	} {
		require.Equal(t, want, pgoutbox.Micros(d), d)
	}
}

// newTracedDesk returns a desk, and the statements that its queue sends.
func newTracedDesk(t *testing.T) (desk, *sentTexts) {
	t.Helper()
	p := newPlace(t)
	sent := &sentTexts{}
	p.change = func(c *pgxpool.Config) { c.ConnConfig.Tracer = sent }
	q, pool := p.open(t)
	return desk{p, t, q, pool}, sent
}

// sentTexts keeps the statements that were sent, alone or in batches.
type sentTexts struct {
	mu    sync.Mutex // a queue also sends statements that nobody waits for
	texts []string
}

func (s *sentTexts) add(text string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.texts = append(s.texts, text)
}

func (s *sentTexts) forget() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.texts = nil
}

// of returns those with one of the names in Texts, by name.
func (s *sentTexts) of(q *pgoutbox.Queue, names ...string) (sent []string) {
	texts := reflect.ValueOf(q.Statements())
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, text := range s.texts {
		if i := slices.IndexFunc(names, func(n string) bool { return texts.FieldByName(n).String() == text }); i >= 0 {
			sent = append(sent, names[i])
		}
	}
	return sent
}

func (s *sentTexts) TraceBatchQuery(_ context.Context, _ *pgx.Conn, q pgx.TraceBatchQueryData) {
	s.add(q.SQL)
}

func (s *sentTexts) TraceBatchStart(ctx context.Context, _ *pgx.Conn, _ pgx.TraceBatchStartData) context.Context {
	return ctx
}
func (s *sentTexts) TraceBatchEnd(context.Context, *pgx.Conn, pgx.TraceBatchEndData) {}

func (s *sentTexts) TraceQueryStart(ctx context.Context, _ *pgx.Conn, q pgx.TraceQueryStartData) context.Context {
	s.add(q.SQL)
	return ctx
}
func (s *sentTexts) TraceQueryEnd(context.Context, *pgx.Conn, pgx.TraceQueryEndData) {}
