package broker

import (
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/belfryhq/belfry/fsm/fsmpb"
	"github.com/belfryhq/belfry/internal/assert"
)

// kafka is a cluster of fake brokers, which speak the protocol and keep records, but are not Kafka.
type kafka struct {
	t       testing.TB
	options []kfake.Opt
	*kfake.Cluster
}

func newKafka(t testing.TB, options ...kfake.Opt) *kafka {
	t.Helper()
	ports := freePorts(t, 3)
	k := &kafka{t: t, options: append([]kfake.Opt{
		kfake.Ports(ports...), kfake.DataDir(t.TempDir()), kfake.SeedTopics(3, "orders"),
	}, options...)}
	k.start()
	t.Cleanup(func() { k.Close() })
	return k
}

func (k *kafka) start() {
	c, err := kfake.NewCluster(k.options...)
	assert.NoError(k.t, err)
	k.Cluster = c
}

func (k *kafka) restart() {
	k.Close()
	k.start()
}

func (k *kafka) url(scheme, path string) string {
	return scheme + "://" + strings.Join(k.ListenAddrs(), ",") + path
}

func readKafka(t *testing.T, k *kafka, topic string, options ...kgo.Opt) []*kgo.Record {
	t.Helper()
	client, err := kgo.NewClient(append(options, kgo.SeedBrokers(k.ListenAddrs()...), kgo.ConsumeTopics(topic),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()), kgo.FetchMaxWait(100*time.Millisecond))...)
	assert.NoError(t, err)
	defer client.Close()
	ends := kafkaEnds(t, client, topic)
	var out []*kgo.Record
	for int64(len(out)) < ends {
		fetches := client.PollFetches(t.Context())
		assert.NoError(t, fetches.Err())
		out = append(out, fetches.Records()...)
	}
	return out
}

// kafkaEnds returns the number of records in all partitions of a topic.
func kafkaEnds(t *testing.T, client *kgo.Client, topic string) (n int64) {
	t.Helper()
	req := kmsg.NewPtrListOffsetsRequest()
	rt := kmsg.NewListOffsetsRequestTopic()
	rt.Topic = topic
	for p := range int32(3) {
		rp := kmsg.NewListOffsetsRequestTopicPartition()
		rp.Partition, rp.Timestamp = p, -1
		rt.Partitions = append(rt.Partitions, rp)
	}
	req.Topics = append(req.Topics, rt)
	for _, shard := range client.RequestSharded(t.Context(), req) {
		if shard.Err != nil {
			t.Fatal(shard.Err)
		}
		for _, p := range shard.Resp.(*kmsg.ListOffsetsResponse).Topics[0].Partitions {
			n += p.Offset
		}
	}
	return n
}

func asReceived(records []*kgo.Record) []received {
	out := make([]received, len(records))
	for i, r := range records {
		out[i] = received{map[string]string{}, r.Value}
		for _, h := range r.Headers {
			out[i].headers[h.Key] = string(h.Value)
		}
	}
	return out
}

func TestKafkaStream(t *testing.T) {
	k := newKafka(t)
	stream(t, newPublisher(t, permit(t, k.url("kafka", "/orders"))), streamed{
		url: k.url("kafka", "/orders"), restart: k.restart, patient: true, ce: "ce_",
		read: func() []received { return asReceived(readKafka(t, k, "orders")) },
	})
}

// cutter makes connections that break at their next write once the cutter is armed.
type cutter struct {
	armed atomic.Bool
	cut   atomic.Int32
}

func (c *cutter) listen(network, address string) (net.Listener, error) {
	l, err := net.Listen(network, address)
	return cutListener{l, c}, err
}

type cutListener struct {
	net.Listener
	cutter *cutter
}

func (l cutListener) Accept() (net.Conn, error) {
	conn, err := l.Listener.Accept()
	return cutConn{conn, l.cutter}, err
}

type cutConn struct {
	net.Conn
	cutter *cutter
}

func (c cutConn) Write(b []byte) (int, error) {
	if c.cutter.armed.CompareAndSwap(true, false) {
		c.cutter.cut.Add(1)
		return 0, errors.Join(errors.New("cut"), c.Close())
	}
	return c.Conn.Write(b)
}

// TestKafkaRepeatsOfTheClient loses the reply to a written record, so that the client sends the record again. It must
// be stored once.
func TestKafkaRepeatsOfTheClient(t *testing.T) {
	c := &cutter{}
	k := newKafka(t, kfake.ListenFn(c.listen))
	p := newPublisher(t, permit(t, k.url("kafka", "")))
	k.ControlKey(int16(kmsg.Produce), func(kmsg.Request) (kmsg.Response, error, bool) {
		c.armed.Store(c.cut.Load() == 0) // armed at the first request only
		return nil, nil, false
	})
	if out := p.Deliver(t.Context(), attemptOf(k.url("kafka", "/orders"))); !out.Delivered {
		t.Fatalf("%+v", out)
	}
	if n := len(readKafka(t, k, "orders")); n != 1 || c.cut.Load() != 1 {
		t.Errorf("%d records, %d cuts", n, c.cut.Load())
	}
}

