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
)

const (
	loopback   = "127.0.0.1"
	layoutFile = "local.json"
)

// layout is what a cluster's folder remembers of it: the addresses of its nodes, in order.
type layout struct {
	Nodes []addresses `json:"nodes"`
}

type addresses struct {
	HTTP string `json:"http"`
	Peer string `json:"peer"`
}

// openLayout reads the folder's layout, or makes and writes one. HTTP ports asked for replace those remembered.
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

// write replaces the file as a whole, so that a run that is killed leaves the old one or the new one.
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

// Ports are picked below the range from which systems take the ports of outgoing connections (32768 and up, 49152 and
// up): a node's port must still be free when the node comes back from a crash.
const firstPort, endPort = 20000, 32000

// FreeAddrs picks n addresses of loopback whose ports nobody uses now.
func FreeAddrs(n int) ([]string, error) {
	ports, err := freePorts(n)
	addrs := make([]string, len(ports))
	for i, port := range ports {
		addrs[i] = hostPort(port)
	}
	return addrs, err
}

// freePorts finds n ports that nobody uses now, neither over TCP nor over UDP, which gossip needs.
func freePorts(n int) ([]int, error) {
	var ports []int
	for tries := 0; len(ports) < n; tries++ {
		if tries == 100*n {
			return nil, fmt.Errorf("no %d free ports on %s between %d and %d", n, loopback, firstPort, endPort)
		}
		port := firstPort + rand.IntN(endPort-firstPort)
		release, err := occupy(port)
		if err != nil {
			continue // taken; another one will do
		}
		defer release() // only once all are found: none comes twice
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

func checkFree(addr string) error {
	l, err := net.Listen("tcp", addr)
	if err != nil {
		return fmt.Errorf("its address is taken (does another cluster run?): %w", err)
	}
	return l.Close()
}

func hostPort(port int) string { return net.JoinHostPort(loopback, strconv.Itoa(port)) }
