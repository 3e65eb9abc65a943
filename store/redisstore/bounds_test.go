package redisstore_test

import "time"

const (
	// patience bounds every wait. It is spent only when a rule is broken.
	patience = 30 * time.Second
	// poll is the pause between two looks.
	poll = 2 * time.Millisecond
)
