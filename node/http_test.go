package node

import (
	"log/slog"
	"net"
	"os"
	"strings"
	"testing"
)

func TestOpenAddressIsWarnedOf(t *testing.T) {
	for addr, warned := range map[string]bool{"127.0.0.1:0": false, "[::1]:0": false, "0.0.0.0:0": true, ":0": true} {
		l, err := net.Listen("tcp", addr)
		if err != nil {
			t.Fatal(err)
		}
		var log strings.Builder
		n := Node{listener: l, log: slog.New(slog.NewTextHandler(&log, nil))}
		n.warnOpen()
		if err := l.Close(); err != nil {
			t.Fatal(err)
		}
		if got := strings.Contains(log.String(), "level=WARN") && strings.Contains(log.String(), "without authentication"); got != warned {
			t.Errorf("%s: %q", addr, log.String())
		}
	}
}

func TestAdvertised(t *testing.T) {
	host, err := os.Hostname()
	if err != nil {
		t.Skip(err)
	}
	everywhere := &net.TCPAddr{IP: net.IPv6unspecified, Port: 8400}
	here := &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 8400}
	for _, tt := range []struct {
		setting string
		bound   net.Addr
		want    string
	}{
		{"", here, "127.0.0.1:8400"}, {"", everywhere, net.JoinHostPort(host, "8400")}, {"x:1", everywhere, "x:1"},
	} {
		if got, err := advertised(tt.setting, tt.bound); got != tt.want || err != nil {
			t.Errorf("%s, %v; want %s", got, err, tt.want)
		}
	}
}
