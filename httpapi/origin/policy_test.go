package origin

import (
	"bufio"
	"crypto/tls"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/belfryhq/belfry/internal/assert"
)

func policy(t *testing.T, hosts, origins []string) *Policy {
	t.Helper()
	p, err := New(hosts, origins)
	assert.NoError(t, err)
	return p
}

// refused returns the header for which a request is refused, or "" if it is not refused.
func refused(p *Policy, r *http.Request) string {
	if refusal := p.Check(r); refusal != nil {
		return refusal.Header
	}
	return ""
}

func TestHost(t *testing.T) {
	p := policy(t, []string{"Belfry.Example", "bücher.example", "node_1", "dot.example.", ""}, nil)
	for host, known := range map[string]bool{
		"localhost": true, "localhost:8400": true, "LOCALHOST:1": true, "localhost.": true, "localhost.:8400": true,
		"localhost:": true, "127.0.0.1": true, "127.0.0.1:8400": true, "10.1.2.3:80": true, "8.8.8.8": true,
		"[::1]": true, "[::1]:8400": true, "::1": true, "[fe80::1%25eth0]:8400": true, "[fe80::1%eth0]": true,
		"[::ffff:127.0.0.1]:8400": true,
		"belfry.example":          true, "BELFRY.example:8400": true, "belfry.example.:8400": true,
		"xn--bcher-kva.example:8400": true, "node_1:8400": true, "dot.example": true, "0.0.0.0:8400": true,

		"": false, ":8400": false, "evil.example": false, "evil.example:8400": false, "localhost.evil.example": false,
		"evil.localhost": false, "belfry.example.evil": false, "xbelfry.example": false, "belfry.example..": false,
		"127.0.0.1.evil.example": false, "127.1": false, "2130706433": false, "0x7f000001": false,
		"127.0.0.01": false, "user@localhost": false, "localhost@evil.example": false, "localhost:x": false, "localhost:0": false,
		"localhost:65536": false, "localhost:8400:8400": false, "[::1": false, "::1]": false, "[::1]x": false,
		"[::1]:x": false, "[127.0.0.1]": false, "[localhost]": false, "localhost, evil.example": false,
		"localhost evil": false, "bücher.example": false, "localhost/": false, ".": false, "%6cocalhost": false,
	} {
		r := httptest.NewRequest("POST", "/v1/tasks", nil)
		r.Host = host
		want := "Host"
		if known {
			want = ""
		}
		if got := refused(p, r); got != want {
			t.Errorf("Host %q is refused for %q, not for %q", host, got, want)
		}
	}
}

// TestZeroPolicy checks the policy of a node without settings.
func TestZeroPolicy(t *testing.T) {
	for host, want := range map[string]string{"localhost:8400": "", "127.0.0.1:8400": "", "belfry.example": "Host"} {
		r := httptest.NewRequest("GET", "/v1/tasks", nil)
		r.Host = host
		if got := refused(new(Policy), r); got != want {
			t.Errorf("Host %q is refused for %q, not for %q", host, got, want)
		}
	}
}

