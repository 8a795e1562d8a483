package netlab

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netns"

	"github.com/belfryhq/belfry/internal/assert"
	"github.com/belfryhq/belfry/internal/gated"
)

func open(t testing.TB, hosts ...string) *Network {
	t.Helper()
	gated.NeedRoot(t, Supported)
	n, err := New(Config{Hosts: hosts, Seed: 1})
	assert.NoError(t, err)
	t.Cleanup(func() {
		assert.Equal(t, n.Close(), nil)
	})
	return n
}

// runOn runs code on a host. The sockets that the code makes stay on that host.
func runOn[T any](t testing.TB, n *Network, name string, do func() (T, error)) (result T) {
	t.Helper()
	var err error
	done := make(chan struct{})
	go func() {
		defer close(done)
		runtime.LockOSThread() // stays locked: the thread ends with its goroutine
		if err = netns.Set(n.hosts[n.index(name)].ns); err == nil {
			result, err = do()
		}
	}()
	if <-done; err != nil {
		t.Fatalf("on %s: %v", name, err)
	}
	return result
}

func listen(t testing.TB, n *Network, name string, addr netip.Addr) net.Listener {
	t.Helper()
	l := runOn(t, n, name, func() (net.Listener, error) { return net.Listen("tcp", net.JoinHostPort(addr.String(), "0")) })
	t.Cleanup(func() { _ = l.Close() })
	return l
}

func packets(t testing.TB, n *Network, name string) *net.UDPConn {
	t.Helper()
	c := runOn(t, n, name, func() (*net.UDPConn, error) {
		return net.ListenUDP("udp", net.UDPAddrFromAddrPort(netip.AddrPortFrom(n.Host(name).PeerAddr, 0)))
	})
	t.Cleanup(func() { _ = c.Close() })
	return c
}

// echo sends all bytes of each connection back.
func echo(l net.Listener) {
	for {
		c, err := l.Accept()
		if err != nil {
			return
		}
		go func() {
			_, _ = io.Copy(c, c)
			_ = c.Close()
		}()
	}
}

// receives reports whether a packet comes soon.
func receives(t *testing.T, c *net.UDPConn, want string) bool {
	t.Helper()
	assert.NoError(t, c.SetReadDeadline(time.Now().Add(200*time.Millisecond)))
	got := make([]byte, 1500)
	for {
		n, err := c.Read(got)
		if errors.Is(err, os.ErrDeadlineExceeded) {
			return false
		}
		assert.NoError(t, err)
		if string(got[:n]) == want {
			return true
		}
	}
}

func sendText(t *testing.T, from, to *net.UDPConn, text string) {
	t.Helper()
	_, err := from.WriteTo([]byte(text), to.LocalAddr())
	assert.NoError(t, err)
}

func TestOneWay(t *testing.T) {
	n := open(t, "a", "b", "c")
	a, b, c := packets(t, n, "a"), packets(t, n, "b"), packets(t, n, "c")
	expect := func(when string, from, to *net.UDPConn, want bool) {
		t.Helper()
		sendText(t, from, to, when)
		assert.Equal(t, receives(t, to, when), want, "%s: heard", when)
	}
	expect("sound, a to b", a, b, true)
	lift := n.Impair("a", "b", Quality{Cut: true})
	expect("cut, a to b", a, b, false)
	expect("cut, b to a", b, a, true)
	expect("cut, a to c", a, c, true)
	expect("cut, c to b", c, b, true)
	if lost := n.line("a", "b").counts().Lost; lost == 0 {
		t.Error("the line counts no lost frame")
	}
	lift()
	expect("lifted, a to b", a, b, true)
	n.Impair("b", "a", Quality{Loss: 1})
	expect("all lost, b to a", b, a, false)
	assert.Equal(t, n.Heal(), nil)
	expect("healed, b to a", b, a, true)
}

// TCP delivers all bytes through a network that loses, delays, doubles and reorders packets.
func TestStreamSurvivesBadNetwork(t *testing.T) {
	n := open(t, "a", "b")
	for _, way := range [][2]string{{"a", "b"}, {"b", "a"}} {
		n.Impair(way[0], way[1], Quality{
			Delay: time.Millisecond, Jitter: 2 * time.Millisecond, Loss: 0.02, Duplicate: 0.05, Reorder: 0.05,
		})
	}
	l := listen(t, n, "b", n.Host("b").PeerAddr)
	go echo(l)
	c := runOn(t, n, "a", func() (net.Conn, error) { return net.DialTimeout("tcp", l.Addr().String(), 20*time.Second) })
	defer c.Close()
	sent := make([]byte, 8<<20)
	rng := rand.NewChaCha8([32]byte{1})
	_, _ = rng.Read(sent)
	go func() {
		_, _ = c.Write(sent)
		_ = c.(*net.TCPConn).CloseWrite()
	}()
	assert.NoError(t, c.SetReadDeadline(time.Now().Add(time.Minute)))
	got, err := io.ReadAll(c)
	if err != nil || !bytes.Equal(got, sent) {
		t.Errorf("%d bytes of %d came back: %v", len(got), len(sent), err)
	}
	if s := n.line("a", "b").counts(); s.Lost == 0 || s.Duplicated == 0 || s.Reordered == 0 {
		t.Errorf("the network was not as bad as it should be: %+v", s)
	}
}

