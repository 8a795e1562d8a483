package targeturl

import (
	"cmp"
	"errors"
	"fmt"
	"net"
	"net/url"
	"slices"
	"strconv"
	"strings"
)

// Kind is a kind of receiver.
type Kind int

// The kinds of receivers.
const (
	HTTP Kind = iota
	NATS
	AMQP
	Redis
	Kafka
	RocketMQ
	kinds // the number of kinds
)

func (k Kind) String() string {
	return [kinds]string{"http", "nats", "amqp", "redis", "kafka", "rocketmq"}[k]
}

// PayloadField is the field of a Redis entry that contains the payload. All other fields are named after headers.
const PayloadField = "payload"

// maxHosts is the largest number of addresses of one broker in a URL.
const maxHosts = 16

// Target is a parsed URL. Of the fields after Hosts, only those of its kind are set.
type Target struct {
	Kind   Kind
	Scheme string   // in lower case
	TLS    bool     // from the first byte on, or in the protocol's own way
	Hosts  []string // host:port, in lower case, the port always written; sorted, without repeats, at least one

	Path string // HTTP: as it is in the URL, without the query; never empty

	Subject string // NATS

	VHost      string // AMQP: never empty
	Exchange   string // AMQP: empty means the default exchange, and RoutingKey is then the queue
	RoutingKey string

	DB     int // Redis
	Stream string
	MaxLen int64  // Redis: about the number of entries to keep; 0: all
	List   string // Redis, in place of Stream
	Left   bool   // Redis: push to the left end of the list, and not to the right one

	Topic string // Kafka and RocketMQ
	Key   []byte // Kafka: nil means no key
	Tag   string // RocketMQ: empty means none
	Keys  string // RocketMQ: with a space between two; empty means none
}

// Destination returns the target's address: scheme://host:port[,host:port…]. It is the unit of isolation between
// receivers.
func (t *Target) Destination() string { return t.Scheme + "://" + strings.Join(t.Hosts, ",") }

// scheme holds the properties that a URL's scheme implies.
type scheme struct {
	kind Kind
	tls  bool
	port string // the port of a URL without one
}

var schemes = map[string]scheme{
	"http":      {HTTP, false, "80"},
	"https":     {HTTP, true, "443"},
	"nats":      {NATS, false, "4222"},
	"natss":     {NATS, true, "4222"},
	"amqp":      {AMQP, false, "5672"},
	"amqps":     {AMQP, true, "5671"},
	"redis":     {Redis, false, "6379"},
	"rediss":    {Redis, true, "6379"},
	"kafka":     {Kafka, false, "9092"},
	"kafkas":    {Kafka, true, "9092"},
	"rocketmq":  {RocketMQ, false, "9876"},
	"rocketmqs": {RocketMQ, true, "9876"},
}

// IsBroker reports whether a URL names a broker, by its scheme alone. Parse checks the rest.
func IsBroker(rawURL string) bool {
	name, _, _ := strings.Cut(rawURL, "://")
	s, known := schemes[strings.ToLower(name)]
	return known && s.kind != HTTP
}

// Parse parses a target's URL. Its errors describe the fault in words that follow a field's name. They repeat only the
// faulty part of the URL.
func Parse(rawURL string) (*Target, error) {
	t, rest, err := ParseBroker(rawURL)
	if err != nil {
		return nil, err
	}
	switch t.Kind {
	case HTTP:
		t.Path = cmp.Or(rest.EscapedPath(), "/")
	case NATS:
		err = t.parseNATS(rest)
	case AMQP:
		err = t.parseAMQP(rest)
	case Redis:
		err = t.parseRedis(rest)
	case Kafka:
		err = t.parseKafka(rest)
	case RocketMQ:
		err = t.parseRocketMQ(rest)
	}
	if err != nil {
		return nil, err
	}
	return t, nil
}

// ParseBroker parses the scheme and the hosts alone and returns the rest of the URL. An operator names a broker in
// this form.
func ParseBroker(rawURL string) (t *Target, rest *url.URL, err error) {
	authority, u, err := split(rawURL)
	if err != nil {
		return nil, nil, err
	}
	s, known := schemes[u.Scheme]
	switch {
	case !known:
		return nil, nil, fmt.Errorf("has scheme %q: there are %s", u.Scheme, schemeNames())
	case u.User != nil || strings.Contains(authority, "@"):
		return nil, nil, fmt.Errorf("has credentials in it: %s", insteadOf(s.kind))
	case u.Fragment != "" || strings.HasSuffix(rawURL, "#"):
		return nil, nil, errors.New("has a fragment")
	}
	t = &Target{Kind: s.kind, Scheme: u.Scheme, TLS: s.tls}
	if t.Hosts, err = hosts(authority, s); err != nil {
		return nil, nil, err
	}
	return t, u, nil
}

func schemeNames() string {
	return "http, https, nats, natss, amqp, amqps, redis, rediss, kafka, kafkas, rocketmq and rocketmqs"
}

func insteadOf(k Kind) string {
	if k == HTTP {
		return "send them in a header"
	}
	return "a broker's are given to the nodes, by their operator"
}

// split separates the authority from the URL before net/url parses the rest, because net/url refuses a list of hosts.
func split(rawURL string) (authority string, u *url.URL, err error) {
	name, after, found := strings.Cut(rawURL, "://")
	if !found {
		u, err = url.Parse(rawURL)
		return "", u, fault(err)
	}
	end := strings.IndexAny(after, "/?#")
	if end < 0 {
		end = len(after)
	}
	u, err = url.Parse(name + "://" + after[end:])
	return after[:end], u, fault(err)
}

// fault describes the fault of a URL without repeating the URL, because a query may hold a secret.
func fault(err error) error {
	if err == nil {
		return nil
	}
	var escape url.EscapeError
	var char url.InvalidHostError
	switch {
	case errors.As(err, &escape):
		return errors.New("is not a URL: a percent sign is not followed by two hexadecimal digits")
	case errors.As(err, &char):
		return errors.New("is not a URL: its host has a character that no host has")
	}
	return errors.New("is not a URL (RFC 3986)")
}

func hosts(authority string, s scheme) ([]string, error) {
	names := []string{authority}
	if s.kind == NATS || s.kind == Kafka || s.kind == RocketMQ {
		names = strings.Split(authority, ",")
	}
	if len(names) > maxHosts {
		return nil, fmt.Errorf("has %d hosts: %d at most", len(names), maxHosts)
	}
	out := make([]string, 0, len(names))
	for _, name := range names {
		h, err := host(name, s.port)
		if err != nil {
			return nil, err
		}
		out = append(out, h)
	}
	slices.Sort(out)
	return slices.Compact(out), nil
}

// host returns name with its port, in lower case and without the final dot of a full name.
func host(name, port string) (string, error) {
	u, err := url.Parse("http://" + name) // net/url has the strictest rules for hosts
	switch {
	case err != nil:
		return "", fault(err)
	case u.Hostname() == "":
		return "", errors.New("has no host")
	case strings.Contains(u.Hostname(), ","):
		return "", errors.New("has more than one host")
	}
	if p := u.Port(); p != "" {
		port = p
	}
	n, err := strconv.ParseUint(port, 10, 16)
	if err != nil || n == 0 {
		return "", fmt.Errorf("has port %s: there are ports 1 to 65535", port)
	}
	plain := strings.TrimSuffix(strings.ToLower(u.Hostname()), ".")
	return net.JoinHostPort(plain, strconv.FormatUint(n, 10)), nil
}