// TestHostOnTheWire checks raw requests, since net/http itself refuses some, and chooses the host of an absolute
// target.
func TestHostOnTheWire(t *testing.T) {
	p := policy(t, nil, nil)
	for text, want := range map[string]string{
		"GET /v1/tasks HTTP/1.0\r\n\r\n":                                           "Host",
		"GET /v1/tasks HTTP/1.0\r\nHost: localhost\r\n\r\n":                        "",
		"GET /v1/tasks HTTP/1.1\r\nHost:\r\n\r\n":                                  "Host",
		"GET http://evil.example/v1/tasks HTTP/1.1\r\nHost: localhost\r\n\r\n":     "Host",
		"GET http://localhost:8400/v1/tasks HTTP/1.1\r\nHost: localhost\r\n\r\n":   "",
		"GET http://u:p@localhost/v1/tasks HTTP/1.1\r\nHost: evil.example\r\n\r\n": "",
		"GET /healthz HTTP/1.0\r\n\r\n":                                            "",
		"GET /healthz HTTP/1.1\r\nHost: 10.0.0.1.probe\r\n\r\n":                    "",
		"GET /.well-known/jwks.json HTTP/1.1\r\nHost: probe\r\n\r\n":               "",
		"HEAD /readyz HTTP/1.1\r\nHost: probe\r\n\r\n":                             "",
		"POST /healthz HTTP/1.1\r\nHost: probe\r\n\r\n":                            "Host",
		"GET /healthz/ HTTP/1.1\r\nHost: probe\r\n\r\n":                            "Host",
		"GET /metrics HTTP/1.1\r\nHost: probe\r\n\r\n":                             "Host",
		"GET /openapi.yaml HTTP/1.1\r\nHost: probe\r\n\r\n":                        "Host",
	} {
		r, err := http.ReadRequest(bufio.NewReader(strings.NewReader(text)))
		assert.NoError(t, err, "%q", text)
		if got := refused(p, r); got != want {
			t.Errorf("%q is refused for %q, not for %q", text, got, want)
		}
	}
}

func TestOrigin(t *testing.T) {
	p := policy(t, []string{"belfry.example"}, []string{"https://app.example", "http://localhost:3000", "https://bücher.example"})
	for _, c := range []struct {
		host, origin string
		tls          bool
		own          bool // own or allowed
	}{
		{"localhost:8400", "http://localhost:8400", false, true},
		{"LOCALHOST:8400", "http://localhost:8400", false, true},
		{"localhost.:8400", "http://localhost:8400", false, true},
		{"[::1]:8400", "http://[::1]:8400", false, true},
		{"belfry.example", "http://belfry.example", false, true},
		{"belfry.example", "http://belfry.example:80", false, true},
		{"belfry.example:80", "http://belfry.example", false, true},
		{"belfry.example", "https://belfry.example", true, true},
		{"belfry.example:443", "https://belfry.example", true, true},
		{"localhost:8400", "https://app.example", false, true},
		{"localhost:8400", "https://APP.example:443", false, true},
		{"localhost:8400", "http://localhost:3000", false, true},
		{"localhost:8400", "https://xn--bcher-kva.example", false, true},

		{"localhost:8400", "null", false, false},
		{"localhost:8400", "", false, false},
		{"localhost:8400", "http://localhost", false, false},
		{"localhost:8400", "http://localhost:8401", false, false},
		{"localhost:8400", "http://127.0.0.1:8400", false, false},
		{"localhost:8400", "https://localhost:8400", false, false},
		{"belfry.example", "http://belfry.example", true, false},
		{"belfry.example", "https://belfry.example", false, false},
		{"localhost:8400", "http://app.example", false, false},
		{"localhost:8400", "https://app.example:8443", false, false},
		{"localhost:8400", "https://app.example.evil", false, false},
		{"localhost:8400", "https://evil.example", false, false},
		{"localhost:8400", "http://localhost:8400/", false, false},
		{"localhost:8400", "http://localhost:8400 http://evil.example", false, false},
		{"localhost:8400", "file://", false, false},
		{"localhost:8400", "chrome-extension://abc", false, false},
		{"localhost:8400", "http://u@localhost:8400", false, false},
	} {
		r := httptest.NewRequest("POST", "/v1/tasks/a/fire", nil)
		r.Host = c.host
		r.Header.Set("Origin", c.origin)
		if c.tls {
			r.TLS = new(tls.ConnectionState)
		}
		want := "Origin"
		if c.own {
			want = ""
		}
		assert.Equal(t, refused(p, r), want, "%+v is refused for", c)
	}
	r := httptest.NewRequest("POST", "/v1/tasks/a/fire", nil)
	r.Host = "localhost:8400"
	r.Header["Origin"] = []string{"https://app.example", "https://evil.example"}
	assert.Equal(t, refused(p, r), "Origin", "two origins are refused for")
	r = httptest.NewRequest("GET", "/healthz", nil)
	r.Header.Set("Origin", "https://evil.example")
	assert.Equal(t, refused(p, r), "Origin", "a health check of a page is refused for")
}

