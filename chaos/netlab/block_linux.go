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

// Addresses are those that RFC 2544 keeps for laboratories, 198.18.0.0/15: the lower half in blocks of 256, one for
// each network towards its process, and the upper half inside of networks, the same in all of them.
const blocks = 256

// block is the part of the addresses, and of the interfaces' names, that one network on this machine has for itself.
type block struct {
	number int
	claim  net.Listener
}

// claimBlock takes a free block. The claim is an abstract socket, which the kernel frees with its process, however that
// ends. A block is also not free while interfaces are left in it, whose process died a moment ago.
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

// interfaceOf is the name of this process's end of the cable to the i-th host.
func (b *block) interfaceOf(i int) string { return fmt.Sprintf("bnl%d-%d", b.number, i) }

func (b *block) outside() netip.Addr { return netip.AddrFrom4([4]byte{198, 18, byte(b.number), 1}) }

func (b *block) host(i int) netip.Addr {
	return netip.AddrFrom4([4]byte{198, 18, byte(b.number), byte(firstHost + i)})
}

const firstHost = 10

func peerAddr(i int) netip.Addr { return netip.AddrFrom4([4]byte{198, 19, 0, byte(firstHost + i)}) }
