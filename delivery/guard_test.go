package delivery

import (
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/belfryhq/belfry/internal/assert"
)

func prefixes(t testing.TB, list ...string) []netip.Prefix {
	t.Helper()
	var out []netip.Prefix
	for _, s := range list {
		p, err := netip.ParsePrefix(s)
		assert.NoError(t, err)
		out = append(out, p)
	}
	return out
}

// TestCheckURLRefuses lists every way to write a refused host, and a word of the error.
func TestCheckURLRefuses(t *testing.T) {
	tests := map[string]string{
		"127.0.0.1":                  "loopback",
		"127.255.255.254:8080":       "loopback",
		"0.0.0.0":                    "unspecified",
		"0.1.2.3":                    "unspecified",
		"10.0.0.1":                   "private",
		"172.16.0.1":                 "private",
		"172.31.255.255":             "private",
		"192.168.1.1":                "private",
		"169.254.169.254":            "link-local",
		"100.64.0.1":                 "shared",
		"100.127.255.255":            "shared",
		"168.63.129.16":              "cloud platform",
		"192.0.0.192":                "reserved",
		"192.0.2.1":                  "documentation",
		"192.88.99.1":                "6to4 relay",
		"198.18.0.1":                 "benchmarking",
		"198.51.100.1":               "documentation",
		"203.0.113.1":                "documentation",
		"224.0.0.1":                  "multicast",
		"239.255.255.255":            "multicast",
		"240.0.0.1":                  "reserved",
		"255.255.255.255":            "broadcast",
		"[::]":                       "unspecified",
		"[::1]":                      "loopback",
		"[0:0:0:0:0:0:0:1]:80":       "loopback",
		"[0000::0001]":               "loopback",
		"[::ffff:127.0.0.1]":         "loopback",
		"[::FFFF:7F00:1]":            "loopback",
		"[0:0:0:0:0:ffff:10.0.0.1]":  "private",
		"[::ffff:8.8.8.8]":           "v4-in-v6",
		"[::127.0.0.1]":              "v4-in-v6",
		"[::8.8.8.8]":                "v4-in-v6",
		"[::ffff:0:127.0.0.1]":       "v4-in-v6",
		"[64:ff9b::127.0.0.1]":       "NAT64",
		"[64:ff9b::7f00:1]":          "NAT64",
		"[64:ff9b::8.8.8.8]":         "NAT64",
		"[64:ff9b:1::1]":             "NAT64",
		"[2002:7f00:1::]":            "6to4",
		"[2001:0:1::1]":              "Teredo",
		"[2001:10::1]":               "reserved",
		"[2001:db8::1]":              "documentation",
		"[3fff::1]":                  "documentation",
		"[fc00::1]":                  "private",
		"[fd00:ec2::254]":            "private",
		"[fe80::1]":                  "link-local",
		"[fec0::1]":                  "private",
		"[ff02::1]":                  "multicast",
		"[100::1]":                   "reserved",
		"[5f00::1]":                  "reserved",
		"[4000::1]":                  "reserved",
		"[fe80::1%25eth0]":           "zone",
		"[::1%25lo]":                 "zone",
		"[2606:4700::1111%25eth0]":   "zone",
		"[foo]":                      "",
		"[]":                         "",
		"127.0.0.1.":                 "unusual spelling",
		"8.8.8.8.":                   "unusual spelling",
		"2130706433":                 "unusual spelling",
		"0x7f000001":                 "unusual spelling",
		"0X7F000001":                 "unusual spelling",
		"0x7f.1":                     "unusual spelling",
		"0x7f.0x0.0x0.0x1":           "unusual spelling",
		"0177.0.0.1":                 "unusual spelling",
		"017700000001":               "unusual spelling",
		"127.1":                      "unusual spelling",
		"127.0.1":                    "unusual spelling",
		"127.0.0.01":                 "unusual spelling",
		"127.0.0.1.1":                "unusual spelling",
		"256.256.256.256":            "unusual spelling",
		"0":                          "unusual spelling",
		"0x":                         "unusual spelling",
		"shop.0x7f":                  "unusual spelling",
		"１２７.0.0.1":                  "loopback",
		"①②⑦.⓪.⓪.①":                  "loopback",
		"127。0。0。1":                  "loopback",
		"ⓛⓞⓒⓐⓛⓗⓞⓢⓣ":                  "loopback",
		"localhost":                  "loopback",
		"LocalHost:8080":             "loopback",
		"localhost.":                 "loopback",
		"a.b.localhost":              "loopback",
		"127%2e0.0.1":                "",
		"%6cocalhost":                "",
		"xn--a.test\u00e9\u0378":     "",
		"[::ffff:0x7f000001]":        "",
		"[::ffff:127.1]":             "",
		"[0:0:0:0:0:FFFF:7F00:1]":    "loopback",
		"[::ffff:0.0.0.0]":           "unspecified",
		"[::ffff:169.254.169.254]":   "link-local",
		"[::ffff:a9fe:a9fe]":         "link-local",
		"[::a9fe:a9fe]":              "v4-in-v6",
		"[64:ff9b::a9fe:a9fe]":       "NAT64",
		"[64:FF9B::169.254.169.254]": "NAT64",
		"[64:ff9b:1:fffe::10.0.0.1]": "NAT64",
		"[2002:a9fe:a9fe::1]":        "6to4",
		"[2002:0a00:0001::]":         "6to4",
		"[2001:0:7f00:1::]":          "Teredo",
		"[2001::80ff:fffe]":          "Teredo", // 127.0.0.1 as a client, its bits inverted
		"[fe80::5efe:127.0.0.1]":     "link-local",
		"[::1].":                     "",
		"127.0.0.1..":                "no valid name",
		"127..0.0.1":                 "no valid name",
		".127.0.0.1":                 "no valid name",
		"shop..example":              "no valid name",
		"0300.0250.1.1":              "unusual spelling",
		"192.168.257":                "unusual spelling",
		"192.11010049":               "unusual spelling",
		"0xc0.0250.1":                "unusual spelling",
		"0xA9FEA9FE":                 "unusual spelling",
		"2852039166":                 "unusual spelling",
		"025177524776":               "unusual spelling",
		"00000177.0.0.1":             "unusual spelling",
		"4294967296":                 "unusual spelling", // wraps to 0 in 32 bits
		"6425673729":                 "unusual spelling", // wraps to 127.0.0.1
		"0x100000007f000001":         "unusual spelling",
		"0x7F.1.":                    "unusual spelling",
		"localhost:":                 "loopback",
		"LOCALHOST.":                 "loopback",
		"ｌｏｃａｌｈｏｓｔ":                  "loopback",
		"127．0．0．1":                  "loopback",
		"127%2E0%2E0%2E1":            "",
		"%31%32%37.0.0.1":            "",
		"%5B::1%5D":                  "",
		"127.0.0.1%00.shop.example":  "",
		"127.0.0.1\t":                "",
		" 127.0.0.1":                 "",
		"shop.example@127.0.0.1":     "loopback",
		"shop.example:443@[::1]":     "loopback",
		"a:b@c@127.0.0.1":            "",
		"8.8.8.8%40127.0.0.1":        "",
		"127.0.0.1#@shop.example":    "loopback",
		"127.0.0.1?@shop.example":    "loopback",
		"127.0.0.1/@shop.example":    "loopback",
		"shop.example\\@127.0.0.1":   "",
		"127.0.0.1\\@shop.example":   "",
		"8.8.8.8:80:127.0.0.1":       "",
		".":                          "no host",
		"":                           "no host",
	}
	g := NewGuard(nil)
	for host, word := range tests {
		t.Run(host, func(t *testing.T) {
			err := g.CheckURL("http://" + host + "/close")
			if err == nil {
				t.Fatal("allowed")
			}
			if err.Field != "target.url" || !strings.Contains(err.Detail, word) {
				t.Errorf("%v, want %q in it", err, word)
			}
			if named := strings.Contains(err.Detail, "--allow-webhook-cidr"); isKindOfAddress(word) && !named {
				t.Errorf("%v does not name the flag", err)
			}
		})
	}
}