// A host that is cut off from outside does not refuse; it is silent, whichever direction is cut.
func TestCutOffFromOutside(t *testing.T) {
	n := open(t, "a", "b")
	l := listen(t, n, "a", n.Host("a").Addr)
	go echo(l)
	for _, cut := range []struct{ to, from bool }{{true, true}, {true, false}, {false, true}} {
		lift, err := n.CutOutside("a", cut.to, cut.from)
		assert.NoError(t, err)
		c, err := net.DialTimeout("tcp", l.Addr().String(), 200*time.Millisecond)
		if timeout := net.Error(nil); !errors.As(err, &timeout) || !timeout.Timeout() {
			t.Errorf("%+v: %v, %v", cut, c, err)
		}
		assert.NoError(t, lift())
		c, err = net.DialTimeout("tcp", l.Addr().String(), 10*time.Second)
		assert.NoError(t, err, "lifted")
		_ = c.Close()
	}
}

func TestHostsReachOutside(t *testing.T) {
	n, other := open(t, "a", "b"), open(t, "a")
	if n.Outside() == other.Outside() || n.Host("a").Addr == other.Host("a").Addr {
		t.Error("two networks have the same addresses")
	}
	l, err := net.Listen("tcp", net.JoinHostPort(n.Outside().String(), "0"))
	assert.NoError(t, err)
	defer l.Close()
	go echo(l)
	for _, name := range []string{"a", "b"} {
		c := runOn(t, n, name, func() (net.Conn, error) { return net.DialTimeout("tcp", l.Addr().String(), 10*time.Second) })
		_, _ = io.WriteString(c, name)
		_ = c.(*net.TCPConn).CloseWrite()
		if got, err := io.ReadAll(c); string(got) != name || err != nil {
			t.Errorf("%q: %q, %v", name, got, err)
		}
		_ = c.Close()
	}
}

// A command on a host keeps the process that was started, so signals reach the command.
func TestCommandKeepsItsProcess(t *testing.T) {
	n := open(t, "a")
	command := slices.Concat(n.Host("a").Command, []string{"sh", "-c", "echo $$; cat /proc/net/dev"})
	cmd := exec.CommandContext(t.Context(), command[0], command[1:]...)
	out, err := cmd.CombinedOutput()
	assert.NoError(t, err, "%s", out)
	pid, devices, _ := strings.Cut(string(out), "\n")
	if pid != fmt.Sprint(cmd.Process.Pid) {
		t.Errorf("process %d runs process %s", cmd.Process.Pid, pid)
	}
	assert.Contains(t, devices, peerInterface+":", "the command runs elsewhere")
}

func TestCloseLeavesNothing(t *testing.T) {
	n := open(t, "a", "b")
	near := n.block.interfaceOf(0)
	other, err := New(Config{Hosts: []string{"a", "b"}})
	assert.NoError(t, err)
	gone := other.block.interfaceOf(1)
	assert.Equal(t, other.Close(), nil)
	if _, err := netlink.LinkByName(gone); !errors.As(err, new(netlink.LinkNotFoundError)) {
		t.Errorf("%s is left: %v", gone, err)
	}
	if _, err := netlink.LinkByName(near); err != nil {
		t.Errorf("the interface of another network is gone: %v", err)
	}
}

const helperVar = "BELFRY_NETLAB_HELPER" // set: open a network, print its interface, and wait to be killed

// The kernel cleans up after a harness that is killed.
func TestKilledHarnessLeavesNothing(t *testing.T) {
	if os.Getenv(helperVar) != "" {
		n := open(t, "a", "b")
		fmt.Printf("open %s\n", n.block.interfaceOf(1))
		select {}
	}
	gated.NeedRoot(t, Supported)
	helper := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestKilledHarnessLeavesNothing$")
	helper.Env = append(os.Environ(), helperVar+"=1")
	helper.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	out, err := helper.StdoutPipe()
	assert.NoError(t, err)
	assert.NoError(t, helper.Start())
	name := ""
	for lines := bufio.NewScanner(out); name == "" && lines.Scan(); {
		_, name, _ = strings.Cut(lines.Text(), "open ")
	}
	if _, err := netlink.LinkByName(name); err != nil {
		t.Errorf("%q: %v", name, err)
	}
	assert.NoError(t, helper.Process.Kill())
	assert.Error(t, helper.Wait(), "the helper was not killed")
	deadline := time.After(20 * time.Second)
	for tick := time.NewTicker(20 * time.Millisecond); ; {
		_, err := netlink.LinkByName(name)
		if errors.As(err, new(netlink.LinkNotFoundError)) {
			break
		}
		select {
		case <-tick.C:
		case <-deadline:
			t.Fatalf("%s is left: %v", name, err)
		}
	}
}
