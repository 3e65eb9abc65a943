package otelredo

import (
	"context"
	"errors"
	"fmt"

	"go.opentelemetry.io/otel/metric"

	"github.com/redo-go/redo"
)

// DefaultPendingLimit is the number of operations that a gauge of [Pending] counts at most.
const DefaultPendingLimit = 10_000

// Pending reports the number of a client's pending operations and the age of the oldest. Each collection lists the
// client's store, at most up to DefaultPendingLimit operations. Unregister the result to stop it. A process with
// several clients needs [Name].
func Pending(client *redo.Client, opts ...Option) (metric.Registration, error) {
	if client == nil {
		return nil, errors.New("otelredo: the client is nil")
	}
	c := newConfig(opts)
	m, named := c.meter(), metric.WithAttributes(c.named...)
	count, errCount := m.gauge(pendingCount)
	age, errAge := m.secondsGauge(pendingAge)
	if err := errors.Join(errCount, errAge); err != nil {
		return nil, fmt.Errorf("otelredo: %w", err)
	}
	return m.RegisterCallback(func(ctx context.Context, o metric.Observer) error {
		pending, oldest := int64(0), 0.0
		for op, err := range client.Pending(ctx) {
			if err != nil && op.Name == "" {
				return fmt.Errorf("otelredo: %w", err)
			}
			oldest = max(oldest, op.Age.Seconds())
			if pending++; pending == DefaultPendingLimit {
				break
			}
		}
		o.ObserveInt64(count, pending, named)
		o.ObserveFloat64(age, oldest, named)
		return nil
	}, count, age)
}
