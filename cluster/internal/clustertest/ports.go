package clustertest

import (
	"fmt"
	"math/rand/v2"
	"net"
	"sync"
	"testing"
)

// Range of the ports of nodes on loopback. It is below the ports that the system gives to outgoing connections, of
// which other tests have many, and below those of package local.
const firstPort, endPort = 10_000, 20_000

// blockPorts is the number of ports that a process takes at a time.
const blockPorts = 50

// ports gives every port once. A node must find its port free whenever it starts, also after another test was looking
// for one while the node was down. So the ports belong to this process until it ends: it listens at the first port of
// each of its blocks, and gives away the others.
var ports struct {
	sync.Mutex
	guards []net.Listener // of the blocks
	next   int            // port to try, if it is below end
	end    int            // of the last block
}

// freePort picks an address before a node starts, so that other nodes can know it.
func freePort(t testing.TB) string {
	t.Helper()
	ports.Lock()
	defer ports.Unlock()
	for range endPort - firstPort {
		if ports.next == ports.end {
			takeBlock()
			continue
		}
		addr := addrOf(ports.next)
		ports.next++
		if l, err := net.Listen("tcp", addr); err == nil {
			_ = l.Close() // the node listens there
			return addr
		}
	}
	t.Fatalf("no free port from %d to %d", firstPort, endPort)
	return ""
}

// takeBlock tries to take a block at random. A block is free unless a process listens at its first port.
func takeBlock() {
	first := firstPort + blockPorts*rand.IntN((endPort-firstPort)/blockPorts)
	guard, err := net.Listen("tcp", addrOf(first))
	if err != nil {
		return // the block is another process's
	}
	ports.guards = append(ports.guards, guard)
	ports.next, ports.end = first+1, first+blockPorts
}

func addrOf(port int) string { return fmt.Sprintf("127.0.0.1:%d", port) }
