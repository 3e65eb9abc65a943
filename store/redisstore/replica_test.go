package redisstore_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// until polls for a state that comes about without a call.
func until(t testing.TB, what string, holds func() bool) {
	t.Helper()
	tick := time.NewTicker(poll)
	defer tick.Stop()
	for begun := time.Now(); !holds(); <-tick.C {
		require.Less(t, time.Since(begun), patience, what)
	}
}

// privateReplica starts a replica of the server, in step with it.
func privateReplica(t *testing.T, of *engine, args ...string) *engine {
	t.Helper()
	e := privateEngine(t, append([]string{"--replicaof", "127.0.0.1", fmt.Sprint(of.port)}, args...)...)
	e.inStepWith(t, of)
	return e
}

// inStepWith polls until the replica has all that its primary has written.
func (e *engine) inStepWith(t *testing.T, primary *engine) {
	t.Helper()
	until(t, "the replica is in step", func() bool {
		replica := e.replication(t)
		return replica["master_link_status"] == "up" &&
			replica["slave_repl_offset"] == primary.replication(t)["master_repl_offset"]
	})
}

func (e *engine) replication(t *testing.T) map[string]string {
	t.Helper()
	return e.info(t, "replication")
}

func (e *engine) info(t *testing.T, section string) map[string]string {
	t.Helper()
	fields := map[string]string{}
	for line := range strings.Lines(e.tells(t, "INFO", section)) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), ":")
		fields[name] = value
	}
	return fields
}

// cutOff keeps a replica from all further writes. It stays a replica, of a server that doesn't exist.
func (e *engine) cutOff(t *testing.T) {
	t.Helper()
	require.NoError(t, command(t, e.url(), "REPLICAOF", "127.0.0.1", "1").Error())
}

func (e *engine) promote(t *testing.T) {
	t.Helper()
	require.NoError(t, command(t, e.url(), "REPLICAOF", "NO", "ONE").Error())
}
