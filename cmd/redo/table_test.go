package main

import (
	"bytes"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestALongKeyWidensNoOtherLine(t *testing.T) {
	long := strings.Repeat("k", 300)
	all := []record{
		{Scope: "s", Key: long, State: "pending", Owner: "pod-1"},
		{Scope: "s", Key: "ü2", State: "pending", Owner: "pod-2"},
	}
	var out bytes.Buffer
	require.NoError(t, (&records{terminal: terminal{out: &out}}).writeList(all, true))
	require.Equal(t, "SCOPE  KEY"+strings.Repeat(" ", maxColumn-1)+"AGE  LEASE LEFT  OWNER\n"+
		"s      "+long+"  0s   expired     pod-1\n"+
		"s      ü2"+strings.Repeat(" ", maxColumn)+"0s   expired     pod-2\n", out.String())
}

func TestAListThatCanNotBeWrittenIsAnError(t *testing.T) {
	err := (&records{terminal: terminal{out: broken{}}}).writeList([]record{{Key: "k"}}, true)
	require.ErrorContains(t, err, "the pipe is broken")
}
