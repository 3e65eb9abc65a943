package redokafka

import (
	"context"
	"errors"
	"fmt"
	"net"
	"regexp"
	"slices"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/redo-go/redo/broker"
	"github.com/redo-go/redo/inbox"
)

// A Consumer brings the records of a consumer group to an inbox. Create one with [NewConsumer].
type Consumer struct {
	source  string
	receive broker.Receive
	opts    []kgo.Opt
}

// NewConsumer returns a consumer whose events are of the source. The options need kgo.ConsumerGroup and
// kgo.ConsumeTopics. The consumer itself sets DisableAutoCommit, BlockRebalanceOnPoll, OnPartitionsRevoked and
// OnPartitionsLost. NewConsumer checks the options and makes no connection.
//
// The event's id is the header [broker.HeaderID]. A record without it is named by its topic, partition and offset.
func NewConsumer(source string, receive broker.Receive, opts ...kgo.Opt) (*Consumer, error) {
	if receive == nil {
		return nil, errors.New("redokafka: NewConsumer: receive is nil")
	}
	c := &Consumer{source, receive, opts}
	// A client joins its group without being asked. This one has no connection, and only shows its options.
	client, err := kgo.NewClient(append(slices.Clone(opts), kgo.Dialer(noDial), kgo.DialTLSConfig(nil),
		kgo.WithLogger(nil))...)
	if err != nil {
		return nil, fmt.Errorf("redokafka: NewConsumer: %w", err)
	}
	defer client.Close()
	if client.OptValue(kgo.ConsumerGroup) == "" {
		return nil, errors.New("redokafka: NewConsumer: the options have no ConsumerGroup")
	}
	if topics, ok := client.OptValue(kgo.ConsumeTopics).(map[string]*regexp.Regexp); ok && len(topics) == 0 {
		return nil, errors.New("redokafka: NewConsumer: the options have no ConsumeTopics")
	}
	if err := kgo.ValidateOpts(c.options(&run{})...); err != nil {
		return nil, fmt.Errorf("redokafka: NewConsumer: %w", err)
	}
	return c, nil
}

func noDial(context.Context, string, string) (net.Conn, error) { return nil, net.ErrClosed }

// options returns the options of the client of a run.
func (c *Consumer) options(r *run) []kgo.Opt {
	return append(slices.Clone(c.opts), kgo.DisableAutoCommit(), kgo.BlockRebalanceOnPoll(),
		kgo.OnPartitionsRevoked(r.leave), kgo.OnPartitionsLost(r.leave))
}

// Run consumes until ctx ends, and then waits for the handlers that have started. It returns nil then. Before that it
// returns an error that the client does not retry, such as missing rights. The client retries all others, and logs them
// to the logger of kgo.WithLogger.
func (c *Consumer) Run(ctx context.Context) error {
	r := &run{Consumer: c, working: map[partition]*worker{}}
	client, err := kgo.NewClient(c.options(r)...)
	if err != nil {
		return fmt.Errorf("redokafka: %w", err)
	}
	defer client.CloseAllowingRebalance()
	defer r.end(func(partition) bool { return true })
	for {
		fetches := client.PollFetches(ctx)
		if ctx.Err() != nil {
			return nil
		}
		for _, f := range fetches.Errors() {
			if !passing(f.Err) {
				return fmt.Errorf("redokafka: topic %q, partition %d: %w", f.Topic, f.Partition, f.Err)
			}
		}
		fetches.EachPartition(func(p kgo.FetchTopicPartition) {
			if len(p.Records) > 0 {
				r.start(client, partition{p.Topic, p.Partition}, p.Records)
			}
		})
		client.AllowRebalance()
	}
}

// passing reports whether the client continues after the error without help.
func passing(err error) bool {
	_, session := errors.AsType[*kgo.ErrGroupSession](err)
	_, lost := errors.AsType[*kgo.ErrDataLoss](err)
	return session || lost || kerr.IsRetriable(err)
}

// A run is one call of Run.
type run struct {
	*Consumer
	mu      sync.Mutex
	working map[partition]*worker
}

type partition struct {
	topic  string
	number int32
}

// A worker handles the records of one fetch of a partition.
type worker struct {
	stop context.CancelFunc // after the record that is being handled
	done chan struct{}
}

// start gives the records to a worker. The client fetches no more of the partition until the worker ends.
func (r *run) start(client *kgo.Client, p partition, records []*kgo.Record) {
	ctx, stop := context.WithCancel(context.Background())
	w := &worker{stop, make(chan struct{})}
	r.mu.Lock()
	r.working[p] = w
	r.mu.Unlock()
	at := map[string][]int32{p.topic: {p.number}}
	client.PauseFetchPartitions(at)
	go func() {
		defer close(w.done)
		defer stop()
		defer client.ResumeFetchPartitions(at)
		if done := r.handle(ctx, records); done > 0 {
			bounded, cancel := context.WithTimeout(context.Background(), commitTimeout)
			defer cancel()
			// If the commit fails, the records come again, and the inbox handles none of them twice.
			_ = client.CommitRecords(bounded, records[done-1])
		}
	}()
}

const commitTimeout = 10 * time.Second

// leave ends the workers of partitions that another consumer gets.
func (r *run) leave(_ context.Context, _ *kgo.Client, partitions map[string][]int32) {
	r.end(func(p partition) bool { return slices.Contains(partitions[p.topic], p.number) })
}

// end ends the workers of the partitions, and waits for them.
func (r *run) end(of func(partition) bool) {
	var ending []*worker
	r.mu.Lock()
	for p, w := range r.working {
		if of(p) {
			ending = append(ending, w)
			delete(r.working, p)
			w.stop()
		}
	}
	r.mu.Unlock()
	for _, w := range ending {
		<-w.done
	}
}

// handle returns how many records are received, in order. It ends early when ctx ends.
func (r *run) handle(ctx context.Context, records []*kgo.Record) int {
	for done := 0; done < len(records); {
		if ctx.Err() != nil {
			return done
		}
		_, err := r.receive(context.WithoutCancel(ctx), r.event(records[done]))
		if err == nil {
			done++
			continue
		}
		select {
		case <-time.After(broker.Wait(err)):
		case <-ctx.Done():
		}
	}
	return len(records)
}

func (r *run) event(rec *kgo.Record) inbox.Event {
	ev := inbox.Event{Source: r.source, Payload: rec.Value}
	for _, h := range rec.Headers {
		if h.Key == broker.HeaderID {
			ev.ID = string(h.Value)
		}
	}
	if ev.ID == "" {
		ev.ID = fmt.Sprintf("kafka:%s:%d:%d", rec.Topic, rec.Partition, rec.Offset)
	}
	return ev
}
