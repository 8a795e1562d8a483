package netlab

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"strconv"
	"syscall"

	"github.com/vishvananda/netlink"
)

// blocks is the number of address blocks. RFC 2544 reserves 198.18.0.0/15 for laboratories. The lower half has a block
// of 256 addresses for each network, for the cables to its process. All networks use the same upper half between their
// hosts.
const blocks = 256

// block is one network's share of this machine's addresses and interface names.
type block struct {
	number int
	claim  net.Listener
}

// claimBlock claims a free block. The claim is an abstract socket, which the kernel frees when the process ends,
// however it ends. A block is not free while it has interfaces of a process that died a moment ago.
func claimBlock() (*block, error) {
	var lc net.ListenConfig
	for number := range blocks {
		claim, err := lc.Listen(context.Background(), "unix", "@belfry-netlab-"+strconv.Itoa(number))
		if errors.Is(err, syscall.EADDRINUSE) {
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("claiming addresses: %w", err)
		}
		b := &block{number: number, claim: claim}
		if !b.inUse() {
			return b, nil
		}
		if err := b.close(); err != nil {
			return nil, err
		}
	}
	return nil, fmt.Errorf("all %d blocks of addresses are taken", blocks)
}

func (b *block) inUse() bool {
	_, err := netlink.LinkByName(b.interfaceOf(0))
	return err == nil
}

func (b *block) close() error { return b.claim.Close() }

// interfaceOf returns the name of this process's end of the cable to the i-th host.
func (b *block) interfaceOf(i int) string { return fmt.Sprintf("bnl%d-%d", b.number, i) }

func (b *block) outside() netip.Addr { return netip.AddrFrom4([4]byte{198, 18, byte(b.number), 1}) }

func (b *block) host(i int) netip.Addr {
	return netip.AddrFrom4([4]byte{198, 18, byte(b.number), byte(firstHost + i)})
}

const firstHost = 10

func peerAddr(i int) netip.Addr { return netip.AddrFrom4([4]byte{198, 19, 0, byte(firstHost + i)}) }