func isKindOfAddress(word string) bool {
	return word != "" && word != "zone" && word != "no host" && word != "no valid name"
}

func TestCheckURLAllows(t *testing.T) {
	for _, host := range []string{
		"8.8.8.8", "1.1.1.1:443", "172.15.255.255", "172.32.0.1", "100.63.255.255", "100.128.0.1", "198.20.0.1",
		"223.255.255.255", "192.0.1.1", "[2606:4700::1111]", "[2a00:1450::1]:8443", "[2001:200::1]",
		"shop.example", "shop.example.", "Shop.Example:8080", "intern", "münchen.example", "xn--mnchen-3ya.example",
		"localhost.example", "notlocalhost", "127.0.0.1.nip.io", "0x7f.example", "1234.example", "a_b.example", "0xg",
	} {
		if err := NewGuard(nil).CheckURL("https://" + host + "/"); err != nil {
			t.Errorf("%s: %v", host, err)
		}
	}
}

func TestCheckURLWithAllowedRanges(t *testing.T) {
	tests := []struct {
		allow, host string
		allowed     bool
	}{
		{"127.0.0.0/8", "127.0.0.1", true},
		{"127.0.0.0/8", "[::ffff:127.0.0.1]", true},
		{"127.0.0.0/8", "localhost", true},
		{"127.0.0.0/8", "[::1]", false},
		{"127.0.0.0/8", "10.0.0.1", false},
		{"127.0.0.0/8", "2130706433", false},
		{"::1/128", "localhost", true},
		{"::1/128", "[::1]", true},
		{"::1/128", "127.0.0.1", false},
		{"10.1.0.0/16", "10.1.2.3", true},
		{"10.1.2.3/16", "10.1.9.9", true}, // host bits are allowed
		{"10.1.0.0/16", "10.2.0.1", false},
		{"::ffff:10.1.0.0/112", "10.1.2.3", true},
		{"::ffff:10.1.0.0/112", "10.2.2.3", false},
		{"64:ff9b::/96", "[64:ff9b::8.8.8.8]", true},
		{"::/0", "127.0.0.1", false},
		{"::/0", "[::ffff:127.0.0.1]", false},
		{"::/0", "[fd00::1]", true},
		{"0.0.0.0/0", "127.0.0.1", true},
		{"0.0.0.0/0", "[::ffff:8.8.8.8]", true},
		{"fe80::/10", "[fe80::1%25eth0]", false},
	}
	for _, test := range tests {
		err := NewGuard(prefixes(t, test.allow)).CheckURL("http://" + test.host + ":81/")
		assert.Equal(t, err == nil, test.allowed, "%s with %s allowed: %v", test.host, test.allow, err)
	}
}

