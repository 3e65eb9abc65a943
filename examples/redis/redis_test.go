package main

import (
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestTwoCopiesMakeAnOrderOnce(t *testing.T) {
	var out strings.Builder
	err := tell(t.Context(), nil, &out)
	if err != nil && strings.HasPrefix(err.Error(), "no Redis responds") && os.Getenv("REDO_TEST_REQUIRE") == "" {
		t.Skip(err)
	}
	require.NoError(t, err, "%s", &out)
	t.Log(out.String())
	require.Contains(t, out.String(), "20 callers got number 2\n")
	require.True(t, strings.HasSuffix(out.String(), "\noperations=3 effects=3\n"))
}

func TestWithoutRedisTheErrorSaysWhatToDo(t *testing.T) {
	err := tell(t.Context(), []string{"-redis", "redis://app:secret@127.0.0.1:1/0"}, &strings.Builder{})
	require.ErrorContains(t, err, "no Redis responds; start one")
	require.NotContains(t, err.Error(), "secret")
	err = tell(t.Context(), []string{"here"}, &strings.Builder{})
	require.EqualError(t, err, `the argument "here" has no effect: name a Redis with -redis`)
}
