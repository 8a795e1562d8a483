package port

import (
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/belfryhq/belfry/internal/assert"
)

const proxy = "10.0.0.1:5555"

func TestForwarded(t *testing.T) {
	for _, c := range []struct {
		listed, forwarded []string
		want              string
	}{
		{nil, nil, proxy},
		{[]string{"192.0.2.7"}, nil, "192.0.2.7:0"},
		{[]string{"6.6.6.6, 192.0.2.7"}, nil, "192.0.2.7:0"},
		{[]string{"6.6.6.6", "192.0.2.7"}, nil, "192.0.2.7:0"},
		{[]string{"192.0.2.7:4711"}, nil, "192.0.2.7:0"},
		{[]string{"2001:db8::1"}, nil, "[2001:db8::1]:0"},
		{[]string{"[2001:db8::1]:4711"}, nil, "[2001:db8::1]:0"},
		{[]string{"::ffff:192.0.2.7"}, nil, "192.0.2.7:0"},
		{[]string{"fe80::1%eth0"}, nil, "[fe80::1]:0"},
		{[]string{"192.0.2.7, unknown"}, nil, proxy},
		{[]string{"192.0.2.7,"}, nil, proxy},
		{[]string{""}, nil, proxy},

		{nil, []string{"for=192.0.2.7"}, "192.0.2.7:0"},
		{nil, []string{`for=6.6.6.6, for="[2001:db8::1]:4711";proto=https`}, "[2001:db8::1]:0"},
		{nil, []string{"for=6.6.6.6", "proto=https; For=192.0.2.7"}, "192.0.2.7:0"},
		{nil, []string{"for=unknown"}, proxy},
		{nil, []string{`for="_hidden"`}, proxy},
		{nil, []string{"proto=https"}, proxy},
		{nil, []string{`for=192.0.2.7;host="a,for=6.6.6.6"`}, "192.0.2.7:0"},
		{nil, []string{`for=192.0.2.7;host="a;for=6.6.6.6"`}, "192.0.2.7:0"},
		{nil, []string{`host="a\";for=6.6.6.6";for=192.0.2.7`}, "192.0.2.7:0"},
		{nil, []string{`for=6.6.6.6;host=", for=192.0.2.7`}, proxy},
		{nil, []string{`for=6.6.6.6;host=", for="192.0.2.7"`}, proxy},
		{nil, []string{`for=6.6.6.6;host="\, for="192.0.2.7"`}, proxy},
		{nil, []string{`for=6.6.6.6;host=", for=192.0.2.7;host="a\"b"`}, proxy},
		{nil, []string{`for=6.6.6.6;host=\, for=192.0.2.7`}, proxy},

		{[]string{"192.0.2.7"}, []string{"for=192.0.2.7"}, "192.0.2.7:0"},
		{[]string{"192.0.2.7"}, []string{"for=6.6.6.6"}, proxy},
		{[]string{"6.6.6.6"}, []string{"for=192.0.2.7"}, proxy},
		{[]string{"192.0.2.7"}, []string{"for=unknown"}, proxy},
	} {
		r := httptest.NewRequest(http.MethodGet, "/", nil)
		r.RemoteAddr = proxy
		r.Header = http.Header{"X-Forwarded-For": c.listed, "Forwarded": c.forwarded}
		got := ""
		Forwarded(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { got = r.RemoteAddr })).
			ServeHTTP(httptest.NewRecorder(), r)
		assert.Equal(t, got, c.want, "X-Forwarded-For %q, Forwarded %q", c.listed, c.forwarded)
		assert.Equal(t, r.RemoteAddr, proxy, "the caller's request was changed")
	}
}

func FuzzForwarded(f *testing.F) {
	f.Add(`for=6.6.6.6;host="`, `for="[2001:db8::1]:4711";proto=https`)
	f.Fuzz(func(t *testing.T, given, own string) {
		// A caller's part never changes the address that the proxy's part names.
		alone := lastForwarded([]string{own})
		joined := lastForwarded([]string{given + ", " + own})
		if _, ok := splitUnquoted(own, ','); ok && joined != alone && joined.IsValid() {
			t.Errorf("%q makes %q of %v", given, joined, alone)
		}
	})
}
