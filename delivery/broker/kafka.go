package broker

import (
	"context"
	"errors"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/sasl/plain"
	"github.com/twmb/franz-go/pkg/sasl/scram"

	"github.com/belfryhq/belfry/fsm/task/targeturl"
)

// The mechanisms of authentication with Kafka.
const (
	mechanismPlain  = "plain"
	mechanismSHA256 = "scram-sha-256"
	mechanismSHA512 = "scram-sha-512"
)

const (
	kafkaBuffered      = 64 << 20               // bytes of records that wait for one broker
	kafkaMetadataPause = 250 * time.Millisecond // between two look-ups of a partition's new leader
)

// kafkaLink produces idempotently, with the acknowledgement of all in-sync replicas: a record that the client itself
// sends twice is stored once. A further attempt of a task is another record.
type kafkaLink struct {
	life
	client *kgo.Client
}

func openKafka(ctx context.Context, e *endpoint) (link, error) {
	client, err := kgo.NewClient(kafkaOptions(e)...)
	if err != nil {
		return nil, worded(err)
	}
	if err := client.Ping(ctx); err != nil {
		client.Close()
		return nil, e.opening(kafkaFault(err))
	}
	return &kafkaLink{newLife(), client}, nil
}

func kafkaOptions(e *endpoint) []kgo.Opt {
	options := []kgo.Opt{
		kgo.SeedBrokers(e.target.Hosts...), kgo.Dialer(e.connect),
		kgo.ClientID("belfry"), kgo.SoftwareNameAndVersion("belfry", e.cfg.Version), kgo.DisableClientMetrics(),
		kgo.ProducerLinger(0), // records that wait during a request form the next one
		kgo.MaxBufferedBytes(kafkaBuffered), kgo.MetadataMinAge(kafkaMetadataPause), kgo.UnknownTopicRetries(1),
		kgo.ProduceRequestTimeout(e.cfg.ConnectTimeout), kgo.RequestTimeoutOverhead(e.cfg.ConnectTimeout),
	}
	if e.access.User == "" {
		return options
	}
	login := scram.Auth{User: e.access.User, Pass: e.access.Password}
	switch e.access.Mechanism {
	case mechanismSHA256:
		return append(options, kgo.SASL(login.AsSha256Mechanism()))
	case mechanismSHA512:
		return append(options, kgo.SASL(login.AsSha512Mechanism()))
	}
	return append(options, kgo.SASL(plain.Auth{User: e.access.User, Pass: e.access.Password}.AsMechanism()))
}

func (l *kafkaLink) publish(ctx context.Context, t *targeturl.Target, m *message) error {
	record := &kgo.Record{Topic: t.Topic, Key: t.Key, Value: m.payload, Timestamp: m.at}
	record.Headers = make([]kgo.RecordHeader, len(m.headers))
	for i, h := range m.headers {
		record.Headers[i] = kgo.RecordHeader{Key: h.name, Value: []byte(h.value)}
	}
	done := make(chan error, 1)
	l.client.TryProduce(ctx, record, func(_ *kgo.Record, err error) { done <- err })
	select {
	case err := <-done:
		return kafkaFault(err)
	case <-ctx.Done(): // a sent record cannot be recalled
		return ctx.Err()
	}
}

func kafkaFault(err error) error {
	var reply *kerr.Error
	var early *kgo.ErrFirstReadEOF
	switch {
	case err == nil:
		return nil
	case errors.As(err, &early):
		return failed("the broker closed a new connection: it may want TLS, or another login")
	case errors.Is(err, kerr.MessageTooLarge), errors.Is(err, kerr.RecordListTooLarge):
		return hopeless("the message is larger than the broker takes")
	case errors.Is(err, kerr.InvalidTopicException):
		return hopeless("the broker refused: %s", kerr.InvalidTopicException.Message)
	case errors.As(err, &reply):
		return failed("the broker refused: %s", reply.Message)
	case errors.Is(err, kgo.ErrMaxBuffered):
		return failed("too many messages wait for this broker already")
	}
	return err
}

func (l *kafkaLink) close(cause error) {
	l.end(cause)
	l.client.Close()
}
