package sqlitestore_test

import (
	"bufio"
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/redo-go/redo/store"
	"github.com/redo-go/redo/store/sqlitestore"
	"github.com/redo-go/redo/store/sqltx"
)

// childFile names the file on which the test binary works as the process that crashes.
const childFile = "SQLITESTORE_TEST_CHILD"

func TestMain(m *testing.M) {
	if path := os.Getenv(childFile); path != "" {
		fmt.Fprintln(os.Stderr, work(path))
		os.Exit(1)
	}
	os.Exit(m.Run())
}

// work reserves and settles until it is killed, and prints the acknowledged writes: a line is one write. Each
// third key is done in a transaction.
func work(path string) error {
	ctx := context.Background()
	st, err := sqlitestore.Open(ctx, path)
	if err != nil {
		return err
	}
	failed := make(chan error)
	for w := range 4 {
		go func() { failed <- workAlone(ctx, st, fmt.Sprintf("%d-%d", os.Getpid(), w)) }()
	}
	return <-failed
}

func workAlone(ctx context.Context, st *sqlitestore.Store, name string) error {
	for i := 0; ; i++ {
		key := fmt.Sprintf("%s-%d", name, i)
		if i%3 == 0 {
			effect := func(ctx context.Context, tx *sqltx.Tx) (store.Outcome, error) {
				_, err := tx.ExecContext(ctx, "INSERT INTO effects VALUES (?)", key)
				return store.Outcome{Result: []byte(key)}, err
			}
			if _, _, err := store.Once(ctx, st, unleased(key), effect); err != nil {
				return err
			}
			fmt.Printf("completed %s 0\n", key)
			continue
		}
		g, err := st.Reserve(ctx, claim(key))
		if err != nil {
			return err
		}
		fmt.Printf("reserved %s %d\n", key, g.Lease.Fence)
		if i%3 == 1 {
			if err := st.Complete(ctx, g.Lease, store.Outcome{Result: []byte(key)}); err != nil {
				return err
			}
			fmt.Printf("completed %s %d\n", key, g.Lease.Fence)
		}
	}
}

func TestKilledProcessesLoseNothingAcknowledged(t *testing.T) {
	path := newFile(t)
	st := open(t, path) // stays open beside the processes
	sqlExec(t, path, "CREATE TABLE effects (key TEXT NOT NULL)")
	top := uint64(0)
	for range 6 {
		lines := make(chan map[string]string)
		for range 2 { // processes at a time
			go func() { lines <- runAndKill(t, path, 1+rand.IntN(150)) }()
		}
		for range 2 {
			for key, line := range <-lines {
				word, number, _ := strings.Cut(line, " ")
				fence, err := strconv.ParseUint(number, 10, 64)
				require.NoError(t, err)
				top = max(top, fence)
				r, err := st.Find(t.Context(), claim(key).ID)
				require.NoError(t, err, line)
				if word == "completed" {
					require.Equal(t, store.StateComplete, r.State, key)
					require.Equal(t, key, string(r.Result))
				}
			}
		}
		g := reserve(t, st, claim(fmt.Sprint("after ", top)), store.Acquired)
		require.Greater(t, g.Lease.Fence, top)
	}
	requireEffectsOfRecords(t, path)
}

// requireEffectsOfRecords compares the effects with the records of the transactions that made them.
func requireEffectsOfRecords(t *testing.T, path string) {
	t.Helper()
	db := connect(t, path)
	defer db.Close()
	var effects, distinct, records int
	require.NoError(t, db.QueryRow("SELECT count(*), count(DISTINCT key) FROM effects").Scan(&effects, &distinct))
	require.NoError(t, db.QueryRow(`SELECT count(*) FROM effects JOIN redo_records ON id_key = CAST(key AS BLOB)
		WHERE state = 2`).Scan(&records))
	require.Positive(t, effects)
	require.Equal(t, effects, distinct, "an effect was made twice")
	require.Equal(t, effects, records, "an effect has no record")
}

// runAndKill runs the test binary on the file, kills it after so many lines, and returns the last line of each key.
func runAndKill(t *testing.T, path string, lines int) map[string]string {
	said := map[string]string{}
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), childFile+"="+path)
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err != nil || cmd.Start() != nil {
		t.Error("the process does not start", err)
		return said
	}
	scan := bufio.NewScanner(out)
	for n := 0; scan.Scan(); n++ {
		if n == lines {
			if err := cmd.Process.Kill(); err != nil {
				t.Error(err)
			}
		}
		word, rest, _ := strings.Cut(scan.Text(), " ")
		key, number, ok := strings.Cut(rest, " ")
		if ok && number != "" { // the last line may be cut
			said[key] = word + " " + number
		}
	}
	_ = cmd.Wait() // it was killed
	return said
}
