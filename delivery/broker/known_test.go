package broker

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/belfryhq/belfry/fsm/task/targeturl"
	"github.com/belfryhq/belfry/internal/assert"
)

func TestLoadKnown(t *testing.T) {
	folder := t.TempDir()
	certificates(t, folder)
	writeFile(t, filepath.Join(folder, "password"), "from a file\n")
	path := filepath.Join(folder, "brokers.yaml")
	writeFile(t, path, `
nats://nats.internal: {token: t}
kafkas://B:9093,a:9093/:
  user: belfry
  password: "12"
  mechanism: scram-sha-512
  ca: ca.pem
  cert: cert.pem
  key: key.pem
redis://cache.internal: {password_file: password}
amqp://mq.internal:
`)
	known, err := LoadKnown(path)
	assert.NoError(t, err)
	accessOf := func(url string) *access {
		target, err := targeturl.Parse(url)
		assert.NoError(t, err)
		return known.accessFor(target)
	}
	if a := accessOf("nats://NATS.internal:4222/x"); a == nil || a.Token != "t" || a.tls != nil {
		t.Errorf("nats: %+v", a)
	}
	if a := accessOf("kafkas://a:9093/t"); a == nil || a.User != "belfry" || a.Password != "12" || a.tls.RootCAs == nil ||
		len(a.tls.Certificates) != 1 {
		t.Errorf("kafka: %+v", a)
	}
	if a := accessOf("redis://cache.internal/7?stream=s"); a == nil || a.Password != "from a file" {
		t.Errorf("redis: %+v", a)
	}
	if a := accessOf("amqp://mq.internal/v?queue=q"); a == nil {
		t.Error("amqp is not known")
	}
	for _, url := range []string{
		"natss://nats.internal/x", "nats://nats.internal:4223/x", "kafkas://a:9093,c:9093/t", "kafka://a:9093/t",
	} {
		if a := accessOf(url); a != nil {
			t.Errorf("%s: %+v", url, a)
		}
	}
}

func TestLoadKnownRefuses(t *testing.T) {
	folder := t.TempDir()
	certificates(t, folder)
	for text, says := range map[string]string{
		"nats://h: {usr: x}":                                 "usr",
		"nats://h: hunter2":                                  "cannot unmarshal",
		"nats://h: {user: [hunter2]}":                        "cannot unmarshal",
		"- nats://h":                                         "cannot unmarshal",
		"nats://h: {}\nnats://h: {}":                         "already defined",
		"nats://h: {}\nnats://H:4222: {}":                    "twice",
		"nats://h,h2: {}\nnats://h2: {}":                     "twice",
		"nats://u:hunter2@h: {}":                             "credentials",
		"https://h: {}":                                      "no broker",
		"smtp://h: {}":                                       "scheme",
		"nats://h/subject: {}":                               "more than scheme",
		"redis://h/?stream=s: {}":                            "more than scheme",
		"nats://h: {user: u}":                                "without a password",
		"nats://h: {password: hunter2}":                      "without a user",
		"nats://h: {user: u, password: a, token: b}":         "one of them",
		"nats://h: {user: u, password: a, password_file: b}": "one of them",
		"amqp://h: {token: hunter2}":                         "only NATS",
		"amqp://h: {mechanism: plain}":                       "only Kafka",
		"kafka://h: {mechanism: gssapi}":                     "scram-sha-256",
		"kafka://h: {ca: ca.pem}":                            "need TLS",
		"kafkas://h: {cert: cert.pem}":                       "go together",
		"kafkas://h: {ca: none.pem}":                         "none.pem",
		"kafkas://h: {ca: key.pem}":                          "no certificate",
		"kafkas://h: {cert: ca.pem, key: ca.pem}":            "cert, key",
		"redis://h: {password_file: none}":                   "none",
	} {
		path := filepath.Join(folder, "brokers.yaml")
		writeFile(t, path, text)
		_, err := LoadKnown(path)
		if err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%q: %v, without %q", text, err, says)
		} else if strings.Contains(err.Error(), "hunter2") {
			t.Errorf("%q: the error tells the password: %v", text, err)
		}
	}
}

func TestLoadKnownMode(t *testing.T) {
	path := filepath.Join(t.TempDir(), "brokers.yaml")
	writeFile(t, path, "")
	for mode, ok := range map[os.FileMode]bool{0o400: true, 0o600: true, 0o640: true, 0o660: false, 0o644: false, 0o604: false} {
		assert.NoError(t, os.Chmod(path, mode))
		_, err := LoadKnown(path)
		if (err == nil) != ok || !ok && !strings.Contains(err.Error(), "chmod") {
			t.Errorf("%v: %v", mode, err)
		}
	}
	_, err := LoadKnown(path + ".none")
	assert.Error(t, err, "a file that is not there")
}

// FuzzKnown checks for any file that every name in it that is accepted is a broker.
func FuzzKnown(f *testing.F) {
	f.Add("nats://h: {user: u, password: p}\nkafkas://a:1,b:2:\n")
	f.Add("redis://[::1]:1: {password: 12}\n")
	f.Add("redis://h: {pass: 12}\n")       // no such setting
	f.Add("redis://u:secret@h: {}\n")      // a password in a name
	f.Add("mqtt://h: {}\n://: {}\n")       // no such scheme
	f.Add("nats://h:\nnats://h:4222:\n")   // one broker twice
	f.Add("nats://h: {ca: no-such.pem}\n") // a file that is not there
	f.Fuzz(func(t *testing.T, text string) {
		known, err := parseKnown([]byte(text), "/nonexistent")
		if err != nil {
			return
		}
		for address := range known.byAddress {
			target, _, err := targeturl.ParseBroker(address)
			if err != nil || target.Kind == targeturl.HTTP || known.accessFor(target) == nil {
				t.Errorf("%q: %v", address, err)
			}
		}
	})
}