func TestKafkaKey(t *testing.T) {
	k := newKafka(t)
	p := newPublisher(t, permit(t, k.url("kafka", "")))
	for i := range 5 {
		a := attemptOf(k.url("kafka", "/orders?key=customer%207"), func(t *fsmpb.Task) { t.Fence = uint64(i) })
		if out := p.Deliver(t.Context(), a); !out.Delivered {
			t.Fatalf("%+v", out)
		}
	}
	records := readKafka(t, k, "orders")
	for _, r := range records {
		if string(r.Key) != "customer 7" || r.Partition != records[0].Partition {
			t.Errorf("key %q in partition %d", r.Key, r.Partition)
		}
	}
	assert.Equal(t, len(records), 5, "records")
}

func TestKafkaFailures(t *testing.T) {
	k := newKafka(t)
	p := newPublisher(t, permit(t, k.url("kafka", "")))
	answer := func(code int16) {
		k.ControlKey(int16(kmsg.Produce), func(r kmsg.Request) (kmsg.Response, error, bool) {
			resp := r.ResponseKind().(*kmsg.ProduceResponse)
			for _, topic := range r.(*kmsg.ProduceRequest).Topics {
				rt := kmsg.NewProduceResponseTopic()
				rt.Topic, rt.TopicID = topic.Topic, topic.TopicID
				for _, partition := range topic.Partitions {
					rp := kmsg.NewProduceResponseTopicPartition()
					rp.Partition, rp.ErrorCode = partition.Partition, code
					rt.Partitions = append(rt.Partitions, rp)
				}
				resp.Topics = append(resp.Topics, rt)
			}
			return resp, nil, true
		})
	}
	out := p.Deliver(t.Context(), attemptOf(k.url("kafka", "/none")))
	if out.Delivered || out.Permanent || out.Error != "the broker refused: UNKNOWN_TOPIC_OR_PARTITION" {
		t.Errorf("no topic: %+v", out)
	}
	answer(kerr.MessageTooLarge.Code)
	out = p.Deliver(t.Context(), attemptOf(k.url("kafka", "/orders")))
	if !out.Permanent || out.Error != "the message is larger than the broker takes" {
		t.Errorf("too large: %+v", out)
	}
	answer(kerr.TopicAuthorizationFailed.Code)
	out = p.Deliver(t.Context(), attemptOf(k.url("kafka", "/orders")))
	if out.Delivered || out.Permanent || out.Error != "the broker refused: TOPIC_AUTHORIZATION_FAILED" {
		t.Errorf("not allowed: %+v", out)
	}
}

// TestKafkaOutage checks that the attempt's error names the obstacle while a connected client itself searches for the
// brokers.
func TestKafkaOutage(t *testing.T) {
	k := newKafka(t)
	p := newPublisher(t, permit(t, k.url("kafka", "")))
	url := k.url("kafka", "/orders")
	if out := p.Deliver(t.Context(), attemptOf(url)); !out.Delivered {
		t.Fatalf("%+v", out)
	}
	k.Close()
	a := attemptOf(url)
	a.Timeout = time.Second
	out := p.Deliver(t.Context(), a)
	if want := "timed out after 1s (waiting for the broker's confirmation; last: connection refused)"; out.Error != want {
		t.Errorf("%+v", out)
	}
}

func TestKafkaLogin(t *testing.T) {
	folder := t.TempDir()
	certificates(t, folder)
	pair, err := tls.LoadX509KeyPair(filepath.Join(folder, "cert.pem"), filepath.Join(folder, "key.pem"))
	assert.NoError(t, err)
	for _, mechanism := range []string{mechanismPlain, mechanismSHA256, mechanismSHA512} {
		t.Run(mechanism, func(t *testing.T) {
			k := newKafka(t, kfake.EnableSASL(), kfake.Superuser(strings.ToUpper(mechanism), "belfry", "secret"),
				kfake.TLS(&tls.Config{Certificates: []tls.Certificate{pair}}))
			entry := fmt.Sprintf("%s: {user: belfry, password: %%s, mechanism: %s, ca: %s/ca.pem}", k.url("kafkas", ""), mechanism, folder)
			p := newPublisher(t, withFile(t, fmt.Sprintf(entry, "secret")))
			if out := p.Deliver(t.Context(), attemptOf(k.url("kafkas", "/orders"))); !out.Delivered {
				t.Errorf("%+v", out)
			}
			p = newPublisher(t, withFile(t, fmt.Sprintf(entry, "wrong")))
			out := p.Deliver(t.Context(), attemptOf(k.url("kafkas", "/orders")))
			if out.Delivered || !strings.Contains(out.Error, "closed") {
				t.Errorf("a wrong password: %+v", out)
			}
		})
	}
}
