package netlab

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"syscall"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netns"
	"golang.org/x/sys/unix"
)

// The names of the interfaces inside a host.
const (
	outsideInterface = "outside"
	peerInterface    = "peers"
)

// peerMTU is the largest MTU that the kernel allows for a TAP. Fewer frames mean less work for the switch.
const peerMTU = 65521

// host is a network namespace without a name. It lives as long as a process runs in it or this process has it open.
type host struct {
	Host
	port    *os.File // one frame for each read and each write
	outside cable

	ns      netns.NsHandle
	inside  *netlink.Handle
	index   int
	block   *block
	near    netlink.Link // this process's end of the cable
	far     netlink.Link
	nearMAC mac
	farMAC  mac
}

func newHost(b *block, i, hosts int) (*host, error) {
	nsenter, err := exec.LookPath("nsenter")
	if err != nil {
		return nil, err
	}
	h := &host{block: b, index: i}
	h.outside.set = h.cutOutside
	h.nearMAC, h.farMAC = mac{0x02, 0xbe, 0x1f, 1, 0, byte(i)}, mac{0x02, 0xbe, 0x1f, 2, 0, byte(i)}
	if h.ns, h.port, err = openNamespace(); err != nil {
		return nil, err
	}
	if h.inside, err = netlink.NewHandleAt(h.ns); err != nil {
		return nil, errors.Join(err, h.close())
	}
	if err := errors.Join(h.up("lo"), h.joinPeers(hosts), h.joinOutside()); err != nil {
		return nil, errors.Join(err, h.close())
	}
	h.Host = Host{
		Addr: b.host(i), PeerAddr: peerAddr(i),
		Command: []string{nsenter, fmt.Sprintf("--net=/proc/%d/fd/%d", os.Getpid(), int(h.ns))},
	}
	return h, nil
}

// openNamespace makes a network namespace with a TAP in it. It needs a thread inside the namespace. That thread serves
// no other goroutine, and ends with its own.
func openNamespace() (ns netns.NsHandle, port *os.File, err error) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		runtime.LockOSThread()
		if ns, err = netns.New(); err != nil {
			err = fmt.Errorf("making a network namespace: %w", err)
			return
		}
		if port, err = openTAP(peerInterface); err != nil {
			err = errors.Join(err, ns.Close())
		}
	}()
	<-done
	return ns, port, err
}

const tunDevice = "/dev/net/tun"

func openTAP(name string) (*os.File, error) {
	fd, err := unix.Open(tunDevice, unix.O_RDWR|unix.O_CLOEXEC|unix.O_NONBLOCK, 0)
	if err != nil {
		return nil, fmt.Errorf("opening %s: %w", tunDevice, err)
	}
	request, err := unix.NewIfreq(name)
	if err == nil {
		request.SetUint16(unix.IFF_TAP | unix.IFF_NO_PI)
		err = unix.IoctlIfreq(fd, unix.TUNSETIFF, request)
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("making a TAP: %w", err), unix.Close(fd))
	}
	return os.NewFile(uintptr(fd), tunDevice), nil
}

func (h *host) up(name string) error {
	link, err := h.inside.LinkByName(name)
	if err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	return h.inside.LinkSetUp(link)
}

// joinPeers makes the TAP the route to the other hosts, whose Ethernet addresses are known beforehand.
func (h *host) joinPeers(hosts int) error {
	link, err := h.inside.LinkByName(peerInterface)
	if err != nil {
		return err
	}
	own := hostMAC(h.index)
	err = errors.Join(
		h.inside.LinkSetMTU(link, peerMTU),
		h.inside.LinkSetHardwareAddr(link, own[:]),
		h.inside.AddrAdd(link, &netlink.Addr{IPNet: network(peerAddr(h.index), 24)}),
		h.inside.LinkSetUp(link),
	)
	if err != nil {
		return fmt.Errorf("joining the peers: %w", err)
	}
	for i := range hosts {
		if i == h.index {
			continue
		}
		if err := setNeighbour(h.inside, link, peerAddr(i), hostMAC(i)); err != nil {
			return err
		}
	}
	return nil
}

// joinOutside connects the host with this process's own namespace by a cable.
func (h *host) joinOutside() error {
	name := h.block.interfaceOf(h.index)
	err := netlink.LinkAdd(&netlink.Veth{
		LinkAttrs: netlink.LinkAttrs{Name: name, HardwareAddr: h.nearMAC[:]},
		PeerName:  outsideInterface, PeerHardwareAddr: h.farMAC[:], PeerNamespace: netlink.NsFd(h.ns),
	})
	if err != nil {
		return fmt.Errorf("laying the cable %s: %w", name, err)
	}
	if h.near, err = netlink.LinkByName(name); err != nil {
		return err
	}
	if h.far, err = h.inside.LinkByName(outsideInterface); err != nil {
		return err
	}
	here, there := network(h.block.outside(), 32), network(h.block.host(h.index), 32)
	return errors.Join(
		netlink.AddrAdd(h.near, &netlink.Addr{IPNet: here, Peer: there}),
		netlink.LinkSetUp(h.near),
		h.inside.AddrAdd(h.far, &netlink.Addr{IPNet: there, Peer: here}),
		h.inside.LinkSetUp(h.far),
		h.cutOutside(false, false),
	)
}

// nowhere is an Ethernet address without an owner: frames to it vanish.
var nowhere = mac{0x02, 0xbe, 0x1f, 0xff, 0xff, 0xff}

// cutOutside cuts the cable: it gives one end a wrong address of the other. A cut cable is silent like a broken
// network, unlike an interface that is down, and it can be cut in one direction alone.
func (h *host) cutOutside(toHost, fromHost bool) error {
	near, far := h.nearMAC, h.farMAC
	if toHost {
		far = nowhere
	}
	if fromHost {
		near = nowhere
	}
	root, err := netlink.NewHandle()
	if err != nil {
		return err
	}
	defer root.Close()
	return errors.Join(
		setNeighbour(root, h.near, h.block.host(h.index), far),
		setNeighbour(h.inside, h.far, h.block.outside(), near),
	)
}

func setNeighbour(in *netlink.Handle, link netlink.Link, addr netip.Addr, m mac) error {
	err := in.NeighSet(&netlink.Neigh{
		LinkIndex: link.Attrs().Index, State: netlink.NUD_PERMANENT, IP: addr.AsSlice(), HardwareAddr: m[:],
	})
	if err != nil {
		return fmt.Errorf("telling the way to %v: %w", addr, err)
	}
	return nil
}

func network(addr netip.Addr, bits int) *net.IPNet {
	return &net.IPNet{IP: addr.AsSlice(), Mask: net.CIDRMask(bits, 32)}
}

// close takes the host down. Its namespace vanishes with the last process in it.
func (h *host) close() error {
	failed := []error{h.port.Close()}
	if h.near != nil {
		failed = append(failed, netlink.LinkDel(h.near))
	}
	if h.inside != nil {
		h.inside.Close()
	}
	return errors.Join(append(failed, h.ns.Close())...)
}

// Supported returns an error about a missing requirement, and nil if networks can be made here. It makes a network and
// takes it down again.
func Supported() error {
	if os.Geteuid() != 0 {
		return errors.New("netlab: network namespaces and interfaces need root; this is user " + strconv.Itoa(os.Geteuid()))
	}
	n, err := New(Config{Hosts: []string{"probe"}})
	if err != nil {
		return err
	}
	return n.Close()
}

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
