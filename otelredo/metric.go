package otelredo

// A Metric describes one metric of this package.
type Metric struct {
	Name        string
	Kind        Kind
	Unit        string // in UCUM
	Description string
}

// A Kind is the kind of a metric.
type Kind uint8

// Kinds of a metric.
const (
	Counter   Kind = iota + 1 // only grows
	UpDown                    // a number that is kept by additions, such as requests being served
	Histogram                 // a distribution
	Gauge                     // a number that is read when metrics are collected
)

// Names of the metrics.
const (
	operationDuration = "idempotent.operation.duration"
	operationActive   = "idempotent.operation.active"
	operationAttempts = "idempotent.operation.attempts"
	operationRefused  = "idempotent.operation.refused"
	retryDelay        = "idempotent.retry.delay"

	requestCreated   = "idempotent.created"
	requestReplayed  = "idempotent.replayed"
	requestConflict  = "idempotent.conflict"
	requestTakenOver = "idempotent.taken_over"
	requestRefused   = "idempotent.refused"
	requestFailed    = "idempotent.unavailable"
	requestUntracked = "idempotent.failed_open"
	requestTimedOut  = "idempotent.timed_out"
	requestDuration  = "idempotent.request.duration"
	requestActive    = "idempotent.request.active"
	requestWaiting   = "idempotent.request.waiting"
	storeDuration    = "idempotent.store.duration"
	leaseLost        = "idempotent.lease.lost"

	pendingCount = "idempotent.pending"
	pendingAge   = "idempotent.pending.age"

	eventAttempts  = "idempotent.event.attempts"
	eventDuration  = "idempotent.event.duration"
	eventLag       = "idempotent.event.lag"
	queueDuration  = "idempotent.queue.duration"
	backlogCount   = "idempotent.backlog"
	backlogAge     = "idempotent.backlog.age"
	disabledCount  = "idempotent.destination.disabled"
	inboxDelivered = "idempotent.inbox.deliveries"
	inboxDuration  = "idempotent.inbox.duration"
)

// metrics describes each metric by name.
var metrics = func() map[string]Metric {
	byName := map[string]Metric{}
	for _, m := range Metrics() {
		byName[m.Name] = m
	}
	return byName
}()

// Metrics returns every metric of this package. Counters and gauges of counts have a unit in braces.
func Metrics() []Metric {
	return []Metric{
		{operationDuration, Histogram, "s", "Time of a client's call, by effect, and by error.type if it failed."},
		{operationActive, UpDown, "{operation}", "Calls of a client that are under way."},
		{operationAttempts, Histogram, "{attempt}", "Attempts of a client's call."},
		{
			operationRefused, Counter, "{operation}",
			"Calls that ended without another attempt, by reason: budget, breaker or limiter.",
		},
		{retryDelay, Histogram, "s", "Wait of a client before another attempt."},
		{requestCreated, Counter, "{request}", "Requests whose handler ran as the first for its key."},
		{requestReplayed, Counter, "{request}", "Requests that got a stored response."},
		{
			requestConflict, Counter, "{request}",
			"Requests that were refused because of the record of their key, by error.type.",
		},
		{
			requestTakenOver, Counter, "{request}",
			"Requests whose handler ran after an earlier request with the key had died.",
		},
		{
			requestRefused, Counter, "{request}",
			"Requests that were refused because of the request or of a mistake in the program, by error.type.",
		},
		{
			requestFailed, Counter, "{request}",
			"Requests that were refused because the store failed or did not record the outcome.",
		},
		{
			requestUntracked, Counter, "{request}",
			"Requests whose handler ran without a record because the store failed.",
		},
		{
			requestTimedOut, Counter, "{request}",
			"Requests whose handler's time ended before it had written a response.",
		},
		{requestDuration, Histogram, "s", "Time of a request with a key, by kind."},
		{requestActive, UpDown, "{request}", "Requests with a key that are being served."},
		{requestWaiting, UpDown, "{request}", "Requests that wait for a key in flight."},
		{storeDuration, Histogram, "s", "Time of a call to the store, by method, and by error.type if it failed."},
		{
			leaseLost, Counter, "{lease}",
			"Leases that were lost while a handler ran, or before its outcome was recorded.",
		},
		{pendingCount, Gauge, "{operation}", "Operations of a client that are pending, up to the limit of Pending."},
		{pendingAge, Gauge, "s", "Age of the oldest pending operation, zero if there is none."},
		{eventAttempts, Counter, "{attempt}", "Attempts of a relay, by result, and by error.type if it failed."},
		{eventDuration, Histogram, "s", "Time of a relay's attempt, by result."},
		{eventLag, Histogram, "s", "Time from an event's Enqueue to its acknowledgement."},
		{
			queueDuration, Histogram, "s",
			"Time of a relay's call to its queue, by method, and by error.type if it failed.",
		},
		{backlogCount, Gauge, "{event}", "Events in a queue, by state: waiting or dead."},
		{backlogAge, Gauge, "s", "Age of the event that waits longest, zero if none waits."},
		{disabledCount, Gauge, "{destination}", "Destinations that are disabled."},
		{
			inboxDelivered, Counter, "{delivery}",
			"Deliveries to an inbox, by status, and by error.type if it was refused or failed.",
		},
		{inboxDuration, Histogram, "s", "Time of a delivery to an inbox, by status."},
	}
}
