package redoaws

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/sns"
	snstypes "github.com/aws/aws-sdk-go-v2/service/sns/types"
	"github.com/aws/aws-sdk-go-v2/service/sqs"
	sqstypes "github.com/aws/aws-sdk-go-v2/service/sqs/types"
	"github.com/aws/smithy-go"

	"github.com/redo-go/redo/outbox"
	"github.com/redo-go/redo/taxonomy"
)

// An SQS is an [outbox.Publisher] over SQS. Create one with [NewSQS]. It may be used concurrently.
type SQS struct{ client *sqs.Client }

// NewSQS returns a Publisher whose destinations are the URLs of queues.
func NewSQS(client *sqs.Client) (*SQS, error) {
	if client == nil {
		return nil, errors.New("redoaws: NewSQS: the client is nil")
	}
	return &SQS{client}, nil
}

// Publish implements [outbox.Publisher]. It returns nil once SQS has stored the message, also if a FIFO queue had
// stored it before. A message that SQS finds invalid or too large is rejected. Any other error is transient, a missing
// queue and missing rights included.
func (p *SQS) Publish(ctx context.Context, ev outbox.Event) error {
	m, err := encode(ev)
	if err != nil {
		return outbox.Reject(err)
	}
	in := &sqs.SendMessageInput{
		QueueUrl: &ev.Destination, MessageBody: &m.body, MessageGroupId: m.group, MessageDeduplicationId: m.dedup,
		MessageAttributes: make(map[string]sqstypes.MessageAttributeValue, len(m.attributes)),
	}
	for name, value := range m.attributes {
		in.MessageAttributes[name] = sqstypes.MessageAttributeValue{DataType: aws.String("String"), StringValue: &value}
	}
	// The relay retries: one layer is enough.
	_, err = p.client.SendMessage(ctx, in, func(o *sqs.Options) { o.RetryMaxAttempts = 1 })
	return classify(err)
}

// An SNS is an [outbox.Publisher] over SNS. Create one with [NewSNS]. It may be used concurrently.
type SNS struct{ client *sns.Client }

// NewSNS returns a Publisher whose destinations are the ARNs of topics.
func NewSNS(client *sns.Client) (*SNS, error) {
	if client == nil {
		return nil, errors.New("redoaws: NewSNS: the client is nil")
	}
	return &SNS{client}, nil
}

// Publish implements [outbox.Publisher], as [SQS.Publish] does.
func (p *SNS) Publish(ctx context.Context, ev outbox.Event) error {
	m, err := encode(ev)
	if err != nil {
		return outbox.Reject(err)
	}
	in := &sns.PublishInput{
		TopicArn: &ev.Destination, Message: &m.body, MessageGroupId: m.group, MessageDeduplicationId: m.dedup,
		MessageAttributes: make(map[string]snstypes.MessageAttributeValue, len(m.attributes)),
	}
	for name, value := range m.attributes {
		in.MessageAttributes[name] = snstypes.MessageAttributeValue{DataType: aws.String("String"), StringValue: &value}
	}
	_, err = p.client.Publish(ctx, in, func(o *sns.Options) { o.RetryMaxAttempts = 1 })
	return classify(err)
}

// classify separates the errors that a repetition can't mend from the others.
func classify(err error) error {
	if err == nil {
		return nil
	}
	if api, ok := errors.AsType[smithy.APIError](err); ok {
		switch strings.TrimPrefix(api.ErrorCode(), "AWS.SimpleQueueService.") {
		case "InvalidMessageContents", "InvalidParameterValue", // of SQS
			"InvalidParameter", "ParameterValueInvalid": // of SNS
			return outbox.Reject(fmt.Errorf("redoaws: %w", err))
		}
	}
	dial, ok := errors.AsType[*net.OpError](err)
	switch {
	case ok && dial.Op == "dial": // with the look-up of the name
		return outbox.NotSent(fmt.Errorf("redoaws: %w: %w", err, taxonomy.Unavailable))
	case errors.Is(err, context.Canceled):
		return err
	case errors.Is(err, context.DeadlineExceeded):
		return fmt.Errorf("redoaws: %w: %w", err, taxonomy.Timeout)
	default:
		return fmt.Errorf("redoaws: %w: %w", err, taxonomy.Unavailable)
	}
}
