package node

import (
	"context"
	"errors"
	"net"

	"github.com/belfryhq/belfry/amqpapi"
	"github.com/belfryhq/belfry/cluster/logs"
	"github.com/belfryhq/belfry/fsm/task/targeturl"
)

// AMQPConfig holds the settings of the intake for AMQP, a proxy before a RabbitMQ.
type AMQPConfig struct {
	Addr    string // address at which clients of AMQP are served; empty: none are
	Broker  string // address of the broker: amqp://host:port or amqps://host:port, one that tasks may be published to
	KeyFile string // file with the API key under which messages become tasks; empty: calls need none
}

// checkBroker returns an error unless there is a broker for the clients, and its address is that of one.
func (c *AMQPConfig) checkBroker() error {
	switch {
	case c.Addr == "" && c.Broker == "":
		return nil
	case c.Addr == "":
		return errors.New("goes together with --amqp")
	case c.Broker == "":
		return errors.New("is missing: --amqp needs the broker that the clients are connected to")
	}
	t, rest, err := targeturl.ParseBroker(c.Broker)
	switch {
	case err != nil:
		return err
	case t.Kind != targeturl.AMQP:
		return errors.New("is not amqp://host:port or amqps://host:port")
	case rest.Path != "" && rest.Path != "/" || rest.RawQuery != "":
		return errors.New("says more than scheme, host and port: clients name the vhost")
	}
	return nil
}

// checkAMQPKey returns an error unless the intake can make calls.
func (c *Config) checkAMQPKey() error {
	switch {
	case c.AMQP.Addr == "" && c.AMQP.KeyFile != "":
		return errors.New("goes together with --amqp")
	case c.AMQP.Addr != "" && c.AMQP.KeyFile == "" && c.demandsCredentials():
		return errors.New("is missing: calls need credentials, and so do those of --amqp")
	}
	return nil
}

// listenAMQP binds the port for clients of AMQP before the data is opened, as listen does.
func (n *Node) listenAMQP(context.Context) error {
	if n.cfg.AMQP.Addr == "" {
		return nil
	}
	l, err := n.bind("amqp", n.cfg.AMQP.Addr)
	if err != nil {
		return err
	}
	n.amqp = n.limited(l, n.callerPart()/2) // each has a connection to the broker beside
	n.onStop(func() error { return ignoreClosed(l.Close()) })
	return nil
}

// AMQPAddr returns the address at which clients of AMQP are served, or nil if none are.
func (n *Node) AMQPAddr() net.Addr {
	if n.amqp == nil {
		return nil
	}
	return n.amqp.Addr()
}

func (n *Node) startAMQP(context.Context) error {
	if n.amqp == nil {
		return nil
	}
	t, _, err := targeturl.ParseBroker(n.cfg.AMQP.Broker)
	if err != nil {
		return &SettingError{"amqp-broker", err}
	}
	broker := t.Destination()
	if err := n.receivers.CheckURL(broker + "/?queue=any"); err != nil {
		return &SettingError{"amqp-broker", errors.New(err.Detail)}
	}
	server, err := amqpapi.New(amqpapi.Config{
		API: n.api, KeyFile: n.cfg.AMQP.KeyFile, Broker: broker, Registerer: n.registry, Logger: logs.Limited(n.log),
		Dial: func(ctx context.Context) (net.Conn, error) { return n.receivers.Dial(ctx, broker) },
	})
	if err != nil {
		return err
	}
	n.onStop(func() error {
		server.Close()
		return nil
	})
	go func() {
		if err := server.Serve(n.secured(n.amqp, n.cfg.TLS.PlainLoopback)); err != nil {
			n.failed <- err
		}
	}()
	return nil
}
