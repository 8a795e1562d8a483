package origin

import (
	"net/http"
	"strings"
)

// page is the origin of a web page (RFC 6454), its default port filled in.
type page struct {
	scheme string
	at     authority
}

// parsePage reads scheme://host or scheme://host:port, as an Origin header has it. Other schemes than http and https,
// and "null", are none.
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

// isOwn reports whether an origin is that of the node as the request's caller sees it.
func isOwn(r *http.Request, origin string) bool {
	scheme := "http"
	if r.TLS != nil {
		scheme = "https"
	}
	own, ownOK := parsePage(scheme + "://" + r.Host)
	from, ok := parsePage(origin)
	return ownOK && ok && own == from
}

// unicodePage writes an origin as browsers send it, if its host is in Unicode.
func unicodePage(text string) string {
	scheme, rest, found := strings.Cut(text, "://")
	host, _, ok := splitPort(rest)
	if !found || !ok {
		return text
	}
	return scheme + "://" + toASCII(host) + rest[len(host):]
}
