package redoaws

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strings"
	"sync"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/aws/retry"
	"github.com/aws/aws-sdk-go-v2/service/sqs"
	sqstypes "github.com/aws/aws-sdk-go-v2/service/sqs/types"

	"github.com/redo-go/redo/broker"
)

// A Consumer brings the messages of an SQS queue to an inbox. Create one with [NewConsumer].
type Consumer struct {
	client  *sqs.Client
	queue   string
	source  string
	receive broker.Receive
}

// NewConsumer returns a consumer whose events are of the source. The event's id is the attribute [broker.HeaderID]. A
// message without it is named by its MessageId.
func NewConsumer(client *sqs.Client, queueURL, source string, receive broker.Receive) (*Consumer, error) {
	switch {
	case client == nil:
		return nil, errors.New("redoaws: NewConsumer: the client is nil")
	case queueURL == "":
		return nil, errors.New("redoaws: NewConsumer: the queue's URL is empty")
	case receive == nil:
		return nil, errors.New("redoaws: NewConsumer: receive is nil")
	}
	return &Consumer{client, queueURL, source, receive}, nil
}

// Bounds of the calls to SQS. The first two are the API's maximum.
const (
	batch         = 10
	poll          = 20 * time.Second
	maxVisibility = 12 * time.Hour
	settleTimeout = 10 * time.Second
	pause         = time.Second
)

// Run consumes until ctx ends, and then waits for the handlers that have started. It returns nil then. Before that it
// returns an error of SQS that no repetition mends, such as a missing queue. Other errors of SQS it retries.
//
// It handles ten messages at a time, and one of a FIFO queue. Call Run several times concurrently for more.
func (c *Consumer) Run(ctx context.Context) error {
	in := &sqs.ReceiveMessageInput{
		QueueUrl: &c.queue, MaxNumberOfMessages: batch, WaitTimeSeconds: int32(poll.Seconds()),
		MessageAttributeNames: []string{"All"},
	}
	if strings.HasSuffix(c.queue, ".fifo") {
		// A second message of the group would outlive its visibility while the first is handled.
		in.MaxNumberOfMessages = 1
	}
	for ctx.Err() == nil {
		out, err := c.client.ReceiveMessage(ctx, in)
		switch {
		case err == nil:
			var handling sync.WaitGroup
			for _, msg := range out.Messages {
				handling.Go(func() { c.handle(context.WithoutCancel(ctx), msg) })
			}
			handling.Wait()
		case retry.IsErrorRetryables(retry.DefaultRetryables).IsErrorRetryable(err) == aws.TrueTernary:
			select {
			case <-time.After(pause):
			case <-ctx.Done():
			}
		case ctx.Err() == nil:
			return fmt.Errorf("redoaws: %w", err)
		}
	}
	return nil
}

// handle receives the message, and then deletes it or makes it visible again. If that call fails, the message is
// visible again after the queue's timeout.
func (c *Consumer) handle(ctx context.Context, msg sqstypes.Message) {
	_, err := c.receive(ctx, decode(c.source, msg))
	ctx, cancel := context.WithTimeout(ctx, settleTimeout)
	defer cancel()
	if err == nil {
		_, _ = c.client.DeleteMessage(ctx,
			&sqs.DeleteMessageInput{QueueUrl: &c.queue, ReceiptHandle: msg.ReceiptHandle})
		return
	}
	wait := min(broker.Wait(err), maxVisibility)
	_, _ = c.client.ChangeMessageVisibility(ctx, &sqs.ChangeMessageVisibilityInput{
		QueueUrl: &c.queue, ReceiptHandle: msg.ReceiptHandle, VisibilityTimeout: int32(math.Ceil(wait.Seconds())),
	})
}
