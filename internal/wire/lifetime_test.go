package wire

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestLifetime(t *testing.T) {
	for v, want := range map[string]time.Duration{
		"86400": 24 * time.Hour, " 60 ": time.Minute, "PT30M": 30 * time.Minute, "P1D": 24 * time.Hour,
		"P1W":     168 * time.Hour,
		"P1DT12H": 36 * time.Hour, "PT1H30M5S": time.Hour + 30*time.Minute + 5*time.Second,
		"9223372036": 9223372036 * time.Second, "PT9223372036S": 9223372036 * time.Second,
	} {
		got, ok := Lifetime(v)
		require.True(t, ok, v)
		require.Equal(t, want, got, v)
	}
	for _, v := range []string{
		"", "0", "-5", "99999999999999999999", "9223372036854775807", "P", "PT", "P1", "PT5X", "PTM", "P1M", "PT5M1H",
		"PT5M5M", "1h", "P-1D", "P99999999999D",
		"P4294967295WT1S", "9223372037", "PT9223372037S", "P1DT9223372036S", "P1DT18446744074S", "P1DT", "P0D", "1D", "T5S",
	} {
		_, ok := Lifetime(v)
		require.False(t, ok, "%q", v)
	}
}
