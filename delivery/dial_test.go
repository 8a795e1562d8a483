package delivery

import (
	"context"
	"errors"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/net/dns/dnsmessage"

	"github.com/belfryhq/belfry/fsm/task"
	"github.com/belfryhq/belfry/internal/assert"
)

// nameServer is a DNS server on loopback.
type nameServer struct {
	addr    string
	lookups atomic.Int64 // of IPv4 addresses
}

// fixed returns a function that answers every look-up with addrs.
func fixed(addrs ...string) func(int64) []string { return func(int64) []string { return addrs } }

// dnsServer starts a DNS server that answers the nth address look-up (from 1) of any name with answer(n).
func dnsServer(t testing.TB, answer func(n int64) []string) *nameServer {
	t.Helper()
	conn, err := net.ListenPacket("udp", "127.0.0.1:0")
	assert.NoError(t, err)
	t.Cleanup(func() { _ = conn.Close() })
	s := &nameServer{addr: conn.LocalAddr().String()}
	go s.serve(conn, answer)
	return s
}

// resolver returns a resolver that queries only s.
func (s *nameServer) resolver() *net.Resolver {
	return &net.Resolver{PreferGo: true, Dial: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "udp", s.addr)
	}}
}

// deafResolver returns a resolver whose server never answers.
func deafResolver(t testing.TB) *net.Resolver {
	conn, err := net.ListenPacket("udp", "127.0.0.1:0")
	assert.NoError(t, err)
	t.Cleanup(func() { _ = conn.Close() })
	return (&nameServer{addr: conn.LocalAddr().String()}).resolver()
}

func (s *nameServer) serve(conn net.PacketConn, answer func(int64) []string) {
	buf := make([]byte, 1500)
	for {
		n, from, err := conn.ReadFrom(buf)
		if err != nil {
			return
		}
		var m dnsmessage.Message
		if m.Unpack(buf[:n]) != nil || len(m.Questions) != 1 {
			continue
		}
		if reply, err := s.reply(m, answer); err == nil {
			_, _ = conn.WriteTo(reply, from)
		}
	}
}

func (s *nameServer) reply(m dnsmessage.Message, answer func(int64) []string) ([]byte, error) {
	q := m.Questions[0]
	out := dnsmessage.Message{
		Header:    dnsmessage.Header{ID: m.ID, Response: true, Authoritative: true, RecursionAvailable: true},
		Questions: m.Questions,
	}
	n := s.lookups.Load()
	if q.Type == dnsmessage.TypeA {
		n = s.lookups.Add(1)
	}
	addrs := answer(max(n, 1))
	if len(addrs) == 0 {
		out.RCode = dnsmessage.RCodeNameError
	}
	for _, text := range addrs {
		var body dnsmessage.ResourceBody
		switch a := netip.MustParseAddr(text); {
		case a.Is4() && q.Type == dnsmessage.TypeA:
			body = &dnsmessage.AResource{A: a.As4()}
		case a.Is6() && q.Type == dnsmessage.TypeAAAA:
			body = &dnsmessage.AAAAResource{AAAA: a.As16()}
		default:
			continue
		}
		out.Answers = append(out.Answers, dnsmessage.Resource{
			Header: dnsmessage.ResourceHeader{Name: q.Name, Class: q.Class}, Body: body,
		})
	}
	return out.Pack()
}

func portOf(t testing.TB, url string) string {
	t.Helper()
	_, port, err := net.SplitHostPort(strings.TrimPrefix(url, "http://"))
	assert.NoError(t, err)
	return port
}

func TestNames(t *testing.T) {
	url := serve(t, answer(200, nil, ""))
	// The text does not tell the address of the name.
	refused := task.Outcome{Permanent: true,
		Error: "refused: shop.test leads to no public address: only an operator can allow it, with --allow-webhook-cidr"}
	tests := map[string]struct {
		addrs []string
		want  task.Outcome
	}{
		"allowed":                 {[]string{"127.0.0.1"}, task.Outcome{Delivered: true}},
		"private":                 {[]string{"10.0.0.7"}, refused},
		"metadata service":        {[]string{"169.254.169.254"}, refused},
		"loopback beside allowed": {[]string{"127.0.0.2"}, refused},
		"two refused":             {[]string{"10.0.0.7", "192.168.0.1"}, refused},
		"refused first":           {[]string{"10.0.0.7", "127.0.0.1"}, task.Outcome{Delivered: true}},
		"IPv6 loopback":           {[]string{"::1"}, refused},
		"IPv4 in IPv6":            {[]string{"::ffff:10.0.0.7"}, refused},
		"NAT64":                   {[]string{"64:ff9b::a9fe:a9fe"}, refused},
		"private of both kinds":   {[]string{"fd00::1", "127.0.0.1"}, task.Outcome{Delivered: true}},
		"unknown name":            {nil, task.Outcome{Error: "no such host: shop.test"}},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			w := newWebhook(t, func(c *Config) {
				c.AllowCIDRs = prefixes(t, "127.0.0.1/32", "127.0.0.3/32")
				c.Resolver = dnsServer(t, fixed(test.addrs...)).resolver()
			})
			assert.Equal(t, w.Deliver(t.Context(), attemptOf("http://shop.test:"+portOf(t, url))), test.want, "outcome")
		})
	}
}