func TestFetchMetadata(t *testing.T) {
	p := policy(t, nil, []string{"https://app.example"})
	navigation := map[string]string{"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "navigate", "Sec-Fetch-Dest": "document"}
	with := func(headers map[string]string, name, value string) map[string]string {
		out := map[string]string{name: value}
		for k, v := range headers {
			if k != name {
				out[k] = v
			}
		}
		return out
	}
	for _, c := range []struct {
		method, path string
		headers      map[string]string
		want         string
	}{
		{"GET", "/v1/tasks", map[string]string{"Sec-Fetch-Site": "same-origin"}, ""},
		{"GET", "/v1/tasks", map[string]string{"Sec-Fetch-Site": "none"}, ""},
		{"GET", "/v1/tasks", map[string]string{"Sec-Fetch-Site": "cross-site"}, "Sec-Fetch-Site"},
		{"GET", "/v1/tasks", map[string]string{"Sec-Fetch-Site": "same-site"}, "Sec-Fetch-Site"},
		{"GET", "/v1/tasks", map[string]string{"Sec-Fetch-Site": "new-value"}, "Sec-Fetch-Site"},
		{"GET", "/healthz", map[string]string{"Sec-Fetch-Site": "cross-site"}, "Sec-Fetch-Site"},
		{"GET", "/v1/tasks", navigation, "Sec-Fetch-Site"},
		{"GET", "/ui/", navigation, ""},
		{"GET", "/ui/tasks/a", navigation, ""},
		{"GET", "/ui", navigation, ""},
		{"GET", "/uix", navigation, "Sec-Fetch-Site"},
		{"POST", "/ui/", navigation, "Sec-Fetch-Site"},
		{"GET", "/ui/", with(navigation, "Sec-Fetch-Mode", "no-cors"), "Sec-Fetch-Site"},
		{"GET", "/ui/", with(navigation, "Sec-Fetch-Dest", "iframe"), "Sec-Fetch-Site"},
		{"POST", "/v1/tasks", map[string]string{"Sec-Fetch-Site": "cross-site", "Origin": "https://app.example"}, ""},
		{"POST", "/v1/tasks", map[string]string{"Sec-Fetch-Site": "same-origin", "Origin": "https://evil.example"}, "Origin"},
	} {
		r := httptest.NewRequest(c.method, c.path, nil)
		r.Host = "localhost:8400"
		for name, value := range c.headers {
			r.Header.Set(name, value)
		}
		if got := refused(p, r); got != c.want {
			t.Errorf("%s %s %v is refused for %q, not for %q", c.method, c.path, c.headers, got, c.want)
		}
	}
	r := httptest.NewRequest("GET", "/v1/tasks", nil)
	r.Host = "localhost"
	r.Header["Sec-Fetch-Site"] = []string{"same-origin", "cross-site"}
	assert.Equal(t, refused(p, r), "Sec-Fetch-Site", "two sites are refused for")
}

func TestNewRefuses(t *testing.T) {
	for _, host := range []string{"a:80", "a b", "*", "*.example", "http://a", "a/", "[::1", "a..b", "localhost:"} {
		if _, err := New([]string{host}, nil); err == nil || !strings.Contains(err.Error(), "host") {
			t.Errorf("host %q: %v", host, err)
		}
	}
	for _, from := range []string{"*", "null", "", "app.example", "https://", "https://a/", "https://a/path", "ftp://a", "https://*.a"} {
		if _, err := New(nil, []string{from}); err == nil || !strings.Contains(err.Error(), "origin") {
			t.Errorf("origin %q: %v", from, err)
		}
	}
}

func TestHostOf(t *testing.T) {
	for addr, want := range map[string]string{
		"belfry.example:8400": "belfry.example", ":8400": "", "127.0.0.1:8400": "127.0.0.1", "[::1]:8400": "[::1]",
		"belfry.example": "belfry.example", "": "",
	} {
		assert.Equal(t, HostOf(addr), want, "%q", addr)
	}
}
