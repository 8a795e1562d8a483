package rabbitmq

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/belfryhq/belfry/bench/peers/installed"
	"github.com/belfryhq/belfry/bench/subject"
	"github.com/belfryhq/belfry/deploy/local"
)

const (
	user, password = "bench", "bench"

	// deadLetters is the number of unconfirmed dead letters of a queue. The default of 32 would limit the throughput;
	// the server's documentation advises to raise it.
	deadLetters = 512
)

// servers are the brokers of a RabbitMQ with all their files in one folder, and an epmd of their own. They leave
// nothing behind, and do not touch another RabbitMQ on this machine.
type servers struct {
	subject.Group // the brokers. It is killed without the name service, which would be apart on machines of their own
	addrs         []string
	intakes       []string         // addresses that callers dial; empty: those of the brokers
	before        *local.Cluster   // the nodes of the intakes
	names         *subject.Process // the name service
}

// startServers starts the nodes one after the other. Each of them joins those before it.
func (s *servers) startServers(ctx context.Context, dir string, f form) error {
	nodes := f.nodes
	program, err := installed.RabbitMQ()
	if err != nil {
		return err
	}
	addrs, err := local.FreeAddrs(1 + 2*nodes) // for names; for clients and for other brokers
	if err != nil {
		return err
	}
	ports := make([]string, len(addrs))
	for i, addr := range addrs {
		if _, ports[i], err = net.SplitHostPort(addr); err != nil {
			return err
		}
	}
	s.names, err = subject.Run(ctx, subject.Command{
		Args: []string{"epmd", "-address", "127.0.0.1", "-port", ports[0]}, Dir: dir, Ready: subject.Answers(addrs[0]),
	})
	if err != nil {
		return err
	}
	s.addrs = addrs[1 : 1+nodes]
	for i := range nodes {
		in := filepath.Join(dir, fmt.Sprint("n", i+1))
		if err := s.launch(ctx, program, in, ports[0], ports[1+nodes+i], f.plugin); err != nil {
			return err
		}
	}
	return nil
}

// launch starts the next broker.
func (s *servers) launch(ctx context.Context, program, dir, namesPort, peersPort string, plugin bool) error {
	node := len(s.Group)
	if err := os.Mkdir(dir, 0o755); err != nil {
		return err
	}
	plugins, env := "[].\n", environment(dir, nodeName(node), namesPort, peersPort)
	if plugin {
		folders, err := installed.DelayPlugin()
		if err != nil {
			return err
		}
		plugins = "[rabbitmq_delayed_message_exchange].\n"
		env = append(env, "RABBITMQ_PLUGINS_DIR="+folders)
	}
	if err := writeConfig(dir, s.addrs[node], node, plugins); err != nil {
		return err
	}
	broker, err := subject.Run(ctx, subject.Command{
		Args: []string{program}, Env: env, Dir: dir,
		Ready: func(context.Context) error { return answers(s.addrs[node]) },
	})
	if err == nil {
		s.Group = append(s.Group, broker)
	}
	return err
}

func nodeName(node int) string { return fmt.Sprintf("belfry-bench%d@localhost", node+1) }

// writeConfig writes the configuration of a node, which names the nodes before it and itself as the cluster to join.
func writeConfig(dir, addr string, node int, plugins string) error {
	var cluster strings.Builder
	for i := range node + 1 {
		fmt.Fprintf(&cluster, "cluster_formation.classic_config.nodes.%d = %s\n", i+1, nodeName(i))
	}
	for name, text := range map[string]string{
		"rabbitmq.conf": fmt.Sprintf("listeners.tcp.1 = %s\ndefault_user = %s\ndefault_pass = %s\nlog.console = true\n"+
			"log.console.level = warning\nlog.file = false\n%s", addr, user, password, &cluster),
		"advanced.config": fmt.Sprintf("[{rabbit, [{dead_letter_worker_consumer_prefetch, %d}]}].\n", deadLetters),
		"plugins":         plugins,
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
			return err
		}
	}
	return nil
}

