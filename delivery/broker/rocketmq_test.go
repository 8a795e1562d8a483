package broker

import (
	"bytes"
	"fmt"
	"net"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/belfryhq/belfry/fsm/fsmpb"
	"github.com/belfryhq/belfry/fsm/task"
	"github.com/belfryhq/belfry/internal/assert"
	"github.com/belfryhq/belfry/internal/memnet"
)

// rocketCluster is a name server and brokers in memory. It notes the messages that the brokers got.
type rocketCluster struct {
	name    string   // the name server's address
	brokers []string // the brokers' addresses

	mu       sync.Mutex
	route    string // the answer to requests for a route; empty: the topic is unknown
	asked    int    // requests for a route
	got      []*rocketAnswer
	places   []string // broker and queue of each message
	answered int      // the code of the brokers' answers
}

func newRocketCluster(t *testing.T, network *memnet.Network, brokers int) *rocketCluster {
	c := &rocketCluster{}
	c.name = listenIn(t, network, serveRocketMQ(func(*rocketAnswer) (int, string) {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.asked++
		if c.route == "" {
			return rocketUnknownTopic, ""
		}
		return rocketDone, c.route
	}))
	for i := range brokers {
		c.brokers = append(c.brokers, listenIn(t, network, serveRocketMQ(func(request *rocketAnswer) (int, string) {
			c.mu.Lock()
			defer c.mu.Unlock()
			c.got, c.places = append(c.got, request), append(c.places, fmt.Sprintf("%d/%s", i, request.Fields["e"]))
			return c.answered, ""
		})))
	}
	c.route = rocketRouteTo(c.brokers...)
	return c
}

func (c *rocketCluster) url() string { return "rocketmq://" + c.name + "/orders" }

func (c *rocketCluster) setRoute(route string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.route = route
}

func deliverWell(t *testing.T, p *Publisher, url string) {
	t.Helper()
	assert.Equal(t, p.Deliver(t.Context(), attemptOf(url)), task.Outcome{Delivered: true})
}

func TestRocketMQMessage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		network := memnet.New()
		c := newRocketCluster(t, network, 1)
		p := newPublisher(t, in(network), withFile(t, fmt.Sprintf("rocketmq://%s: {user: me, password: secret}", c.name)))
		url := c.url() + "?tag=paid&keys=1042+eu"
		assert.Equal(t, p.Deliver(t.Context(), attemptOf(url, func(t *fsmpb.Task) {
			t.Spec.Target.Headers = []*fsmpb.Header{{Name: "TAGS", Value: "forged"}, {Name: "x", Value: `"<ü>"`}}
		})), task.Outcome{Delivered: true})
		m := c.got[0]
		assert.Equal(t, string(m.body), `{"order": 1042}`)
		properties := map[string]string{}
		for pair := range strings.SplitSeq(strings.TrimSuffix(m.Fields["i"], "\x02"), "\x02") {
			name, value, _ := strings.Cut(pair, "\x01")
			properties[name] = value
		}
		want := map[string]string{
			"UNIQ_KEY": "w-order-1042", "TAGS": "paid", "KEYS": "1042 eu", "tags": "forged", "x": `"<ü>"`,
			"webhook-id": "w-order-1042", "belfry-attempt": "1", "belfry-fence": "77", "belfry-due": "2023-11-14T22:13:20.123Z",
			"CE_specversion": "1.0", "CE_id": "w-order-1042", "CE_type": "belfry.task.fired", "CE_source": "/v1/queues/orders",
			"CE_subject": "order-1042", "CE_time": "2023-11-14T22:13:20.123Z", "content-type": "application/json",
		}
		assert.Equal(t, cmp.Diff(want, properties), "", "(-want +got)")
		got := m.Fields["Signature"]
		delete(m.Fields, "Signature")
		(&rocketConn{access: &access{User: "me", Password: "secret"}}).sign(m.Fields, m.body)
		assert.Equal(t, got, m.Fields["Signature"])
	})
}

// TestRocketMQSignature compares a signature with one of the server's own library (AclUtils of RocketMQ 5.1.4).
func TestRocketMQSignature(t *testing.T) {
	fields := map[string]string{"topic": "orders", "b": "x", "Z": "ü"}
	(&rocketConn{access: &access{User: "belfry-key", Password: "pass word"}}).sign(fields, []byte("body"))
	assert.Equal(t, fields["Signature"], "+zVIlIssU9QrGl9Kw997yIeGjgk=")
}

func TestRocketMQAnswers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		network := memnet.New()
		c := newRocketCluster(t, network, 1)
		p := newPublisher(t, in(network), permit(t, "rocketmq://"+c.name))
		const disk = "the broker has the message, but its disk did not confirm it in time"
		const replica = "the broker has the message, but no replica confirmed it in time"
		for code, want := range map[int]task.Outcome{
			rocketDone:        {Delivered: true},
			rocketDiskLate:    {Error: disk},
			rocketNoReplica:   {Error: replica},
			rocketReplicaLate: {Error: replica},
			rocketIllegal:     {Permanent: true, Error: "the broker refused: no way"},
			1:                 {Error: "the broker refused: no way"},
			2:                 {Error: "the broker refused: no way"},
		} {
			c.answered = code
			assert.Equal(t, p.Deliver(t.Context(), attemptOf(c.url())), want, "%d", code)
		}
		const none = "no broker takes messages of topic \"orders\" now"
		const noRoute = "the name server's answer is no route of a topic"
		for route, says := range map[string]string{
			"": `no broker has topic "orders"`, "{}": none, "[]": noRoute, "{": noRoute,
			strings.ReplaceAll(c.route, `"perm":6`, `"perm":4`):                                      none,
			strings.ReplaceAll(c.route, `"writeQueueNums":2`, `"writeQueueNums":0`):                  none,
			strings.ReplaceAll(c.route, `"0":`, `"2":`):                                              none,
			strings.ReplaceAll(c.route, `{"brokerName":"b0","perm"`, `{"brokerName":"other","perm"`): none,
		} {
			c.setRoute(route)
			other := newPublisher(t, in(network), permit(t, "rocketmq://"+c.name))
			assert.Equal(t, other.Deliver(t.Context(), attemptOf(c.url())), task.Outcome{Error: says}, "%s", route)
		}
	})
}

