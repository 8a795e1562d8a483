package broker

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/belfryhq/belfry/fsm/task/targeturl"
)

// Codes of RocketMQ's requests and answers.
const (
	rocketAskRoute = 105 // a request to a name server for a topic's brokers
	rocketSend     = 310 // a message, in the form with short names of fields

	rocketDone         = 0
	rocketDiskLate     = 10
	rocketNoReplica    = 11
	rocketReplicaLate  = 12
	rocketIllegal      = 13
	rocketUnknownTopic = 17
)

const (
	rocketRouteTime = 30 * time.Second // after which a route is asked for again
	rocketWritable  = 2                // the bit of a queue's permission to write
	rocketMaster    = "0"              // the id of the broker that takes writes among those of one name
)

// rocketEmpty is the body of a message without a payload, as in CloudEvents' library for Java: no broker takes an empty
// one.
const rocketEmpty = "\x00"

// rocketLink sends messages to the brokers that a name server names for a topic. It has one connection to each server,
// for all attempts, and opens the connections when they are needed.
type rocketLink struct {
	life
	endpoint *endpoint
	turn     atomic.Uint32 // picks the queues of a topic in turn
	answered atomic.Uint32 // the number of the name server that answered last

	mu      sync.Mutex
	servers map[string]*rocketServer // by address: name servers and brokers
	routes  map[string]*rocketRoute  // by topic
}

// rocketServer is a place for the connection to one server.
type rocketServer struct {
	mu   sync.Mutex // held while the connection is opened
	conn *rocketConn
}

// rocketRoute is what a name server told about a topic.
type rocketRoute struct {
	brokers []rocketBroker // at least one

	until    time.Time // when to ask again; this and the next one are guarded by the link's lock
	renewing bool
}

// rocketBroker is a broker with queues of a topic.
type rocketBroker struct {
	addr, name string
	queues     uint32 // writable ones, at least one
}

// openRocketMQ returns a link once a name server has answered.
func openRocketMQ(ctx context.Context, e *endpoint) (link, error) {
	l := &rocketLink{
		life: newLife(), endpoint: e, servers: map[string]*rocketServer{}, routes: map[string]*rocketRoute{},
	}
	if _, err := l.ask(ctx, e.target.Topic); err != nil {
		l.close(err)
		return nil, e.opening(err)
	}
	return l, nil
}

func (l *rocketLink) publish(ctx context.Context, t *targeturl.Target, m *message) error {
	route, err := l.route(ctx, t.Topic)
	if err != nil {
		return err
	}
	if err = l.send(ctx, route.brokers, t, m); err != nil {
		l.renew(t.Topic)
	}
	return err
}

// send sends a message to the next queue of a topic, or to the next one of another broker if there is no connection to
// the first.
func (l *rocketLink) send(ctx context.Context, brokers []rocketBroker, t *targeturl.Target, m *message) (err error) {
	body := m.payload
	if len(body) == 0 {
		body = []byte(rocketEmpty)
	}
	turn, n := l.turn.Add(1), uint32(len(brokers))
	for i := range n {
		b := brokers[(turn+i)%n]
		var conn *rocketConn
		if conn, err = l.connect(ctx, b.addr); err != nil {
			continue
		}
		answer, err := conn.call(ctx, rocketSend, map[string]string{
			"a": "belfry", "b": t.Topic, "e": strconv.FormatUint(uint64(turn/n%b.queues), 10), // the group of producers
			"c": "", "d": "0", // the topic to make a missing one from, and its queues: none
			"f": "0", "g": strconv.FormatInt(m.at.UnixMilli(), 10), "h": "0", "i": rocketProperties(t, m),
			"j": "0", "k": "false", "l": "0", "m": "false", "n": b.name, // no repeat by a consumer, no batch
		}, body)
		if err != nil {
			return err
		}
		return rocketFault(answer)
	}
	return l.endpoint.opening(err)
}

// rocketProperties returns a message's properties in RocketMQ's form. Its own have names in upper case, which no header
// has. UNIQ_KEY is the message's id.
func rocketProperties(t *targeturl.Target, m *message) string {
	var b strings.Builder
	add := func(name, value string) {
		if value != "" {
			b.WriteString(name + "\x01" + value + "\x02")
		}
	}
	add("UNIQ_KEY", m.id)
	add("TAGS", t.Tag)
	add("KEYS", t.Keys)
	for _, h := range m.headers {
		add(h.name, h.value)
	}
	return b.String()
}

// rocketFault returns an error unless the answer confirms the message. A broker that flushes or replicates before it
// answers, and could not, has the message in memory only: another attempt stores it again.
func rocketFault(a *rocketAnswer) error {
	switch a.Code {
	case rocketDone:
		return nil
	case rocketDiskLate:
		return failed("the broker has the message, but its disk did not confirm it in time")
	case rocketNoReplica, rocketReplicaLate:
		return failed("the broker has the message, but no replica confirmed it in time")
	}
	refused := worded(refusal(errors.New(a.Remark)))
	refused.permanent = a.Code == rocketIllegal
	return refused
}

