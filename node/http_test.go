package node

import (
	"net"
	"os"
	"strings"
	"testing"
)

func TestAdvertised(t *testing.T) {
	host, err := os.Hostname()
	if err != nil {
		t.Skip(err)
	}
	everywhere := &net.TCPAddr{IP: net.IPv6unspecified, Port: 8400}
	here := &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 8400}
	for _, tt := range []struct {
		setting string
		tls     bool
		bound   net.Addr
		want    place
	}{
		{"", false, here, place{"127.0.0.1:8400", false}},
		{"", true, here, place{"127.0.0.1:8400", true}},
		{"", true, everywhere, place{net.JoinHostPort(host, "8400"), true}},
		{"x:1", false, everywhere, place{"x:1", false}},
		{"x:1", true, everywhere, place{"x:1", true}},
		{"https://x", false, everywhere, place{"x:443", true}},
		{"https://x:8443/", false, everywhere, place{"x:8443", true}},
		{"http://[::1]", true, everywhere, place{"[::1]:80", false}},
	} {
		cfg := Config{AdvertiseHTTP: tt.setting}
		if tt.tls {
			cfg.TLS.Cert = "node.pem"
		}
		if got, err := cfg.advertised(tt.bound); got != tt.want || err != nil {
			t.Errorf("%q: %v, %v; want %v", tt.setting, got, err, tt.want)
		}
	}
	for _, text := range []string{
		"ftp://x", "https://", "https://:8400", "https://u:secret@x", "https://x/api", "https://x?a", "https://x#a", "https://x:p",
	} {
		if err := checkAdvertised(text); err == nil || strings.Contains(err.Error(), "secret") {
			t.Errorf("%s: %v", text, err)
		}
	}
}
