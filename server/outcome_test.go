package server

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestSettlementOf(t *testing.T) {
	for _, c := range []struct {
		rule     string
		statuses []int
		override override
		effect   bool
		all      bool
		want     ending
	}{
		{
			"successes and redirects are complete", []int{200, 201, 202, 204, 299, 301, 303, 304}, overrideNone,
			false, false, endComplete,
		},
		{
			"terminal errors are failed", []int{400, 404, 409, 410, 412, 413, 422, 428, 451, 498}, overrideNone,
			false, false, endFailed,
		},
		{
			"errors that ask for a retry are released",
			[]int{401, 403, 407, 408, 425, 429, 499, 500, 501, 502, 503, 504, 599}, overrideNone, false, false, endRelease,
		},
		{"redirects that repeat the request are released", []int{307, 308}, overrideNone, false, true, endRelease},
		{"a status beyond 599 is a server error", []int{600, 999}, overrideNone, false, false, endRelease},
		{"a switch of protocols is no outcome", []int{101}, overrideNone, false, false, endRelease},
		{"with Keep those are failed", []int{500, 502, 503, 504}, overrideNone, false, true, endFailed},
		{
			"and the others are released as before", []int{401, 403, 407, 408, 425, 429}, overrideNone, false, true,
			endRelease,
		},
		{"Applied completes a success", []int{200, 303}, overrideApplied, true, false, endComplete},
		{"Applied keeps any error", []int{400, 401, 408, 425, 429, 500, 503}, overrideApplied, true, false, endFailed},
		{"Release releases anything", []int{200, 303, 400, 500}, overrideRelease, false, true, endRelease},
		{"Release does nothing after Applied", []int{200}, overrideRelease, true, false, endComplete},
		{"Release does nothing after Applied, for errors too", []int{500}, overrideRelease, true, false, endFailed},
		{"Fail fails anything", []int{200, 303, 400, 429, 500}, overrideFail, false, false, endFailed},
		{"Fail wins over an earlier Applied", []int{200}, overrideFail, true, false, endFailed},
	} {
		t.Run(c.rule, func(t *testing.T) {
			for _, status := range c.statuses {
				keeping := config{keep: func(status int) bool { return c.all && status >= 500 || DefaultKeep(status) }}
				require.Equal(t, c.want, endingOf(status, c.override, c.effect, keeping.keeps(status)), "status %d",
					status)
			}
		})
	}
}

func TestOutsideOfTheMiddleware(t *testing.T) {
	ctx := t.Context()
	require.NoError(t, Applied(ctx))
	require.Zero(t, Fence(ctx))
	Unknown(ctx)
	Release(ctx)
	Fail(ctx)
	require.Empty(t, Key(ctx))
	require.False(t, TakenOver(ctx))
	require.NoError(t, Checkpoint(ctx, []byte("x")))
}
