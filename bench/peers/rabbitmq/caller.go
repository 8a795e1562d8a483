package rabbitmq

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/belfryhq/belfry/bench/subject"
)

const (
	callersPerConnection = 64
	prefetch             = 2000 // messages in flight to a consumer, the limit of a quorum queue
	ackEach              = 200  // most messages acknowledged at once
)

type connection struct {
	conn   *amqp.Connection
	broker string // address
	delays *delays
}

func (c *connection) caller() (subject.Caller, error) {
	channel, err := c.conn.Channel()
	if err != nil {
		return nil, err
	}
	if err := channel.Confirm(false); err != nil {
		return nil, errors.Join(err, channel.Close())
	}
	return &caller{c, channel}, nil
}

type caller struct {
	*connection
	channel *amqp.Channel
}

func (c *caller) Schedule(ctx context.Context, task subject.Task) error {
	return c.ScheduleBatch(ctx, []subject.Task{task})
}

func (c *caller) ScheduleBatch(ctx context.Context, tasks []subject.Task) error {
	confirms := make([]*amqp.DeferredConfirmation, len(tasks))
	for i, task := range tasks {
		confirm, err := c.publish(ctx, task)
		if err != nil {
			return err
		}
		confirms[i] = confirm
	}
	for _, confirm := range confirms {
		confirmed, err := confirm.WaitContext(ctx)
		if err != nil {
			return err
		}
		if !confirmed {
			return errors.New("the server did not take a task")
		}
	}
	return nil
}

// publish sets the message's time-to-live or delay to the milliseconds until the task is due, rounded up.
func (c *caller) publish(ctx context.Context, task subject.Task) (*amqp.DeferredConfirmation, error) {
	wait := max(0, time.Until(task.Due)+time.Millisecond-1).Milliseconds()
	message := amqp.Publishing{MessageId: task.ID, Body: task.Payload, DeliveryMode: amqp.Persistent}
	if c.delays.setsDelay() {
		message.Headers = amqp.Table{"x-delay": wait}
		return c.channel.PublishWithDeferredConfirmWithContext(ctx, exchange, ready, false, false, message)
	}
	queue, err := c.delays.queue(c.channel, task.Due)
	if err != nil {
		return nil, err
	}
	message.Expiration = strconv.FormatInt(wait, 10)
	return c.channel.PublishWithDeferredConfirmWithContext(ctx, "", queue, false, false, message)
}

// Consume acknowledges many messages at once when many arrive.
func (c *caller) Consume(ctx context.Context, got func(id string, at time.Time)) error {
	conn := c.conn
	if c.delays.intake != "" {
		direct, err := dial(c.broker)
		if err != nil {
			return err
		}
		defer func() { _ = direct.Close() }() // an error would not matter any more
		conn = direct
	}
	channel, err := conn.Channel()
	if err != nil {
		return err
	}
	if err := channel.Qos(prefetch, 0, false); err != nil {
		return errors.Join(err, channel.Close())
	}
	messages, err := channel.Consume(ready, "", false, false, false, false, nil)
	if err == nil {
		err = receive(ctx, messages, got)
	}
	return errors.Join(err, channel.Close())
}

// receive takes all waiting messages, acknowledges them together, and waits for more.
func receive(ctx context.Context, messages <-chan amqp.Delivery, got func(id string, at time.Time)) error {
	for {
		select {
		case <-ctx.Done():
			return nil
		case message, ok := <-messages:
			if err := take(message, ok, got); err != nil {
				return err
			}
			last, err := takeMore(message, messages, got)
			if err == nil {
				err = last.Ack(true) // acknowledges all earlier messages too
			}
			if err != nil {
				return err
			}
		}
	}
}

// takeMore takes further waiting messages without blocking, and returns the last one.
func takeMore(
	last amqp.Delivery, messages <-chan amqp.Delivery, got func(id string, at time.Time),
) (amqp.Delivery, error) {
	for range ackEach - 1 {
		select {
		case message, ok := <-messages:
			if err := take(message, ok, got); err != nil {
				return last, err
			}
			last = message
		default:
			return last, nil
		}
	}
	return last, nil
}

func take(message amqp.Delivery, ok bool, got func(id string, at time.Time)) error {
	if !ok {
		return errors.New("the channel of a consumer was closed")
	}
	at := time.Now()
	if message.MessageId == "" {
		return fmt.Errorf("a message without an id: %.40q", message.Body)
	}
	got(message.MessageId, at)
	return nil
}

// Close closes the channel. A connection that is already closed is no error: the server may have been killed.
func (c *caller) Close() error {
	if err := c.channel.Close(); !errors.Is(err, amqp.ErrClosed) {
		return err
	}
	return nil
}
