package redisstore

import (
	"math"
	"strings"
	"testing"
	"time"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/require"
)

func TestOptionsAtTheirLimits(t *testing.T) {
	c, err := newConfig([]Option{
		WithPrefix(strings.Repeat("p", maxPrefix)), WithMaxResult(1), WithReplicas(math.MaxInt, maxReplicaTimeout),
	})
	require.NoError(t, err)
	require.Equal(t, config{
		prefix: strings.Repeat("p", 128), maxResult: 1, replicas: math.MaxInt, replicaTimeout: time.Minute,
	}, c)
	c, err = newConfig([]Option{WithMaxResult(512 << 20), WithReplicas(1, time.Millisecond)})
	require.NoError(t, err)
	require.Equal(t, 512<<20, c.maxResult)
	_, err = newConfig([]Option{WithMaxResult(512<<20 + 1)})
	require.ErrorContains(t, err, "the largest result is 536870913 bytes, it must be from 1 to 536870912")
}

// A builder has no server.
type builder struct{ doer }

func (builder) B() rueidis.Builder { return rueidis.Builder{} }

func TestTheTimeoutOfReplicasIsRoundedUp(t *testing.T) {
	for timeout, ms := range map[time.Duration]string{
		time.Millisecond: "1", time.Millisecond + 1: "2", 2*time.Millisecond - 1: "2", 2 * time.Millisecond: "2",
	} {
		s := Store{config: config{replicas: 3, replicaTimeout: timeout}}
		wait := s.waitCommand(builder{})
		require.Equal(t, []string{"WAIT", "3", ms}, wait.Commands())
	}
}
