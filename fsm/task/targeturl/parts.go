package targeturl

import (
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strconv"
	"strings"
)

const (
	maxShortString = 255 // bytes of AMQP's short strings
	maxTopic       = 249 // bytes of a Kafka topic's name
	maxRocketTopic = 127 // bytes of a RocketMQ topic's name
)

func (t *Target) parseNATS(u *url.URL) error {
	if _, err := parameters(u); err != nil {
		return err
	}
	subject, err := segment(u, "subject")
	if err != nil {
		return err
	}
	t.Subject = subject
	return checkSubject(subject)
}

func checkSubject(s string) error {
	switch {
	case s == "":
		return errors.New("has no subject: write it as the path")
	case s[0] == '$' || s[0] == '_':
		return fmt.Errorf("has subject %q: those that begin with $ or _ are the broker's own", s)
	case strings.IndexFunc(s, blank) >= 0:
		return fmt.Errorf("has subject %q, with a space or a control character", s)
	}
	for token := range strings.SplitSeq(s, ".") {
		if token == "" || token == "*" || token == ">" {
			return fmt.Errorf("has subject %q: it has an empty part or a wildcard", s)
		}
	}
	return nil
}

func (t *Target) parseAMQP(u *url.URL) error {
	params, err := parameters(u, "queue", "exchange", "routing_key")
	if err != nil {
		return err
	}
	if t.VHost, err = segment(u, "vhost"); err != nil {
		return err
	}
	if t.VHost == "" {
		t.VHost = "/"
	}
	queue, exchange := params["queue"], params["exchange"]
	_, keyed := params["routing_key"]
	switch {
	case queue == "" && exchange == "":
		return errors.New("names neither a queue nor an exchange: say ?queue= or ?exchange=")
	case queue != "" && (exchange != "" || keyed):
		return errors.New("names a queue and an exchange or routing key: a queue is reached through the default exchange")
	case queue != "":
		t.RoutingKey = queue
	default:
		t.Exchange, t.RoutingKey = exchange, params["routing_key"]
	}
	return t.checkShortStrings()
}

func (t *Target) checkShortStrings() error {
	for _, part := range []struct{ name, text string }{
		{"vhost", t.VHost}, {"exchange", t.Exchange}, {"queue or routing key", t.RoutingKey},
	} {
		if n := len(part.text); n > maxShortString {
			return fmt.Errorf("has a %s of %d bytes: %d at most", part.name, n, maxShortString)
		}
		if strings.IndexFunc(part.text, control) >= 0 {
			return fmt.Errorf("has a control character in its %s", part.name)
		}
	}
	return nil
}

func (t *Target) parseRedis(u *url.URL) error {
	params, err := parameters(u, "stream", "maxlen", "list", "push")
	if err != nil {
		return err
	}
	db, err := segment(u, "database")
	if err != nil {
		return err
	}
	if db != "" {
		if t.DB, err = strconv.Atoi(db); err != nil || t.DB < 0 || t.DB > 1<<16 {
			return fmt.Errorf("has database %q: it is a number", db)
		}
	}
	t.Stream, t.List = params["stream"], params["list"]
	n, short := params["maxlen"]
	end, pushed := params["push"]
	switch {
	case t.Stream == "" && t.List == "":
		return errors.New("names neither a stream nor a list: say ?stream= or ?list=")
	case t.Stream != "" && (t.List != "" || pushed):
		return errors.New("names a stream, and a list or its end: name one of them")
	case t.List != "" && short:
		return errors.New("has a maxlen: only a stream has one")
	case pushed && end != "left" && end != "right":
		return fmt.Errorf("has push %q: it is left or right", end)
	case short:
		if t.MaxLen, err = strconv.ParseInt(n, 10, 64); err != nil || t.MaxLen < 1 {
			return fmt.Errorf("has maxlen %q: it is a number, 1 or more", n)
		}
	}
	t.Left = end == "left"
	return nil
}

