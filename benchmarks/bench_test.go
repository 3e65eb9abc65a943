package main

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/redo-go/redo/benchmarks/contest"
)

// BenchmarkScenario runs the command's bodies one after the other.
func BenchmarkScenario(b *testing.B) { contest.Bench(b, scenarios(few)) }

func TestEveryContestantDoesItsWork(t *testing.T) { contest.Check(t, scenarios(few)) }

func TestNames(t *testing.T) { require.NoError(t, contest.CheckNames(scenarios(few))) }
