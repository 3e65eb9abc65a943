package main

import (
	"slices"

	"github.com/redo-go/redo/benchmarks/contest"
)

// manyRecords is the default of -records: the number of records in the large tables of the scale scenarios.
const manyRecords = 10_000_000

// manyInMemory is the greatest number of records in an engine that keeps them in memory.
const manyInMemory = 1_000_000

// scenarios returns all of them, in the order of the report.
func scenarios(records int) []contest.Scenario {
	return slices.Concat([]contest.Scenario{
		memoryScenario(),
		loopbackScenario(),
		largeScenario(),
		retryScenario(),
		retryLoopbackScenario(),
		reserveScenario(),
		durableScenario(1),
		durableScenario(64),
		middlewareScenario(),
		redisScenario(false),
		redisScenario(true),
		postgresScenario(false),
		postgresScenario(true),
		effectScenario(),
	}, redisScales(min(records, manyInMemory)), postgresScales(records))
}
