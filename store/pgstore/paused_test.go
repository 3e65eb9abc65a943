package pgstore_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/redo-go/redo/server"
	"github.com/redo-go/redo/store"
	"github.com/redo-go/redo/store/pgstore"
	"github.com/redo-go/redo/store/pgstore/pgtest"
)

// The test binary is a payment service if serviceURL is set. Its first handler waits for a line on the standard input
// if serviceHolds is set.
const (
	serviceURL    = "PGSTORE_TEST_SERVICE"
	serviceSchema = "PGSTORE_TEST_SCHEMA"
	serviceHolds  = "PGSTORE_TEST_HOLDS"
)

// pausedLease is short, because a test waits until it has ended. The owner renews it.
const pausedLease = 300 * time.Millisecond

// A payments is the service. Its effect is a row that counts how often a payment was made.
type payments struct {
	effects *pgxpool.Pool
	table   string
	holds   *bufio.Reader // nil: it does not wait
}

func servePayments() error {
	ctx, at, schema := context.Background(), os.Getenv(serviceURL), os.Getenv(serviceSchema)
	st, err := pgstore.Open(ctx, at, pgstore.WithSchema(schema))
	if err != nil {
		return err
	}
	p := payments{table: effectsTable(schema)}
	if p.effects, err = pgxpool.New(ctx, at); err != nil {
		return err
	}
	if os.Getenv(serviceHolds) != "" {
		p.holds = bufio.NewReader(os.Stdin)
	}
	own := []server.Option{server.Required(), server.SharedKeys(), server.LeaseTTL(pausedLease)}
	mux := http.NewServeMux()
	mux.Handle("POST /fenced", server.Middleware(st, own...)(http.HandlerFunc(p.fenced)))
	own = append(own, server.Transactional[pgx.Tx]())
	mux.Handle("POST /transactional", server.Middleware(st, own...)(http.HandlerFunc(p.transactional)))
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	fmt.Println("listens", listener.Addr())
	return http.Serve(listener, mux)
}

func effectsTable(schema string) string { return pgx.Identifier{schema, "effects"}.Sanitize() }

// hold waits for a line if the service holds its first handler.
func (p *payments) hold() (held bool) {
	if p.holds == nil {
		return false
	}
	fmt.Println("holds")
	_, _ = p.holds.ReadString('\n')
	p.holds = nil
	return true
}

// fenced makes its effect also after its lease was lost. Only the fence keeps it from a second effect.
func (p *payments) fenced(w http.ResponseWriter, r *http.Request) {
	ctx := r.Context()
	if p.hold() {
		<-ctx.Done()
		fmt.Println("lost", errors.Is(context.Cause(ctx), store.ErrLost))
	}
	done, err := p.effects.Exec(context.WithoutCancel(ctx), "INSERT INTO "+p.table+` AS e VALUES ($1, $2, 1)
		ON CONFLICT (key) DO UPDATE SET fence = excluded.fence, times = e.times + 1 WHERE e.fence <= excluded.fence`,
		server.Key(ctx), int64(server.Fence(ctx)))
	p.report(w, done, err)
}

// transactional ignores the failure of its effect. Only the commit keeps it from a wrong success.
func (p *payments) transactional(w http.ResponseWriter, r *http.Request) {
	ctx := r.Context()
	p.hold()
	tx, _ := server.Tx[pgx.Tx](ctx)
	done, err := tx.Exec(ctx, "INSERT INTO "+p.table+` AS e VALUES ($1, 0, 1)
		ON CONFLICT (key) DO UPDATE SET times = e.times + 1`, server.Key(ctx))
	p.report(w, done, err)
}

func (p *payments) report(w http.ResponseWriter, done pgconn.CommandTag, err error) {
	fmt.Println("wrote", done.RowsAffected(), err != nil)
	w.WriteHeader(http.StatusCreated)
	fmt.Fprintf(w, "paid by %d", os.Getpid())
}

// A service is a process that serves payments.
type service struct {
	t     *testing.T
	cmd   *exec.Cmd
	stdin io.Writer
	lines *bufio.Scanner
	addr  string
}

