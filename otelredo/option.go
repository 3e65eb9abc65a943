package otelredo

import (
	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/trace"

	"github.com/redo-go/redo/internal/null"
)

// An Option sets a provider or a name.
type Option interface{ apply(*config) }

type optionFunc func(*config)

func (f optionFunc) apply(c *config) { f(c) }

// TracerProvider makes the spans with p. The default, also for nil and a nil pointer, is that of
// otel.GetTracerProvider.
func TracerProvider(p trace.TracerProvider) Option {
	return optionFunc(func(c *config) {
		if !null.Is(p) {
			c.tracers = p
		}
	})
}

// MeterProvider makes the metrics with p. The default, also for nil and a nil pointer, is that of
// otel.GetMeterProvider.
func MeterProvider(p metric.MeterProvider) Option {
	return optionFunc(func(c *config) {
		if !null.Is(p) {
			c.meters = p
		}
	})
}

// Name adds the attribute redo.name to the metrics of [Pending] and [ObserveBacklog]. Give each client and each queue
// of a process a name of its own. Without names the values of one hide those of another. By default there is no such
// attribute. Name has no effect on the observers.
func Name(name string) Option {
	return optionFunc(func(c *config) { c.named = []attribute.KeyValue{attrName.String(name)} })
}

const attrName = attribute.Key("redo.name")

type config struct {
	tracers trace.TracerProvider
	meters  metric.MeterProvider
	named   []attribute.KeyValue // empty without a name
}

const scope = "github.com/redo-go/redo/otelredo"

func newConfig(opts []Option) config {
	c := config{tracers: otel.GetTracerProvider(), meters: otel.GetMeterProvider()}
	for _, o := range opts {
		if o != nil {
			o.apply(&c)
		}
	}
	return c
}

func (c config) tracer() trace.Tracer { return c.tracers.Tracer(scope) }

func (c config) meter() meter { return meter{c.meters.Meter(scope)} }

// A meter makes instruments by the names of metric.go. An error, which only a wrong name or a conflict in the provider
// causes, goes to the handler of package otel.
type meter struct{ metric.Meter }

func must[T any](instrument T, err error) T {
	if err != nil {
		otel.Handle(err)
	}
	return instrument
}

func (m meter) counter(name string) metric.Int64Counter {
	d := metrics[name]
	return must(m.Int64Counter(name, metric.WithUnit(d.Unit), metric.WithDescription(d.Description)))
}

func (m meter) upDown(name string) metric.Int64UpDownCounter {
	d := metrics[name]
	return must(m.Int64UpDownCounter(name, metric.WithUnit(d.Unit), metric.WithDescription(d.Description)))
}

// seconds returns a histogram of durations: from a tenth of a millisecond to an hour.
func (m meter) seconds(name string) metric.Float64Histogram {
	d := metrics[name]
	return must(m.Float64Histogram(name, metric.WithUnit(d.Unit), metric.WithDescription(d.Description),
		metric.WithExplicitBucketBoundaries(.0001, .00025, .0005, .001, .0025, .005, .01, .025, .05, .1, .25, .5, 1,
			2.5, 5, 10,
			30, 60, 300, 1800, 3600)))
}

func (m meter) counts(name string) metric.Int64Histogram {
	d := metrics[name]
	return must(m.Int64Histogram(name, metric.WithUnit(d.Unit), metric.WithDescription(d.Description),
		metric.WithExplicitBucketBoundaries(1, 2, 3, 4, 5, 7, 10, 20, 50)))
}

func (m meter) gauge(name string) (metric.Int64ObservableGauge, error) {
	d := metrics[name]
	return m.Int64ObservableGauge(name, metric.WithUnit(d.Unit), metric.WithDescription(d.Description))
}

func (m meter) secondsGauge(name string) (metric.Float64ObservableGauge, error) {
	d := metrics[name]
	return m.Float64ObservableGauge(name, metric.WithUnit(d.Unit), metric.WithDescription(d.Description))
}
