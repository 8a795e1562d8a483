package nats

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/belfryhq/belfry/bench/subject"
)

const (
	headerSchedule  = "Nats-Schedule"
	headerTarget    = "Nats-Schedule-Target"
	headerScheduler = "Nats-Scheduler" // on a scheduled message: the subject on which it waited

	consumerName   = "bench"
	pull           = 1000  // messages in flight to a consumer
	unacknowledged = 20000 // largest number of unacknowledged messages
)

type caller struct {
	js       jetstream.JetStream
	payloads *sync.Map
}

// message returns a message that waits on the task's subject. It replaces a message that waits there already.
func message(id string, at time.Time, payload []byte) *nats.Msg {
	return &nats.Msg{Subject: waiting + id, Data: payload, Header: nats.Header{
		headerSchedule: {"@at " + at.UTC().Format(time.RFC3339Nano)}, headerTarget: {due},
	}}
}

func (c *caller) Schedule(ctx context.Context, task subject.Task) error {
	_, err := c.js.PublishMsg(ctx, message(task.ID, task.Due, task.Payload))
	if err == nil {
		c.payloads.Store(task.ID, task.Payload)
	}
	return err
}

func (c *caller) ScheduleBatch(ctx context.Context, tasks []subject.Task) error {
	acks := make([]jetstream.PubAckFuture, len(tasks))
	for i, task := range tasks {
		ack, err := c.js.PublishMsgAsync(message(task.ID, task.Due, task.Payload))
		if err != nil {
			return err
		}
		acks[i] = ack
	}
	for i, ack := range acks {
		select {
		case <-ack.Ok():
			c.payloads.Store(tasks[i].ID, tasks[i].Payload)
		case err := <-ack.Err():
			return err
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return nil
}

// Touch publishes the task again.
func (c *caller) Touch(ctx context.Context, id string, at time.Time) error {
	payload, ok := c.payloads.Load(id)
	if !ok {
		return fmt.Errorf("task %s is not there", id)
	}
	_, err := c.js.PublishMsg(ctx, message(id, at, payload.([]byte)))
	return err
}

// Cancel purges the task's subject with the protocol's own request. The client's method does not report whether the
// subject had a message.
func (c *caller) Cancel(ctx context.Context, id string) error {
	request, err := json.Marshal(map[string]string{"filter": waiting + id})
	if err != nil {
		return err
	}
	reply, err := c.js.Conn().RequestWithContext(ctx, "$JS.API.STREAM.PURGE."+streamName, request)
	if err != nil {
		return err
	}
	return c.purged(id, reply.Data)
}

func (c *caller) purged(id string, reply []byte) error {
	var answer struct {
		Error  *jetstream.APIError `json:"error"`
		Purged int                 `json:"purged"`
	}
	if err := json.Unmarshal(reply, &answer); err != nil {
		return err
	}
	if answer.Error != nil {
		return answer.Error
	}
	if answer.Purged == 0 {
		return fmt.Errorf("task %s is not there", id)
	}
	c.payloads.Delete(id)
	return nil
}

// Consume pulls due messages.
func (c *caller) Consume(ctx context.Context, got func(id string, at time.Time)) error {
	consumer, err := c.js.CreateOrUpdateConsumer(ctx, streamName, jetstream.ConsumerConfig{
		Durable: consumerName, FilterSubject: due, AckPolicy: jetstream.AckExplicitPolicy, MaxAckPending: unacknowledged,
	})
	if err != nil {
		return subject.Ended(ctx, err)
	}
	failed := make(chan error, 1)
	fail := func(err error) {
		select {
		case failed <- err:
		default: // the first error is reported
		}
	}
	consuming, err := consumer.Consume(func(msg jetstream.Msg) {
		if err := c.receive(msg, got); err != nil {
			fail(err)
		}
	}, jetstream.PullMaxMessages(pull), jetstream.ConsumeErrHandler(func(_ jetstream.ConsumeContext, err error) {
		if errors.Is(err, jetstream.ErrConsumerDeleted) || errors.Is(err, jetstream.ErrBadRequest) {
			fail(err) // the consumer recovers from all other errors by itself, such as a change of leader
		}
	}))
	if err != nil {
		return err
	}
	select {
	case <-ctx.Done():
		err = nil
	case err = <-failed:
	}
	consuming.Stop()
	<-consuming.Closed()
	return errors.Join(err, c.js.Conn().Flush()) // sends the last acknowledgements
}

func (c *caller) receive(msg jetstream.Msg, got func(id string, at time.Time)) error {
	at := time.Now()
	id, ok := strings.CutPrefix(msg.Headers().Get(headerScheduler), waiting)
	if !ok {
		return fmt.Errorf("a message on %s without %s", msg.Subject(), headerScheduler)
	}
	got(id, at)
	c.payloads.Delete(id)
	return msg.Ack()
}

// Close leaves the shared connection open.
func (*caller) Close() error { return nil }
