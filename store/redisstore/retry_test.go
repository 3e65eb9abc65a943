package redisstore

import (
	"context"
	"fmt"
	"io"
	"math"
	"net"
	"testing"
	"time"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/require"
)

func TestEndedByOther(t *testing.T) {
	dialing := func(err error) error { return &net.OpError{Op: "dial", Net: "tcp", Err: err} }
	for _, c := range []struct {
		rule  string
		err   error
		ended error
		left  time.Duration
		plain bool
		want  bool
	}{
		{rule: "a cancellation while the call's own context lives", err: context.Canceled, want: true},
		{rule: "also one that came while dialing", err: dialing(context.Canceled), want: true},
		{rule: "also one that is wrapped", err: fmt.Errorf("reading: %w", context.Canceled), want: true},
		{rule: "not one of the call's own", err: context.Canceled, ended: context.Canceled},
		{
			rule: "not one while the call's own deadline has passed", err: dialing(context.Canceled),
			ended: context.DeadlineExceeded,
		},
		{rule: "a dial that ran out of time", err: dialing(context.DeadlineExceeded), want: true},
		{
			rule: "a deadline, where the call has none and the client is Open's", err: context.DeadlineExceeded,
			left: math.MaxInt64, plain: true, want: true,
		},
		{rule: "not one that may be the call's own", err: context.DeadlineExceeded, left: nearEnd, plain: true},
		{
			rule: "not one that a client of the user's own making may have sent a command under",
			err:  context.DeadlineExceeded, left: math.MaxInt64,
		},
		{rule: "not a connection that broke", err: io.EOF, left: math.MaxInt64, plain: true},
		{rule: "not a dial that was refused", err: dialing(io.EOF), left: math.MaxInt64, plain: true},
		{rule: "not a client that was closed", err: rueidis.ErrClosing, left: math.MaxInt64, plain: true},
	} {
		t.Run(c.rule, func(t *testing.T) {
			require.Equal(t, c.want, endedByOther(c.err, c.ended, c.left, c.plain))
		})
	}
}