// environment returns the variables of a node. The nodes share a home, because the first one makes the secret there by
// which nodes know each other.
func environment(dir, name, namesPort, peersPort string) []string {
	in := func(name string) string { return filepath.Join(dir, name) }
	return []string{
		"PATH=/usr/sbin:/usr/bin:/sbin:/bin", "LANG=C.UTF-8", "HOME=" + filepath.Dir(dir),
		"RUNNING_UNDER_SYSTEMD=true", // exec the server instead of waiting for it
		"RABBITMQ_NODENAME=" + name, "RABBITMQ_DIST_PORT=" + peersPort,
		"ERL_EPMD_ADDRESS=127.0.0.1", "ERL_EPMD_PORT=" + namesPort,
		"RABBITMQ_SERVER_ADDITIONAL_ERL_ARGS=-kernel inet_dist_use_interface {127,0,0,1}",
		"RABBITMQ_CONF_ENV_FILE=/dev/null", "RABBITMQ_CONFIG_FILE=" + in("rabbitmq.conf"),
		"RABBITMQ_ADVANCED_CONFIG_FILE=" + in("advanced.config"),
		"RABBITMQ_MNESIA_BASE=" + in("mnesia"), "RABBITMQ_LOG_BASE=" + in("log"),
		"RABBITMQ_ENABLED_PLUGINS_FILE=" + in("plugins"), "RABBITMQ_PID_FILE=" + in("pid"),
		"RABBITMQ_GENERATED_CONFIG_DIR=" + in("generated"), "RABBITMQ_SCHEMA_DIR=" + in("schema"),
	}
}

// intakeNodes is the number of nodes of an Intake.
const intakeNodes = 3

// startIntake starts nodes of Belfry before the first broker.
func (s *servers) startIntake(ctx context.Context, dir, binary string) (err error) {
	logins := filepath.Join(dir, "brokers.yaml")
	login := fmt.Sprintf("amqp://%s: {user: %s, password: %s}\n", s.addrs[0], user, password)
	if err := os.WriteFile(logins, []byte(login), 0o600); err != nil {
		return err
	}
	if s.intakes, err = local.FreeAddrs(intakeNodes); err != nil {
		return err
	}
	places := make([]local.Place, intakeNodes)
	for i, addr := range s.intakes {
		places[i].Args = []string{"--amqp", addr}
	}
	s.before, err = local.Start(ctx, local.Config{
		Nodes: intakeNodes, DataDir: filepath.Join(dir, "nodes"), Binary: binary, Places: places,
		ExtraArgs: []string{"--brokers", logins, "--amqp-broker", "amqp://" + s.addrs[0]},
	})
	return err
}

// declareExchange declares the exchange for delayed messages, as a program does that knows only the plugin.
func (s *servers) declareExchange() error {
	conn, err := s.dialNext(0)
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close() }() // an error would not matter any more
	channel, err := conn.Channel()
	if err == nil {
		args := amqp.Table{"x-delayed-type": "direct"}
		err = channel.ExchangeDeclare(exchange, "x-delayed-message", true, false, false, false, args)
	}
	if err == nil {
		err = channel.QueueBind(ready, ready, exchange, false, nil)
	}
	return err
}

// dialNext dials the intake or broker whose turn it is, or the next one that answers.
func (s *servers) dialNext(turn int) (conn *amqp.Connection, err error) {
	addrs := s.addrs
	if len(s.intakes) > 0 {
		addrs = s.intakes
	}
	for i := range addrs {
		if conn, err = dial(addrs[(turn+i)%len(addrs)]); err == nil {
			return conn, nil
		}
	}
	return nil, err
}

func dial(addr string) (*amqp.Connection, error) {
	return amqp.DialConfig("amqp://"+addr+"/", amqp.Config{
		SASL:      []amqp.Authentication{&amqp.PlainAuth{Username: user, Password: password}},
		Heartbeat: time.Minute, // a machine busy with measuring may delay a heartbeat
		Dial:      amqp.DefaultDial(5 * time.Second),
	})
}

func answers(addr string) error {
	conn, err := dial(addr)
	if err != nil {
		return err
	}
	return conn.Close()
}

// PIDs returns the process ids of the brokers, of their name service and of the nodes before them.
func (s *servers) PIDs() []int {
	pids := append(s.Group.PIDs(), s.names.PIDs()...)
	if s.before != nil {
		for _, node := range s.before.Nodes() {
			pids = append(pids, node.PID)
		}
	}
	return pids
}

// stop stops the nodes before the brokers, the brokers, and then their name service.
func (s *servers) stop() error {
	if s.before != nil {
		s.before.Stop()
	}
	err := s.Group.Stop()
	if s.names != nil {
		err = errors.Join(err, s.names.Stop())
	}
	return err
}