// route returns the brokers of a topic. A new topic's are asked for. Those of a known topic are asked for now and then,
// and attempts go by the old route meanwhile, and as long as no name server answers.
func (l *rocketLink) route(ctx context.Context, topic string) (*rocketRoute, error) {
	l.mu.Lock()
	known := l.routes[topic]
	old := known != nil && time.Now().After(known.until)
	l.mu.Unlock()
	if known == nil {
		return l.learn(ctx, topic)
	}
	if old {
		l.renew(topic)
	}
	return known, nil
}

// renew asks for a known topic's route, unless it is being asked for. It does not wait for the answer.
func (l *rocketLink) renew(topic string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	known := l.routes[topic]
	if known == nil || known.renewing {
		return
	}
	known.renewing = true
	go func() {
		ctx, cancel := context.WithTimeout(l.ctx, l.endpoint.cfg.ConnectTimeout)
		defer cancel()
		if _, err := l.learn(ctx, topic); err != nil { // attempts see the error once they need another route
			l.mu.Lock()
			defer l.mu.Unlock()
			known.renewing, known.until = false, time.Now().Add(rocketRouteTime)
		}
	}()
}

// learn asks for a topic's route and keeps it.
func (l *rocketLink) learn(ctx context.Context, topic string) (*rocketRoute, error) {
	answer, err := l.ask(ctx, topic)
	if err != nil {
		return nil, err
	}
	brokers, err := brokersIn(answer, topic)
	l.mu.Lock()
	defer l.mu.Unlock()
	if err != nil {
		delete(l.routes, topic)
		return nil, err
	}
	l.routes[topic] = &rocketRoute{brokers: brokers, until: time.Now().Add(rocketRouteTime)}
	return l.routes[topic], nil
}

// ask asks the name servers for the route of a topic, one after the other until one answers, and first the one that
// answered last. A server that hangs leaves time for the others.
func (l *rocketLink) ask(ctx context.Context, topic string) (answer *rocketAnswer, err error) {
	hosts, first := l.endpoint.target.Hosts, l.answered.Load()
	for i := range hosts {
		n := (int(first) + i) % len(hosts)
		if answer, err = l.askOne(ctx, hosts[n], topic); err == nil {
			l.answered.Store(uint32(n))
			return answer, nil
		}
	}
	return nil, err
}

func (l *rocketLink) askOne(ctx context.Context, host, topic string) (*rocketAnswer, error) {
	ctx, cancel := context.WithTimeout(ctx, l.endpoint.cfg.ConnectTimeout/time.Duration(len(l.endpoint.target.Hosts)))
	defer cancel()
	conn, err := l.connect(ctx, host)
	if err != nil {
		return nil, err
	}
	return conn.call(ctx, rocketAskRoute, map[string]string{"topic": topic, "acceptStandardJsonOnly": "true"}, nil)
}

// brokersIn returns the brokers that take messages of a topic, from a name server's answer.
func brokersIn(a *rocketAnswer, topic string) ([]rocketBroker, error) {
	switch a.Code {
	case rocketDone:
	case rocketUnknownTopic:
		return nil, failed("no broker has topic %q", topic)
	default:
		return nil, refusal(errors.New(a.Remark))
	}
	var route struct {
		Brokers []struct {
			Name      string            `json:"brokerName"`
			Addresses map[string]string `json:"brokerAddrs"`
		} `json:"brokerDatas"`
		Queues []struct {
			Broker string `json:"brokerName"`
			Perm   int    `json:"perm"`
			Number int64  `json:"writeQueueNums"`
		} `json:"queueDatas"`
	}
	if err := json.Unmarshal(a.body, &route); err != nil {
		return nil, failed("the name server's answer is no route of a topic")
	}
	var out []rocketBroker
	for _, q := range route.Queues {
		for _, b := range route.Brokers {
			addr, writable := b.Addresses[rocketMaster], q.Perm&rocketWritable != 0 && q.Number > 0
			if b.Name == q.Broker && addr != "" && writable {
				out = append(out, rocketBroker{addr, b.Name, uint32(min(q.Number, 1<<16))})
			}
		}
	}
	if len(out) == 0 {
		return nil, failed("no broker takes messages of topic %q now", topic)
	}
	slices.SortFunc(out, func(a, b rocketBroker) int { return strings.Compare(a.name, b.name) })
	return out, nil
}

// connect returns the connection to a server, and opens it if there is none. One attempt at a time opens it.
func (l *rocketLink) connect(ctx context.Context, addr string) (*rocketConn, error) {
	l.mu.Lock()
	s := l.servers[addr]
	if s == nil {
		s = &rocketServer{}
		l.servers[addr] = s
	}
	l.mu.Unlock()
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	if s.conn != nil && s.conn.usable(l.endpoint.cfg.IdleTimeout) {
		return s.conn, nil
	}
	raw, err := l.endpoint.connect(ctx, "tcp", addr)
	if err != nil {
		return nil, err
	}
	s.conn = newRocketConn(l.ctx, untilWritten{raw, l.endpoint.cfg.ConnectTimeout}, l.endpoint.access)
	return s.conn, nil
}

func (l *rocketLink) close(cause error) { l.end(cause) } // and its connections end with it
