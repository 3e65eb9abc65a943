package main

import (
	"context"
	"time"

	"github.com/ThreeDotsLabs/watermill"
	"github.com/ThreeDotsLabs/watermill-sql/v4/pkg/sql"
	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/jackc/pgx/v5"
)

type watermillQueue struct {
	p     place
	batch int
}

const topic = "orders"

func openWatermill(batch int) func(context.Context, place) (queue, error) {
	return func(ctx context.Context, p place) (queue, error) {
		q := watermillQueue{p, batch}
		s, err := q.subscriber()
		if err != nil {
			return nil, err
		}
		return q, s.SubscribeInitialize(topic)
	}
}

func (q watermillQueue) schema() sql.DefaultPostgreSQLSchema {
	return sql.DefaultPostgreSQLSchema{
		SubscribeBatchSize:        q.batch,
		GeneratePayloadType:       func(string) string { return "BYTEA" },
		GenerateMessagesTableName: func(string) string { return `"messages"` },
	}
}

func (q watermillQueue) subscriber() (*sql.Subscriber, error) {
	return sql.NewSubscriber(sql.BeginnerFromPgx(q.p.pool), sql.SubscriberConfig{
		SchemaAdapter: q.schema(), OffsetsAdapter: sql.DefaultPostgreSQLOffsetsAdapter{},
		PollInterval: 10 * time.Millisecond, InitializeSchema: true,
	}, watermill.NopLogger{})
}

func (q watermillQueue) publish(tx pgx.Tx, messages ...*message.Message) error {
	p, err := sql.NewPublisher(sql.TxFromPgx(tx), sql.PublisherConfig{SchemaAdapter: q.schema()}, watermill.NopLogger{})
	if err != nil {
		return err
	}
	return p.Publish(topic, messages...)
}

func (q watermillQueue) enqueue(_ context.Context, tx pgx.Tx, body []byte) error {
	return q.publish(tx, message.NewMessage(watermill.NewUUID(), body))
}

func (q watermillQueue) fill(ctx context.Context, n int) error {
	for n > 0 {
		many := make([]*message.Message, min(n, 1000))
		for i := range many {
			many[i] = message.NewMessage(watermill.NewUUID(), make([]byte, bodySize))
		}
		if err := pgx.BeginFunc(ctx, q.p.pool, func(tx pgx.Tx) error { return q.publish(tx, many...) }); err != nil {
			return err
		}
		n -= len(many)
	}
	return nil
}

func (q watermillQueue) work(ctx context.Context, deliver func([]byte)) error {
	s, err := q.subscriber()
	if err != nil {
		return err
	}
	defer func() { _ = s.Close() }()
	messages, err := s.Subscribe(ctx, topic)
	if err != nil {
		return err
	}
	for m := range messages {
		deliver(m.Payload)
		m.Ack()
	}
	return nil
}