func startService(t *testing.T, p place, at string, env ...string) *service {
	t.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(append(os.Environ(), serviceURL+"="+at, serviceSchema+"="+p.schema), env...)
	cmd.Stderr = os.Stderr
	stdin, err := cmd.StdinPipe()
	require.NoError(t, err)
	stdout, err := cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	silent := time.AfterFunc(2*time.Minute, func() { _ = cmd.Process.Kill() }) // its lines then end
	t.Cleanup(func() {                                                         // SIGKILL ends a stopped process too
		silent.Stop()
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	s := &service{t: t, cmd: cmd, stdin: stdin, lines: bufio.NewScanner(stdout)}
	s.addr = s.line("listens ")
	return s
}

// line returns the next line of the service, without its lead.
func (s *service) line(lead string) string {
	s.t.Helper()
	require.True(s.t, s.lines.Scan(), "the service has ended")
	rest, found := strings.CutPrefix(s.lines.Text(), lead)
	require.True(s.t, found, "the service reports %q, want %q", s.lines.Text(), lead)
	return rest
}

func (s *service) signal(sig syscall.Signal) {
	s.t.Helper()
	require.NoError(s.t, s.cmd.Process.Signal(sig))
}

// A reply is a response, or the error of its request.
type reply struct {
	status int
	body   string
	err    error
}

func (s *service) pay(route string) (r reply) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://"+s.addr+route, strings.NewReader("12 EUR"))
	if err != nil {
		return reply{err: err}
	}
	req.Header.Set("Idempotency-Key", "order-7")
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return reply{err: err}
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	return reply{resp.StatusCode, string(body), err}
}

// paused pauses a service in its handler, lets another one take the payment over, and continues the first one. It
// returns the first one's response. overtake returns the other one's.
func paused(
	t *testing.T, route string, idle time.Duration, overtake func(st *pgstore.Store, other *service) reply,
) (first *service, late reply) {
	p := newPlace(t)
	st := p.open(t)
	effects := pgtest.NewPool(t, p.url, 1)
	_, err := effects.Exec(t.Context(),
		"CREATE TABLE "+effectsTable(p.schema)+" (key text PRIMARY KEY, fence bigint NOT NULL, times int NOT NULL)")
	require.NoError(t, err)
	at := p.url
	if idle > 0 { // as the package's documentation recommends
		u, err := url.Parse(p.url)
		require.NoError(t, err)
		q := u.Query()
		q.Set("idle_in_transaction_session_timeout", fmt.Sprint(idle.Milliseconds()))
		u.RawQuery = q.Encode()
		at = u.String()
	}
	first, other := startService(t, p, at, serviceHolds+"=1"), startService(t, p, at)

	waiting := make(chan reply, 1)
	go func() { waiting <- first.pay(route) }()
	first.line("holds")
	first.signal(syscall.SIGSTOP)
	won := overtake(st, other)
	require.NoError(t, won.err)
	require.Equal(t, reply{status: http.StatusCreated, body: fmt.Sprintf("paid by %d", other.cmd.Process.Pid)}, won)
	other.line("wrote 1 false")

	_, err = io.WriteString(first.stdin, "go on\n")
	require.NoError(t, err)
	first.signal(syscall.SIGCONT)
	late = <-waiting
	require.NoError(t, late.err)
	require.Equal(t, won, first.pay(route), "the retry at the paused process gets the other one's response")
	var times int
	require.NoError(t, effects.QueryRow(t.Context(), "SELECT sum(times) FROM "+effectsTable(p.schema)).Scan(&times))
	require.Equal(t, 1, times, "the payment was made once")
	return first, late
}

// A process is paused for longer than its lease, in a handler that does not watch its context. Its late write changes
// nothing because of the fence, and its client learns that the payment is not known to be made.
func TestAPausedProcessIsFencedOff(t *testing.T) {
	first, late := paused(t, "/fenced", 0, func(st *pgstore.Store, other *service) reply {
		until(t, "the lease ends", func() bool {
			for rec, err := range st.Pending(t.Context(), "") {
				return err == nil && rec.LeaseLeft() == 0
			}
			return false
		})
		return other.pay("/fenced")
	})
	require.Equal(t, http.StatusServiceUnavailable, late.status)
	first.line("lost true")
	first.line("wrote 0 false")
}

// A process is paused in a transaction. Postgres ends the session that is idle for too long, and another process makes
// the payment. The paused one commits nothing, although its handler ignores the failure of its write.
func TestAPausedTransactionIsFencedOff(t *testing.T) {
	first, late := paused(t, "/transactional", time.Second, func(_ *pgstore.Store, other *service) (r reply) {
		until(t, "the session ends", func() bool {
			r = other.pay("/transactional")
			return r.err != nil || r.status != http.StatusConflict
		})
		return r
	})
	require.Equal(t, http.StatusServiceUnavailable, late.status)
	first.line("wrote 0 true")
}
