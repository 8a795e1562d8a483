package origin

import (
	"net/http"
	"strings"
)

// page is the origin of a web page (RFC 6454), with its default port filled in.
type page struct {
	scheme string
	at     authority
}

// parsePage reads scheme://host or scheme://host:port, the forms of an Origin header. It returns false for "null" and
// for schemes other than http and https.
func parsePage(text string) (page, bool) {
	scheme, rest, found := strings.Cut(text, "://")
	scheme = strings.ToLower(scheme)
	if !found || scheme != "http" && scheme != "https" {
		return page{}, false
	}
	at, ok := parseAuthority(rest)
	if at.port == 0 {
		at.port = defaultPort(scheme)
	}
	return page{scheme, at}, ok
}

func defaultPort(scheme string) uint16 {
	if scheme == "https" {
		return 443
	}
	return 80
}

// isOwn reports whether an origin is the node's own, from the view of the request's caller.
func isOwn(r *http.Request, origin string) bool {
	scheme := "http"
	if r.TLS != nil {
		scheme = "https"
	}
	own, ownOK := parsePage(scheme + "://" + r.Host)
	from, ok := parsePage(origin)
	return ownOK && ok && own == from
}

// unicodePage returns an origin with its Unicode host in the form that browsers send.
func unicodePage(text string) string {
	scheme, rest, found := strings.Cut(text, "://")
	host, _, ok := splitPort(rest)
	if !found || !ok {
		return text
	}
	return scheme + "://" + toASCII(host) + rest[len(host):]
}
