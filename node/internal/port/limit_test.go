package port

import (
	"io"
	"log/slog"
	"net"
	"testing"
)

// from is a listener whose connections come from given addresses.
type from struct {
	net.Listener
	addrs []string
}

func (f *from) Accept() (net.Conn, error) {
	if len(f.addrs) == 0 {
		return nil, net.ErrClosed
	}
	at, _ := net.Pipe()
	c := &remote{Conn: at, addr: &net.TCPAddr{IP: net.ParseIP(f.addrs[0]), Port: 1}}
	f.addrs = f.addrs[1:]
	return c, nil
}

type remote struct {
	net.Conn
	addr net.Addr
}

func (r *remote) RemoteAddr() net.Addr { return r.addr }

// TestLimit checks that connections are limited in all and for each network, and that closed ones make room.
func TestLimit(t *testing.T) {
	below := &from{addrs: []string{
		"10.0.0.1", "10.0.0.1", "10.0.0.1", "2001:db8::1", "2001:db8::2", "2001:db8::3", "127.0.0.1", "127.0.0.1", "127.0.0.1",
		"10.0.0.2",
	}}
	l := Limit(below, 7, 2, slog.New(slog.DiscardHandler))
	accept := func() (hosts []string, all []net.Conn) {
		for {
			c, err := l.Accept()
			if err != nil {
				return hosts, all
			}
			hosts, all = append(hosts, c.RemoteAddr().(*net.TCPAddr).IP.String()), append(all, c)
		}
	}
	hosts, all := accept()
	if len(hosts) != 7 || hosts[2] != "2001:db8::1" || hosts[4] != "127.0.0.1" || hosts[6] != "127.0.0.1" {
		t.Errorf("accepted %v", hosts)
	}
	for _, c := range all[:2] {
		for range 2 { // the second time changes nothing
			if err := c.Close(); err != nil && err != io.ErrClosedPipe {
				t.Error(err)
			}
		}
	}
	below.addrs = []string{"10.0.0.1", "10.0.0.2", "10.0.0.3"}
	if hosts, _ := accept(); len(hosts) != 2 {
		t.Errorf("after two were closed: %v", hosts)
	}
}
