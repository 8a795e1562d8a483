package rabbitmq

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
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

// server is a RabbitMQ with all its files in one folder, and an epmd of its own. It leaves nothing behind, and does not
// touch another RabbitMQ on this machine.
type server struct {
	names, broker *subject.Process
	addr          string
}

func startServer(ctx context.Context, dir string) (*server, error) {
	program, err := installed.RabbitMQ()
	if err != nil {
		return nil, err
	}
	addrs, err := local.FreeAddrs(3)
	if err != nil {
		return nil, err
	}
	ports := make([]string, len(addrs))
	for i, addr := range addrs {
		if _, ports[i], err = net.SplitHostPort(addr); err != nil {
			return nil, err
		}
	}
	if err := writeConfig(dir, addrs[0]); err != nil {
		return nil, err
	}
	s := &server{addr: addrs[0]}
	s.names, err = subject.Run(ctx, subject.Command{
		Args: []string{"epmd", "-address", "127.0.0.1", "-port", ports[1]}, Dir: dir, Ready: subject.Answers(addrs[1]),
	})
	if err == nil {
		s.broker, err = subject.Run(ctx, subject.Command{
			Args: []string{program}, Env: environment(dir, ports[1], ports[2]), Dir: dir, Ready: s.ready,
		})
	}
	if err != nil {
		return nil, errors.Join(err, s.stop())
	}
	return s, nil
}

func writeConfig(dir, addr string) error {
	for name, text := range map[string]string{
		"rabbitmq.conf": fmt.Sprintf("listeners.tcp.1 = %s\ndefault_user = %s\ndefault_pass = %s\nlog.console = true\n"+
			"log.console.level = warning\nlog.file = false\n", addr, user, password),
		"advanced.config": fmt.Sprintf("[{rabbit, [{dead_letter_worker_consumer_prefetch, %d}]}].\n", deadLetters),
		"plugins":         "[].\n",
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
			return err
		}
	}
	return nil
}

func environment(dir, namesPort, peersPort string) []string {
	in := func(name string) string { return filepath.Join(dir, name) }
	return []string{
		"PATH=/usr/sbin:/usr/bin:/sbin:/bin", "LANG=C.UTF-8", "HOME=" + dir,
		"RUNNING_UNDER_SYSTEMD=true", // exec the server instead of waiting for it
		"RABBITMQ_NODENAME=belfry-bench@localhost", "RABBITMQ_DIST_PORT=" + peersPort,
		"ERL_EPMD_ADDRESS=127.0.0.1", "ERL_EPMD_PORT=" + namesPort,
		"RABBITMQ_SERVER_ADDITIONAL_ERL_ARGS=-kernel inet_dist_use_interface {127,0,0,1}",
		"RABBITMQ_CONF_ENV_FILE=/dev/null", "RABBITMQ_CONFIG_FILE=" + in("rabbitmq.conf"),
		"RABBITMQ_ADVANCED_CONFIG_FILE=" + in("advanced.config"),
		"RABBITMQ_MNESIA_BASE=" + in("mnesia"), "RABBITMQ_LOG_BASE=" + in("log"),
		"RABBITMQ_ENABLED_PLUGINS_FILE=" + in("plugins"), "RABBITMQ_PID_FILE=" + in("pid"),
		"RABBITMQ_GENERATED_CONFIG_DIR=" + in("generated"), "RABBITMQ_SCHEMA_DIR=" + in("schema"),
	}
}

func (s *server) dial() (*amqp.Connection, error) {
	return amqp.DialConfig("amqp://"+s.addr+"/", amqp.Config{
		SASL:      []amqp.Authentication{&amqp.PlainAuth{Username: user, Password: password}},
		Heartbeat: time.Minute, // a machine busy with measuring may delay a heartbeat
		Dial:      amqp.DefaultDial(5 * time.Second),
	})
}

func (s *server) ready(context.Context) error {
	conn, err := s.dial()
	if err != nil {
		return err
	}
	return conn.Close()
}

// PIDs returns the process ids of the server and of its name service.
func (s *server) PIDs() []int { return append(s.broker.PIDs(), s.names.PIDs()...) }

// KillAll kills the server but not the name service, which would be a separate service on a machine of its own.
func (s *server) KillAll() error { return s.broker.KillAll() }

func (s *server) stop() error {
	var all error
	for _, p := range []*subject.Process{s.broker, s.names} {
		if p != nil {
			all = errors.Join(all, p.Stop())
		}
	}
	return all
}