// TestZonesAtTheDial checks that the guard ignores a zone at the dial, since this node looked the address up itself.
func TestZonesAtTheDial(t *testing.T) {
	addr := netip.MustParseAddr("fe80::1%eth0")
	assert.Equal(t, NewGuard(nil).refusal(addr), "link-local", "refused as")
	assert.Equal(t, NewGuard(prefixes(t, "fe80::/10")).refusal(addr), "", "allowed, and refused as")
}

// FuzzCheckURL checks that no accepted URL has a literal address that is not public, in any spelling of the dialer's or
// libc's.
func FuzzCheckURL(f *testing.F) {
	for _, s := range []string{
		"http://127.0.0.1/", "http://[::1]:80", "http://0x7f.1", "https://①②⑦.1/", "http://a@localhost",
		"https://shop.example/in?a=b#c", "http://\u0300.example/", "http://:80/", "http://%zz/", "\x7f",
	} {
		f.Add(s)
	}
	g := NewGuard(nil)
	f.Fuzz(func(t *testing.T, rawURL string) {
		if g.CheckURL(rawURL) != nil {
			return
		}
		w := &Webhook{}
		req, err := w.request(t.Context(), attemptOf(rawURL), time.Unix(1, 0))
		if err != nil {
			return
		}
		host, err := asciiHost(req.URL.Hostname())
		if err != nil {
			t.Fatalf("%q passed with host %q", rawURL, req.URL.Hostname())
		}
		if addr, err := netip.ParseAddr(host); err == nil && kindOf(addr.Unmap()) != "" {
			t.Errorf("%q passed and leads to %s", rawURL, addr)
		}
	})
}
