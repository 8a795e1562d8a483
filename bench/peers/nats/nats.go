package nats

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/belfryhq/belfry/bench/peers/installed"
	"github.com/belfryhq/belfry/bench/subject"
	"github.com/belfryhq/belfry/deploy/local"
)

type natsSubject struct {
	nodes int
	sync  string // sync interval in the configuration; empty: the server's default
}

// OneNode returns a single server that syncs each write.
func OneNode() subject.Subject { return natsSubject{nodes: 1, sync: "always"} }

// ThreeNodes returns three servers that replicate the stream, with the default sync interval.
func ThreeNodes() subject.Subject { return natsSubject{nodes: 3} }

func (s natsSubject) Name() string {
	if s.nodes == 1 {
		return "NATS JetStream, 1 node, sync " + s.sync
	}
	return fmt.Sprintf("NATS JetStream, %d nodes", s.nodes)
}

func (s natsSubject) Promise() subject.Promise {
	fsync := subject.FsyncNone
	if s.sync == "always" {
		fsync = subject.FsyncEachWrite
	}
	return subject.Promise{Nodes: s.nodes, Replicated: s.nodes > 1, Fsync: fsync}
}

func (natsSubject) Missing() string {
	if _, err := installed.NATS(); err != nil {
		return err.Error()
	}
	return ""
}

func (s natsSubject) Start(ctx context.Context, dir string) (subject.Service, error) {
	program, err := installed.NATS()
	if err != nil {
		return nil, err
	}
	addrs, err := local.FreeAddrs(2 * s.nodes) // for clients and for the cluster's routes
	if err != nil {
		return nil, err
	}
	v := &service{urls: urls(addrs[:s.nodes])}
	for i := range s.nodes {
		if err := v.launch(ctx, program, filepath.Join(dir, nodeName(i)), s.config(i, addrs)); err != nil {
			return nil, errors.Join(err, v.Stop())
		}
	}
	if err := v.createStream(ctx); err != nil {
		return nil, errors.Join(err, v.Stop())
	}
	if s.nodes > 1 {
		return cluster{v}, nil
	}
	return v, nil
}

func nodeName(i int) string { return fmt.Sprintf("n%d", i+1) }

func urls(addrs []string) []string {
	out := make([]string, len(addrs))
	for i, addr := range addrs {
		out[i] = "nats://" + addr
	}
	return out
}

// config returns a node's configuration file. The server's working folder is the node's.
func (s natsSubject) config(node int, addrs []string) string {
	var b strings.Builder
	fmt.Fprintf(&b, "server_name: %s\nlisten: %q\njetstream {\n  store_dir: store\n", nodeName(node), addrs[node])
	if s.sync != "" {
		fmt.Fprintf(&b, "  sync_interval: %s\n", s.sync)
	}
	b.WriteString("}\n")
	if s.nodes > 1 {
		fmt.Fprintf(&b, "cluster {\n  name: bench\n  listen: %q\n  routes: [\n", addrs[s.nodes+node])
		for _, url := range urls(addrs[s.nodes:]) {
			fmt.Fprintf(&b, "    %q\n", url)
		}
		b.WriteString("  ]\n}\n")
	}
	return b.String()
}

// launch starts a node without waiting for it. createStream waits for the cluster.
func (v *service) launch(ctx context.Context, program, dir, config string) error {
	if err := os.Mkdir(dir, 0o755); err != nil {
		return err
	}
	const file = "nats.conf"
	if err := os.WriteFile(filepath.Join(dir, file), []byte(config), 0o644); err != nil {
		return err
	}
	node, err := subject.Run(ctx, subject.Command{Args: []string{program, "-c", file}, Dir: dir})
	if err != nil {
		return err
	}
	v.nodes = append(v.nodes, node)
	return nil
}
