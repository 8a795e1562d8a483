package targeturl

import (
	"fmt"
	"net/url"
	"reflect"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestParse(t *testing.T) {
	hosts := func(list ...string) []string { return list }
	for url, want := range map[string]Target{
		"http://Shop.Example/close?x=1": {Kind: HTTP, Scheme: "http", Hosts: hosts("shop.example:80"), Path: "/close"},
		"HTTPS://[::1]":                 {Kind: HTTP, Scheme: "https", TLS: true, Hosts: hosts("[::1]:443"), Path: "/"},

		"nats://h/orders.close":       {Kind: NATS, Scheme: "nats", Hosts: hosts("h:4222"), Subject: "orders.close"},
		"natss://B:1,a.,B:01/x":       {Kind: NATS, Scheme: "natss", TLS: true, Hosts: hosts("a:4222", "b:1"), Subject: "x"},
		"nats://[::1]:5,10.0.0.1/a_$": {Kind: NATS, Scheme: "nats", Hosts: hosts("10.0.0.1:4222", "[::1]:5"), Subject: "a_$"},

		"amqp://h?queue=q":           {Kind: AMQP, Scheme: "amqp", Hosts: hosts("h:5672"), VHost: "/", RoutingKey: "q"},
		"amqp://h/?queue=a+b%2Fc":    {Kind: AMQP, Scheme: "amqp", Hosts: hosts("h:5672"), VHost: "/", RoutingKey: "a b/c"},
		"amqps://h/a%2Fb?exchange=x": {Kind: AMQP, Scheme: "amqps", TLS: true, Hosts: hosts("h:5671"), VHost: "a/b", Exchange: "x"},
		"amqp://h/v?exchange=x&routing_key=k.1": {Kind: AMQP, Scheme: "amqp", Hosts: hosts("h:5672"), VHost: "v", Exchange: "x",
			RoutingKey: "k.1"},

		"redis://h?stream=s":               {Kind: Redis, Scheme: "redis", Hosts: hosts("h:6379"), Stream: "s"},
		"redis://h/1?list=q&push=left":     {Kind: Redis, Scheme: "redis", Hosts: hosts("h:6379"), DB: 1, List: "q", Left: true},
		"redis://h?list=q&push=right":      {Kind: Redis, Scheme: "redis", Hosts: hosts("h:6379"), List: "q"},
		"rediss://h/3?stream=a:b&maxlen=7": {Kind: Redis, Scheme: "rediss", TLS: true, Hosts: hosts("h:6379"), DB: 3, Stream: "a:b", MaxLen: 7},

		"kafka://b,a:1/t":       {Kind: Kafka, Scheme: "kafka", Hosts: hosts("a:1", "b:9092"), Topic: "t"},
		"kafkas://h/t.1-x?key=": {Kind: Kafka, Scheme: "kafkas", TLS: true, Hosts: hosts("h:9092"), Topic: "t.1-x", Key: []byte{}},
		"kafka://h/t?key=a%20b": {Kind: Kafka, Scheme: "kafka", Hosts: hosts("h:9092"), Topic: "t", Key: []byte("a b")},

		"rocketmq://b,a:1/t":            {Kind: RocketMQ, Scheme: "rocketmq", Hosts: hosts("a:1", "b:9876"), Topic: "t"},
		"rocketmq://h/t?tag=&keys=":     {Kind: RocketMQ, Scheme: "rocketmq", Hosts: hosts("h:9876"), Topic: "t"},
		"rocketmqs://h/A%25t?keys=a+b":  {Kind: RocketMQ, Scheme: "rocketmqs", TLS: true, Hosts: hosts("h:9876"), Topic: "A%t", Keys: "a b"},
		"rocketmq://h/t?tag=x:1&keys=ü": {Kind: RocketMQ, Scheme: "rocketmq", Hosts: hosts("h:9876"), Topic: "t", Tag: "x:1", Keys: "ü"},
	} {
		got, err := Parse(url)
		if err != nil {
			t.Errorf("%s: %v", url, err)
		} else if diff := cmp.Diff(&want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", url, diff)
		}
	}
}

func TestParseRefuses(t *testing.T) {
	long := strings.Repeat("x", 256)
	for url, word := range map[string]string{
		"":                                            "scheme",
		"/path":                                       "scheme",
		"ftp://x/":                                    "scheme",
		"tls://x/subject":                             "scheme",
		"http://":                                     "no host",
		"http://u:p@x/":                               "header",
		"http://x/#f":                                 "fragment",
		"http://x/#":                                  "fragment",
		"http://\x00/":                                "not a URL",
		"http://a,b/":                                 "more than one host",
		"http://x:y/":                                 "not a URL",
		"http://x:0/":                                 "port",
		"http://x:65536/":                             "port",
		"http://x:1:2/":                               "not a URL",
		"nats://u:p@h/s":                              "operator",
		"nats://h,t@g/s":                              "operator",
		"nats://h,/s":                                 "no host",
		"nats://,/s":                                  "no host",
		"nats://h":                                    "no subject",
		"nats://h/":                                   "no subject",
		"nats://h/a/b":                                "%2F",
		"nats://h/a..b":                               "empty part",
		"nats://h/.a":                                 "empty part",
		"nats://h/a.*":                                "wildcard",
		"nats://h/a.%3E":                              "wildcard",
		"nats://h/a%20b":                              "space",
		"nats://h/a%0D%0APUB":                         "control",
		"nats://h/%24JS.API.STREAM.DELETE.x":          "own",
		"nats://h/$SYS.x":                             "own",
		"nats://h/_INBOX.x":                           "own",
		"nats://h/a?stream=x":                         "nats has none",
		"amqp://h/":                                   "neither",
		"amqp://a,b/?queue=q":                         "more than one host",
		"amqp://u@h/?queue=q":                         "operator",
		"amqp://h/?queue=":                            "neither",
		"amqp://h/?exchange=":                         "neither",
		"amqp://h/?routing_key=k":                     "neither",
		"amqp://h/?queue=q&exchange=x":                "default exchange",
		"amqp://h/?queue=q&routing_key=":              "default exchange",
		"amqp://h/?queue=q&queue=r":                   "more than once",
		"amqp://h/?queu=q":                            "amqp has queue, exchange, routing_key",
		"amqp://h/a/b?queue=q":                        "%2F",
		"amqp://h/?queue=" + long:                     "255 at most",
		"amqp://h/" + long + "?queue=q":               "255 at most",
		"amqp://h/?queue=%00":                         "control",
		"redis://h/":                                  "neither a stream nor a list",
		"redis://h/?stream=s&list=q":                  "one of them",
		"redis://h/?stream=s&push=left":               "one of them",
		"redis://h/?list=q&maxlen=1":                  "only a stream",
		"redis://h/?list=q&push=top":                  "left or right",
		"redis://h/x?stream=s":                        "database",
		"redis://h/-1?stream=s":                       "database",
		"redis://h/0/1?stream=s":                      "%2F",
		"redis://h/?stream=s&maxlen=0":                "maxlen",
		"redis://h/?stream=s&maxlen=x":                "maxlen",
		"redis://:p@h/?stream=s":                      "operator",
		"rocketmq://k:s@h/t":                          "operator",
		"rocketmq://h":                                "no topic",
		"rocketmq://h/a/b":                            "%2F",
		"rocketmq://h/a.b":                            "A-Z",
		"rocketmq://h/a%01b":                          "A-Z",
		"rocketmq://h/%25RETRY%25group":               "own",
		"rocketmq://h/RMQ_SYS_TRACE_TOPIC":            "own",
		"rocketmq://h/SCHEDULE_TOPIC_XXXX":            "own",
		"rocketmq://h/" + long:                        "127 at most",
		"rocketmq://h/t?tag=a%7C%7Cb":                 "tag",
		"rocketmq://h/t?tag=a+b":                      "tag",
		"rocketmq://h/t?tag=a%02":                     "tag",
		"rocketmq://h/t?keys=a%01":                    "keys",
		"rocketmq://h/t?key=a":                        "rocketmq has tag, keys",
		"rocketmq://h/t?tag=a&tag=b":                  "more than once",
		"redis://h/?stream=%zz":                       "query",
		"kafka://h":                                   "no topic",
		"kafka://h/a%2Fb":                             "topics are of",
		"kafka://h/..":                                "topics are of",
		"kafka://h/__consumer_offsets":                "own",
		"kafka://h/" + long:                           "249 at most",
		"kafka://h/t?keys=1":                          "kafka has key",
		"kafka://" + strings.Repeat("h,", 16) + "h/t": "16 at most",
	} {
		got, err := Parse(url)
		if err == nil {
			t.Errorf("%q: accepted as %+v", url, got)
		} else if !strings.Contains(err.Error(), word) {
			t.Errorf("%q: %v, without %q", url, err, word)
		}
	}
}

// TestCheckQuery checks that a percent sign without two hexadecimal digits is refused with its place, and that no other
// character is.
func TestCheckQuery(t *testing.T) {
	for url, place := range map[string]string{
		"http://h/?%zz":             `"%zz" in its query, at byte 11`,
		"http://h/a?b=c%":           `"%" in its query, at byte 15`,
		"http://h?%4":               `"%4" in its query, at byte 10`,
		"http://h/?a=%41%4g":        `"%4g" in its query, at byte 16`,
		"http://h/":                 "",
		"http://h/?a=%41%fF":        "",
		"http://h/?a b\"<ü>&[c]={}": "",
	} {
		err := CheckQuery(url)
		if (err != nil) != (place != "") || err != nil && !strings.Contains(err.Error(), place) {
			t.Errorf("%s: %v, want %s", url, err, place)
		}
	}
	if _, err := Parse("http://h/%zz"); err == nil {
		t.Error("%zz is taken in a path")
	}
}

// FuzzEscapeQuery checks that an escaped query is one that net/url reads, with the same meaning, and that escaping it
// again changes nothing.
func FuzzEscapeQuery(f *testing.F) {
	for _, query := range []string{"a=b c", "q=\"<ü>\"", "a[]=1&b=%zz", "\xff\x00", "a=%41+b"} {
		f.Add(query)
	}
	f.Fuzz(func(t *testing.T, query string) {
		got := EscapeQuery(query)
		if again := EscapeQuery(got); again != got || strings.ContainsAny(got, " \"<>#\r\n") {
			t.Fatalf("%q is escaped as %q, and that as %q", query, got, again)
		}
		if strings.Contains(query, "#") {
			return // no query has one: the fragment begins with it
		}
		want, err := url.ParseQuery(query)
		if read, wrong := url.ParseQuery(got); (err == nil) != (wrong == nil) || !reflect.DeepEqual(read, want) {
			t.Fatalf("%q means %v, and %q means %v", query, want, got, read)
		}
	})
}

// FuzzParse checks that Parse never panics, that a destination parses to the same destination again, and that no name
// has a line end, which a line-based protocol would carry.
func FuzzParse(f *testing.F) {
	for _, url := range []string{
		"http://x/", "nats://a:1,[::1]/s.t", "amqps://h/v%2F?exchange=x&routing_key=k", "redis://h/1?stream=s&maxlen=9",
		"kafka://h/t?key=k", "rocketmq://h,i/t?tag=a&keys=b", "nats://%41/x", "amqp://h?queue=\n",
		"mqtt://h/x", "kafka://%zz/t", "nats://:4222/s", "rediss://h/0?stream=s",
	} {
		f.Add(url)
	}
	f.Fuzz(func(t *testing.T, url string) {
		got, err := Parse(url)
		if err != nil {
			return
		}
		again, _, err := ParseBroker(got.Destination())
		if err != nil || again.Destination() != got.Destination() {
			t.Errorf("%q: destination %q is read as %v, %v", url, got.Destination(), again, err)
		}
		if names := fmt.Sprint(got.Hosts, got.Subject, got.Topic); strings.ContainsAny(names, "\r\n\x00") {
			t.Errorf("%q: %q", url, names)
		}
	})
}

func TestIsBroker(t *testing.T) {
	for url, want := range map[string]bool{
		"http://x": false, "HTTPS://x": false, "amqp://x": true, "NATSS://x,y": true, "ftp://x": false, "": false,
	} {
		if got := IsBroker(url); got != want {
			t.Errorf("%q: %v", url, got)
		}
	}
}
