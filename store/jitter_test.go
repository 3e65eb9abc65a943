package store

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestPurgingIsSpreadByAQuarter(t *testing.T) {
	require.Equal(t, 45*time.Minute, jitter(time.Hour, 0))
	require.Equal(t, time.Hour, jitter(time.Hour, 0.5))
	require.Equal(t, 75*time.Minute, jitter(time.Hour, 1))
	require.Greater(t, jitter(Forever, 1), 200*365*24*time.Hour, "an overflow would purge without a pause")
}
