package node

import (
	"errors"
	"net/http"
	"net/netip"
	"strings"
	"testing"

	"github.com/belfryhq/belfry/internal/assert"
	"github.com/belfryhq/belfry/internal/inside"
)

// TestAMQPSettings checks that settings under which clients of AMQP could not be served, or not safely, are refused.
func TestAMQPSettings(t *testing.T) {
	const addr, broker = "127.0.0.1:0", "amqp://127.0.0.1:5672"
	for name, c := range map[string]struct {
		amqp          AMQPConfig
		rootKey       string
		setting, says string
	}{
		"no broker":            {AMQPConfig{Addr: addr}, "", "amqp-broker", "is missing"},
		"a broker alone":       {AMQPConfig{Broker: broker}, "", "amqp-broker", "goes together with --amqp"},
		"a key alone":          {AMQPConfig{KeyFile: "key"}, "", "amqp-key-file", "goes together with --amqp"},
		"another broker":       {AMQPConfig{Addr: addr, Broker: "nats://127.0.0.1"}, "", "amqp-broker", "is not amqp://host:port"},
		"a vhost":              {AMQPConfig{Addr: addr, Broker: broker + "/v"}, "", "amqp-broker", "clients name the vhost"},
		"credentials":          {AMQPConfig{Addr: addr, Broker: "amqp://u:p@h"}, "", "amqp-broker", "credentials"},
		"other machines":       {AMQPConfig{Addr: ":0", Broker: broker}, "", "amqp", "other machines can reach"},
		"no key":               {AMQPConfig{Addr: addr, Broker: broker}, "root.key", "amqp-key-file", "is missing"},
		"as it should be":      {AMQPConfig{Addr: addr, Broker: broker}, "", "", ""},
		"none":                 {},
		"a key where it helps": {AMQPConfig{Addr: addr, Broker: broker, KeyFile: "key"}, "root.key", "", ""},
	} {
		cfg := DefaultConfig()
		cfg.AMQP, cfg.Access.RootKeyFile = c.amqp, c.rootKey
		err := cfg.Validate()
		var wrong *SettingError
		switch {
		case c.setting == "":
			assert.NoError(t, err, name)
		case !errors.As(err, &wrong) || wrong.Setting != c.setting || !strings.Contains(err.Error(), c.says):
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestAMQPNeedsAKnownBroker checks that a node does not start before a broker that tasks may not be published to.
func TestAMQPNeedsAKnownBroker(t *testing.T) {
	t.Parallel()
	simulate(t, func(t *testing.T) {
		cfg := testConfig(t)
		cfg.AMQP = AMQPConfig{Addr: "127.0.0.1:0", Broker: "amqp://127.0.0.1:5672"}
		_, err := Start(t.Context(), cfg)
		var wrong *SettingError
		if !errors.As(err, &wrong) || wrong.Setting != "amqp-broker" || !strings.Contains(err.Error(), "--brokers") {
			t.Fatal(err)
		}
		cfg.DataDir = t.TempDir()
		cfg.BrokerNets = []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}
		n, _ := start(t, cfg)
		if n.AMQPAddr() == nil {
			t.Error("no address")
		}
	})
}

// TestRefusedInside checks that the API refuses a call within the process as it does any other. It once ended the node:
// the answer had no Flush.
func TestRefusedInside(t *testing.T) {
	t.Parallel()
	simulate(t, func(t *testing.T) {
		n, _ := start(t, testConfig(t))
		c := http.Client{Transport: &inside.Transport{Handler: n.api}}
		resp, err := c.Post("http://localhost/v1/batch", "text/plain", strings.NewReader("{}\n"))
		assert.NoError(t, err)
		assert.Equal(t, resp.StatusCode, http.StatusUnsupportedMediaType)
		assert.NoError(t, resp.Body.Close())
	})
}
