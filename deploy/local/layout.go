package local

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"time"
)

const (
	loopback   = "127.0.0.1"
	layoutFile = "local.json"
)

// layout is the content of the layout file: the addresses of the cluster's nodes, in order.
type layout struct {
	Nodes []addresses `json:"nodes"`
}

type addresses struct {
	HTTP string `json:"http"`
	Peer string `json:"peer"`
}

// openLayout reads the folder's layout, or makes and writes one. Config.HTTPPort replaces the stored HTTP ports.
func openLayout(cfg Config) (layout, error) {
	path := filepath.Join(cfg.DataDir, layoutFile)
	l, err := readLayout(path)
	if errors.Is(err, fs.ErrNotExist) {
		l, err = newLayout(cfg.Nodes)
	}
	if err != nil {
		return layout{}, err
	}
	if len(l.Nodes) != cfg.Nodes {
		return layout{}, fmt.Errorf("%s holds a cluster of %d nodes, not of %d", cfg.DataDir, len(l.Nodes), cfg.Nodes)
	}
	if cfg.HTTPPort != 0 {
		for i := range l.Nodes {
			l.Nodes[i].HTTP = hostPort(cfg.HTTPPort + i)
		}
	}
	return l, l.write(path)
}

func readLayout(path string) (layout, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return layout{}, err
	}
	var l layout
	if err := json.Unmarshal(data, &l); err != nil {
		return layout{}, fmt.Errorf("%s: %w", path, err)
	}
	return l, nil
}

// write replaces the file atomically, so that a killed run leaves the old file or the new one.
func (l layout) write(path string) error {
	data, err := json.MarshalIndent(l, "", "  ")
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	if err := os.WriteFile(path+".new", append(data, '\n'), 0o644); err != nil {
		return err
	}
	return os.Rename(path+".new", path)
}

func newLayout(nodes int) (layout, error) {
	addrs, err := FreeAddrs(2 * nodes)
	if err != nil {
		return layout{}, err
	}
	l := layout{Nodes: make([]addresses, nodes)}
	for i := range l.Nodes {
		l.Nodes[i] = addresses{HTTP: addrs[2*i], Peer: addrs[2*i+1]}
	}
	return l, nil
}

// Range of the ports that FreeAddrs picks. It is below the ports for outgoing connections (32768 and up, or 49152 and
// up), because a node's port must still be free when the node restarts after a crash.
const firstPort, endPort = 20000, 32000

// FreeAddrs returns n loopback addresses with unused ports.
func FreeAddrs(n int) ([]string, error) {
	ports, err := freePorts(n)
	addrs := make([]string, len(ports))
	for i, port := range ports {
		addrs[i] = hostPort(port)
	}
	return addrs, err
}

// freePorts returns n ports that are unused over both TCP and UDP. Gossip needs UDP.
func freePorts(n int) ([]int, error) {
	var ports []int
	for tries := 0; len(ports) < n; tries++ {
		if tries == 100*n {
			return nil, fmt.Errorf("no %d free ports on %s between %d and %d", n, loopback, firstPort, endPort)
		}
		port := firstPort + rand.IntN(endPort-firstPort)
		release, err := occupy(port)
		if err != nil {
			continue // already in use
		}
		defer release() // keeps a port from being picked twice
		ports = append(ports, port)
	}
	return ports, nil
}

func occupy(port int) (release func(), err error) {
	tcp, err := net.Listen("tcp", hostPort(port))
	if err != nil {
		return nil, err
	}
	udp, err := net.ListenPacket("udp", hostPort(port))
	if err != nil {
		_ = tcp.Close()
		return nil, err
	}
	return func() {
		_ = tcp.Close()
		_ = udp.Close()
	}, nil
}

// forkTime is how long a child may hold a copy of a socket that this process has closed: from the fork until the child
// runs its program.
const forkTime = time.Second

// checkFree returns an error if an address stays taken for longer than forkTime.
func checkFree(addr string) error {
	for began := time.Now(); ; time.Sleep(time.Millisecond) {
		l, err := net.Listen("tcp", addr)
		if err == nil {
			return l.Close()
		}
		if time.Since(began) > forkTime {
			return fmt.Errorf("its address is taken (does another cluster run?): %w", err)
		}
	}
}

func hostPort(port int) string { return net.JoinHostPort(loopback, strconv.Itoa(port)) }