// TestRefusedAndDown checks that a name with an allowed address counts as down, not as refused, in any order of its
// addresses.
func TestRefusedAndDown(t *testing.T) {
	down := portOf(t, receiverThatIsDown(t))
	for _, addrs := range [][]string{{"10.0.0.7", "127.0.0.1"}, {"127.0.0.1", "10.0.0.7"}, {"203.0.113.9", "127.0.0.1"}} {
		w := newWebhook(t, func(c *Config) { c.Resolver = dnsServer(t, fixed(addrs...)).resolver() })
		out := w.Deliver(t.Context(), attemptOf("http://shop.test:"+down))
		if out != (task.Outcome{Error: "connection refused"}) && out != (task.Outcome{Error: "could not connect"}) {
			t.Errorf("%v: outcome %+v", addrs, out)
		}
	}
}

// TestExplain covers the errors that net.Dialer may report: the first one, or the first family's, regardless of the
// other addresses.
func TestExplain(t *testing.T) {
	refusal := &net.OpError{Op: "dial", Err: errRefused}
	down := &net.OpError{Op: "dial", Err: syscall.ECONNREFUSED}
	private := netip.MustParseAddr("10.0.0.7")
	tests := map[string]struct {
		notes   []string // kinds
		err     error
		refused bool
	}{
		"all refused":                {[]string{"private", "private"}, refusal, true},
		"refused, then down":         {[]string{"private", ""}, refusal, false},
		"down, then refused":         {[]string{"", "private"}, down, false},
		"down":                       {[]string{""}, down, false},
		"no time after the refusals": {[]string{"private"}, context.DeadlineExceeded, false},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			var seen candidates
			for _, kind := range test.notes {
				seen.note(private, kind)
			}
			var refused *refusedError
			assert.Equal(t, errors.As(seen.explain("shop.test:80", test.err), &refused), test.refused, "refused")
		})
	}
}

// TestDialEndsWithTheAttempt checks that a dial has the attempt's deadline, which net.Dialer divides among addresses.
func TestDialEndsWithTheAttempt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := &dialer{timeout: time.Hour}
		for _, left := range []time.Duration{time.Minute, 2 * time.Hour} {
			deadline := time.Now().Add(left)
			ctx, release := d.bound(context.WithoutCancel(withAttempt(t.Context(), deadline)))
			end, ok := ctx.Deadline()
			if want := min(left, time.Hour); !ok || time.Until(end) != want {
				t.Errorf("with %v left the dial has %v", left, time.Until(end))
			}
			release()
		}
	})
}

// TestRebinding uses a name that resolves to an allowed address at first, and to a refused one later.
func TestRebinding(t *testing.T) {
	good := serve(t, answer(200, map[string]string{"Connection": "close"}, ""))
	bad, err := net.Listen("tcp", "127.0.0.2:"+portOf(t, good))
	if err != nil {
		t.Skip("no second loopback address here: ", err)
	}
	accept(t, bad, func(net.Conn) { t.Error("the refused address was connected to") })
	names := dnsServer(t, func(n int64) []string {
		if n == 1 {
			return []string{"127.0.0.1"}
		}
		return []string{"127.0.0.2"}
	})
	w := newWebhook(t, func(c *Config) {
		c.AllowCIDRs = prefixes(t, "127.0.0.1/32")
		c.Resolver = names.resolver()
	})
	url := "http://rebind.test:" + portOf(t, good)
	if err := NewGuard(nil).CheckURL(url); err != nil {
		t.Fatal(err)
	}
	if out := w.Deliver(t.Context(), attemptOf(url)); !out.Delivered {
		t.Fatalf("outcome %+v", out)
	}
	for range 3 {
		if out := w.Deliver(t.Context(), attemptOf(url)); !out.Permanent || strings.Contains(out.Error, "127.0.0.2") || !strings.Contains(out.Error, "no public address") {
			t.Fatalf("outcome %+v", out)
		}
	}
	assert.Equal(t, names.lookups.Load(), 4, "look-ups")
}