func (t *Target) parseKafka(u *url.URL) error {
	params, err := parameters(u, "key")
	if err != nil {
		return err
	}
	if t.Topic, err = segment(u, "topic"); err != nil {
		return err
	}
	if key, given := params["key"]; given {
		t.Key = []byte(key)
	}
	return checkTopic(t.Topic)
}

func checkTopic(topic string) error {
	switch {
	case topic == "":
		return errors.New("has no topic: write it as the path")
	case len(topic) > maxTopic:
		return fmt.Errorf("has a topic of %d bytes: %d at most", len(topic), maxTopic)
	case topic == "." || topic == ".." || strings.IndexFunc(topic, notTopic) >= 0:
		return fmt.Errorf("has topic %q: topics are of A-Z, a-z, 0-9, dot, _ and -", topic)
	case strings.HasPrefix(topic, "__"):
		return fmt.Errorf("has topic %q: those that begin with __ are the broker's own", topic)
	}
	return nil
}

func (t *Target) parseRocketMQ(u *url.URL) error {
	params, err := parameters(u, "tag", "keys")
	if err != nil {
		return err
	}
	if t.Topic, err = segment(u, "topic"); err != nil {
		return err
	}
	t.Tag, t.Keys = params["tag"], params["keys"]
	switch {
	case strings.IndexFunc(t.Tag, blank) >= 0 || strings.Contains(t.Tag, "|"):
		return fmt.Errorf("has tag %q, with a space, a | or a control character: no consumer could ask for it", t.Tag)
	case strings.IndexFunc(t.Keys, control) >= 0:
		return errors.New("has a control character in its keys")
	}
	return checkRocketTopic(t.Topic)
}

func checkRocketTopic(topic string) error {
	own := func(prefix string) bool { return strings.HasPrefix(strings.ToLower(topic), prefix) }
	switch {
	case topic == "":
		return errors.New("has no topic: write it as the path")
	case len(topic) > maxRocketTopic:
		return fmt.Errorf("has a topic of %d bytes: %d at most", len(topic), maxRocketTopic)
	case own("%") || own("rmq_sys_") || own("schedule_topic_"):
		return fmt.Errorf("has topic %q: those that begin with %%, rmq_sys_ or schedule_topic_ are the broker's own", topic)
	case strings.IndexFunc(topic, func(r rune) bool { return r == '.' || r != '%' && notTopic(r) }) >= 0:
		return fmt.Errorf("has topic %q: topics are of A-Z, a-z, 0-9, _, - and %% (written as %%25)", topic)
	}
	return nil
}

// segment returns the URL's path, decoded. The path must be one name. what names it in errors.
func segment(u *url.URL, what string) (string, error) {
	path := strings.TrimPrefix(u.EscapedPath(), "/")
	if strings.Contains(path, "/") {
		return "", fmt.Errorf("has more than a %s as its path: a slash in a name is %%2F", what)
	}
	name, err := url.PathUnescape(path)
	if err != nil {
		return "", fault(err)
	}
	return name, nil
}

// parameters returns the query's parameters. Each must be one of known and occur only once.
func parameters(u *url.URL, known ...string) (map[string]string, error) {
	values, err := url.ParseQuery(u.RawQuery)
	if err != nil {
		return nil, errors.New("has a query that is not percent-encoded as it should be, or has a semicolon")
	}
	out := make(map[string]string, len(values))
	for name, list := range values {
		switch {
		case !slices.Contains(known, name):
			return nil, fmt.Errorf("has parameter %q: %s", name, knownText(u.Scheme, known))
		case len(list) > 1:
			return nil, fmt.Errorf("has parameter %q more than once", name)
		}
		out[name] = list[0]
	}
	return out, nil
}

func knownText(scheme string, known []string) string {
	if len(known) == 0 {
		return scheme + " has none"
	}
	return scheme + " has " + strings.Join(known, ", ")
}

func control(r rune) bool { return r < 0x20 || r == 0x7f }

func blank(r rune) bool { return r == ' ' || control(r) }

func notTopic(r rune) bool {
	return !('a' <= r && r <= 'z' || 'A' <= r && r <= 'Z' || '0' <= r && r <= '9' || r == '.' || r == '_' || r == '-')
}
