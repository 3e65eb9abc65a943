// Package redoaws brings an outbox's events to Amazon SQS and SNS, and the messages of an SQS queue to an inbox.
//
//	publisher, err := redoaws.NewSQS(sqs.NewFromConfig(cfg)) // or NewSNS: for outbox.NewRelay
//
//	consumer, err := redoaws.NewConsumer(sqs.NewFromConfig(cfg), queueURL, "shop", receive)
//	err = consumer.Run(ctx)
//
// # Producer
//
// An event's Destination is a queue's URL, or a topic's ARN. The event's id, type and header are message
// attributes. Several values of one name are joined by ", ". AWS allows ten attributes, so an event may have eight
// names in its header, or nine without a type. A payload that is no text in the sense of SQS, or is empty, is sent
// in base64. The attribute [Encoding] then reports that.
//
// A name that ends in ".fifo" is a FIFO queue or topic. The event's id is the deduplication id, with which AWS
// drops repetitions for five minutes. The ordering key is the message group. Without one each event is a separate
// group. An id or a key that AWS does not take, such as one of more than 128 characters, is replaced by its
// SHA-256. The attribute keeps the whole id. Standard queues and topics do not deduplicate. In both cases the
// inbox of the consumer remembers the id for days.
//
// # Consumer
//
// A message is deleted after Receive has returned nil. After an error it is visible again after the inbox's
// RetryAfter, in whole seconds. In a FIFO queue the message group waits until then. The queue's visibility timeout
// should be longer than the inbox's HandlerTimeout. Otherwise a message can come a second time while it is handled,
// and the inbox refuses it.
//
// Give the queue a redrive policy with a high maxReceiveCount, or none. The inbox counts attempts and keeps dead
// letters. The queue's own dead letters are for messages that the inbox refuses: see [broker.Refused].
//
// A queue that is subscribed to a topic needs raw message delivery. Otherwise the payload is SNS's own JSON, and the
// id is not the event's.
//
// # Tested with
//
// fauxqs, an emulator of SQS and SNS. It has not been tested with AWS itself. The emulator does not check the
// characters of ids, the number of attributes, or access rights. The tests check these on the request, or with
// responses from AWS's documentation.
package redoaws