// TestRebindingFromPublic uses a name that resolves to a public address at first and to loopback later, and a name that
// resolves to both at once. The test ends each dial that the guard has passed, so that nothing is sent to the public
// address.
func TestRebindingFromPublic(t *testing.T) {
	const public = "8.8.8.8"
	private := listen(t, func(net.Conn) { t.Error("the private address was connected to") })
	port := private[strings.LastIndexByte(private, ':')+1:]
	passed := errors.New("passed by the guard")
	tests := map[string]struct {
		answer func(int64) []string
		want   []string // of each dial: the address that passed, or the refusal's beginning
	}{
		"changes": {func(n int64) []string {
			if n == 1 {
				return []string{public}
			}
			return []string{"127.0.0.1"}
		}, []string{public, "refused: rebind.test leads to no public", "refused: rebind.test leads to no public"}},
		"leads to both":           {fixed("127.0.0.1", public), []string{public, public}},
		"leads to both, IPv6 too": {fixed("::1", "::ffff:127.0.0.1", public), []string{public}},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			d := newDialer(Config{ConnectTimeout: 5 * time.Second, Resolver: dnsServer(t, test.answer).resolver()})
			reached := make(chan string, 1)
			d.net.ControlContext = func(ctx context.Context, network, address string, c syscall.RawConn) error {
				if err := d.control(ctx, network, address, c); err != nil {
					return err
				}
				reached <- address
				return passed
			}
			for i, want := range test.want {
				_, err := d.dial(t.Context(), "tcp", "rebind.test:"+port)
				got := err.Error()
				var refused *refusedError
				if !errors.As(err, &refused) {
					got, _, _ = net.SplitHostPort(<-reached)
				}
				if !strings.HasPrefix(got, want) {
					t.Errorf("dial %d: %q, want %q", i+1, got, want)
				}
			}
		})
	}
}

// TestLiteralsAreCheckedAtDial checks literal addresses at the dial too: a task may be older than the present
// --allow-webhook-cidr.
func TestLiteralsAreCheckedAtDial(t *testing.T) {
	url := serve(t, func(http.ResponseWriter, *http.Request) { t.Error("reached") })
	port := portOf(t, url)
	w := newWebhook(t, func(c *Config) { c.AllowCIDRs = nil; c.Resolver = dnsServer(t, fixed()).resolver() })
	for _, host := range []string{
		"127.0.0.1", "[::1]", "[::ffff:127.0.0.1]", "[::ffff:7f00:1]", "0.0.0.0", "[::]", "[64:ff9b::7f00:1]",
		"[::127.0.0.1]", "[2002:7f00:1::]", "[2001:0:7f00:1::]", "LOCALHOST", "8.8.8.8@127.0.0.1", "127.0.0.1:80@[::1]", "[::1%25lo]", "[fe80::1%25lo]", "localhost", "１２７.0.0.1", "10.0.0.1", "169.254.169.254",
		"255.255.255.255",
	} {
		out := w.Deliver(t.Context(), attemptOf("http://"+host+":"+port))
		if !out.Permanent || !strings.Contains(out.Error, "--allow-webhook-cidr") {
			t.Errorf("%s: outcome %+v", host, out)
		}
	}
	// Go's resolver treats these hosts as names. A resolver that did not would still only reach the guard.
	for _, host := range []string{
		"2130706433", "0x7f.1", "0177.0.0.1", "127.1", "127.0.0.1.", "127.0.0.1..", "0X7F000001", "017700000001", "0",
		"6425673729",
	} {
		if out := w.Deliver(t.Context(), attemptOf("http://"+host+":"+port)); out.Delivered {
			t.Errorf("%s: outcome %+v", host, out)
		}
	}
}

// TestNobodyDialsPastTheGuard checks that a dial without candidates, a mistake in this package, is refused.
func TestNobodyDialsPastTheGuard(t *testing.T) {
	url := serve(t, answer(200, nil, ""))
	d := newDialer(Config{AllowCIDRs: loopback, ConnectTimeout: time.Second})
	if c, err := d.net.Dial("tcp", strings.TrimPrefix(url, "http://")); err == nil {
		_ = c.Close()
		t.Error("connected")
	}
}
