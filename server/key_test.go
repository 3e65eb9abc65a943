package server

import (
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"
)

func TestParseUUID(t *testing.T) {
	const valid = "0190c5d4-1f2e-7abc-8def-0123456789ab"
	u, ok := parseUUID(valid)
	require.True(t, ok)
	require.Equal(t, uuid.MustParse(valid), uuid.UUID(u))
	for rule, s := range map[string]string{
		"braces": "{" + valid + "}", "URN": "urn:uuid:" + valid, "no dashes": "0190c5d41f2e7abc8def0123456789ab",
		"empty":                     "",
		"a wrong digit":             "0190c5d4-1f2e-7abc-8def-0123456789ag",
		"a dash too many":           "0190c5d4-1f2e-7abc-8def-01234567-9ab",
		"a dash in the wrong place": "0190c5d41-f2e-7abc-8def-0123456789ab",
		"no first dash":             "0190c5d4_1f2e-7abc-8def-0123456789ab",
		"no second dash":            "0190c5d4-1f2e_7abc-8def-0123456789ab",
		"no third dash":             "0190c5d4-1f2e-7abc_8def-0123456789ab",
		"no fourth dash":            "0190c5d4-1f2e-7abc-8def_0123456789ab",
	} {
		t.Run(rule+" is refused", func(t *testing.T) {
			require.Error(t, checkUUID(s))
		})
	}
}

func TestMadeAt(t *testing.T) {
	made, ok := madeAt("017f22e2-79b0-7cc3-98c4-dc0c0c07398f") // RFC 9562 appendix A.6
	require.True(t, ok)
	require.Equal(t, time.Date(2022, 2, 22, 19, 22, 22, 0, time.UTC), made.UTC())
	for rule, key := range map[string]string{
		"version 4 (RFC 9562 appendix A.3)": "919108f7-52d1-4320-9bac-f847db4148a8",
		"version 7 of another variant":      "017f22e2-79b0-7cc3-d8c4-dc0c0c07398f",
		"no UUID":                           "order-1138",
	} {
		t.Run(rule+" has no age", func(t *testing.T) {
			_, ok := madeAt(key)
			require.False(t, ok)
			require.False(t, expired(key, time.Nanosecond, time.Now()))
		})
	}
}

func TestExpired(t *testing.T) {
	const key = "017f22e2-79b0-7cc3-98c4-dc0c0c07398f"
	made, _ := madeAt(key)
	for _, c := range []struct {
		rule      string
		retention time.Duration
		age       time.Duration
		want      bool
	}{
		{"a fresh key is valid", 24 * time.Hour, 0, false},
		{"a key from the future is valid", 24 * time.Hour, -time.Hour, false},
		{"five minutes before the retention a key is valid", 24 * time.Hour, 24*time.Hour - 5*time.Minute, false},
		{"less than that and it may be a fast clock's", 24 * time.Hour, 24*time.Hour - 5*time.Minute + 1, true},
		{"of a short retention the margin is a tenth: before", 10 * time.Second, 9 * time.Second, false},
		{"of a short retention the margin is a tenth: after", 10 * time.Second, 9*time.Second + 1, true},
	} {
		t.Run(c.rule, func(t *testing.T) {
			require.Equal(t, c.want, expired(key, c.retention, made.Add(c.age)))
		})
	}
}
