package brokertest

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/redo-go/redo/inbox"
	"github.com/redo-go/redo/store/boltstore"
)

// child is the environment variable that makes a test binary the process that is killed. It holds a job in JSON.
const child = "BROKERTEST_CHILD"

// A job is the work of the process.
type job struct {
	File    string // of the inbox's store
	Address string
	Stop    string // the line after which it waits to be killed
}

// Main is the TestMain of a package that calls [Run]. consume is its Broker.Consume.
func Main(m *testing.M, consume Consume) {
	text := os.Getenv(child)
	if text == "" {
		os.Exit(m.Run())
	}
	if err := work(text, consume); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

var effects = []byte("effects")

// work consumes into a transactional inbox, and prints a line for each step.
func work(text string, consume Consume) error {
	var j job
	if err := json.Unmarshal([]byte(text), &j); err != nil {
		return err
	}
	st, err := boltstore.Open(j.File)
	if err != nil {
		return err
	}
	events, err := inbox.NewTransactional(st)
	if err != nil {
		return err
	}
	step := func(line string) {
		fmt.Println(line)
		if line == j.Stop {
			select {} // to be killed here
		}
	}
	receive := func(ctx context.Context, ev inbox.Event) (inbox.Receipt, error) {
		receipt, err := events.Receive(ctx, ev, func(_ context.Context, tx *boltstore.Tx, ev inbox.Event) error {
			b, err := tx.CreateBucketIfNotExists(effects)
			if err != nil {
				return err
			}
			n, err := b.NextSequence()
			if err != nil {
				return err
			}
			if err := b.Put(fmt.Append(nil, n), []byte(ev.ID)); err != nil {
				return err
			}
			step("handling")
			return nil
		})
		if err == nil {
			step("committed")
			fmt.Println(receipt.Status)
		}
		return receipt, err
	}
	return consume(context.Background(), j.Address, source, receive)
}

// killed returns a test that kills a process at a step, and expects a status from the process that follows.
func killed(at, then string) func(t *testing.T, b *Broker) {
	return func(t *testing.T, b *Broker) {
		require.NoError(t, b.Publisher.Publish(t.Context(), b.event("refund:re_1")))
		j := job{File: filepath.Join(t.TempDir(), "inbox.redo"), Address: b.Address, Stop: at}
		start(t, j).kill(t, at)
		require.Equal(t, 1, b.Pending(t), "it is not acknowledged")
		if b.Expire != nil {
			b.Expire()
		}

		j.Stop = ""
		next := start(t, j)
		next.until(t, then)
		require.Eventually(t, func() bool { return b.Pending(t) == 0 }, limit, pause, "it is acknowledged")
		next.kill(t, "")

		st, err := boltstore.Open(j.File)
		require.NoError(t, err)
		defer func() { require.NoError(t, st.Close()) }()
		var applied []string
		require.NoError(t, st.View(t.Context(), func(tx *boltstore.Tx) error {
			return tx.Bucket(effects).ForEach(func(_, id []byte) error {
				applied = append(applied, string(id))
				return nil
			})
		}))
		require.Equal(t, []string{"refund:re_1"}, applied)
	}
}

// A process is this test binary, running work.
type process struct {
	*exec.Cmd
	lines *bufio.Scanner
}

func start(t *testing.T, j job) *process {
	t.Helper()
	text, err := json.Marshal(j)
	require.NoError(t, err)
	ctx, cancel := context.WithTimeout(t.Context(), limit)
	t.Cleanup(cancel)
	p := &process{Cmd: exec.CommandContext(ctx, os.Args[0])}
	p.Env = append(os.Environ(), child+"="+string(text))
	p.Stderr = os.Stderr
	out, err := p.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, p.Start())
	p.lines = bufio.NewScanner(out)
	return p
}

// until reads lines up to one.
func (p *process) until(t *testing.T, line string) {
	t.Helper()
	var read []string
	for p.lines.Scan() {
		if p.lines.Text() == line {
			return
		}
		read = append(read, p.lines.Text())
	}
	require.FailNow(t, "the process has ended", "before %q, after %q", line, strings.Join(read, ", "))
}

// kill kills the process after a line.
func (p *process) kill(t *testing.T, line string) {
	t.Helper()
	if line != "" {
		p.until(t, line)
	}
	require.NoError(t, p.Process.Kill())
	require.ErrorContains(t, p.Wait(), "killed")
}