// TestRocketMQRoutes checks that the queues of all brokers take turns, that a broker that is down loses its turn, and
// that a route is asked for after half a minute and after a failure.
func TestRocketMQRoutes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		network := memnet.New()
		c := newRocketCluster(t, network, 2)
		down := "127.0.0.1:1"
		url := "rocketmq://" + down + "," + c.name + "/orders"
		p := newPublisher(t, in(network), permit(t, url))
		for range 4 {
			deliverWell(t, p, url)
		}
		seen := map[string]bool{}
		for _, place := range c.places {
			seen[place] = true
		}
		assert.Equal(t, len(seen), 4, "queues: %v", c.places)
		assert.Equal(t, c.asked, 2, "one for the link, one for the topic")

		renewed := func(route string) {
			c.setRoute(route)
			time.Sleep(rocketRouteTime + time.Second)
			deliverWell(t, p, url)
			synctest.Wait()
		}
		renewed(rocketRouteTo(down, c.brokers[1]))
		assert.Equal(t, c.asked, 3)
		c.places = nil
		for range 4 {
			deliverWell(t, p, url)
		}
		for _, place := range c.places {
			assert.Equal(t, place[:2], "1/")
		}

		renewed(rocketRouteTo(down))
		asked := c.asked
		c.setRoute(rocketRouteTo(c.brokers...))
		assert.Equal(t, p.Deliver(t.Context(), attemptOf(url)), task.Outcome{Error: "connection refused"})
		synctest.Wait()
		deliverWell(t, p, url)
		assert.Equal(t, c.asked, asked+1)
	})
}

// TestRocketMQNameServerHangs checks that a name server that hangs costs its part of the time, and none once another has
// answered.
func TestRocketMQNameServerHangs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		network := memnet.New()
		hung := listenIn(t, network, hang)
		c := newRocketCluster(t, network, 1)
		url := "rocketmq://" + hung + "," + c.name + "/orders"
		p := newPublisher(t, in(network), permit(t, url))
		begun := time.Now()
		deliverWell(t, p, url)
		if took := time.Since(begun); took != 0 && took != 5*time.Second { // by the order of the addresses
			t.Errorf("%v", took)
		}
		begun = time.Now()
		deliverWell(t, p, url[:strings.LastIndex(url, "/")]+"/others")
		assert.Equal(t, time.Since(begun), 0)
	})
}

// TestRocketMQServersClose checks that a lost connection fails only its attempts, and is opened again by the next.
func TestRocketMQServersClose(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		network := memnet.New()
		lose := true
		broker := listenIn(t, network, func(conn net.Conn) {
			serveRocketMQ(func(*rocketAnswer) (int, string) {
				if lose {
					conn.Close()
				}
				return rocketDone, ""
			})(conn)
		})
		var closed bool
		name := listenIn(t, network, func(conn net.Conn) {
			serveRocketMQ(func(*rocketAnswer) (int, string) {
				if closed {
					conn.Close()
				}
				return rocketDone, rocketRouteTo(broker)
			})(conn)
		})
		url := "rocketmq://" + name + "/orders"
		p := newPublisher(t, in(network), permit(t, url))
		out := p.Deliver(t.Context(), attemptOf(url))
		assert.Equal(t, out, task.Outcome{Error: "the connection was lost before the broker confirmed: the broker closed the connection"})
		lose = false
		deliverWell(t, p, url)
		closed = true // no name server answers: the old route is good enough
		for range 3 {
			time.Sleep(rocketRouteTime + time.Second)
			deliverWell(t, p, url)
			synctest.Wait()
		}
	})
}

// FuzzRocketMQ checks that no answer of a server makes a node panic, or take more memory than the largest answer.
func FuzzRocketMQ(f *testing.F) {
	frame, err := rocketFrame(rocketHead{Flag: 1, Opaque: 1}, []byte(rocketRouteTo("127.0.0.1:1")))
	assert.NoError(f, err)
	f.Add(frame)
	f.Add([]byte("HTTP/1.1 400 Bad Request\r\n\r\n"))
	f.Add([]byte("\x00\x00\x00\x04\x00\x00\x00\x00"))
	f.Add([]byte("\x00\x00\x00\x06\x00\x00\x00\x02{}"))
	f.Add([]byte("\x00\x00\x00\x08\x00\x00\x00\x04null"))
	f.Fuzz(func(t *testing.T, data []byte) {
		a, err := readRocketAnswer(bytes.NewReader(data))
		if err != nil {
			return
		}
		if _, err := brokersIn(a, "t"); err == nil && a.Code != rocketDone {
			t.Errorf("a route of code %d", a.Code)
		}
		assert.Equal(t, rocketFault(a) == nil, a.Code == rocketDone)
	})
}
