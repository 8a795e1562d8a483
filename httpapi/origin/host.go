package origin

import (
	"fmt"
	"net/netip"
	"strconv"
	"strings"

	"golang.org/x/net/idna"
)

// authority is a host and a port in the form for comparisons: names in lower case and without the root's dot, addresses
// as netip writes them.
type authority struct {
	host string
	port uint16 // 0: absent
	ip   bool   // host is an IP literal
}

// parseAuthority reads host, host:port, [v6], [v6]:port, or a bare IPv6 address, the forms of a Host header.
func parseAuthority(text string) (authority, bool) {
	host, port, ok := splitPort(text)
	if !ok {
		return authority{}, false
	}
	a := authority{port: port}
	if inside, bracketed := strings.CutPrefix(host, "["); bracketed {
		inside, closed := strings.CutSuffix(inside, "]")
		addr, err := netip.ParseAddr(unescapeZone(inside))
		a.host, a.ip = addr.String(), true
		return a, closed && err == nil && addr.Is6()
	}
	host = strings.ToLower(strings.TrimSuffix(host, "."))
	if addr, err := netip.ParseAddr(host); err == nil {
		a.host, a.ip = addr.String(), true
		return a, true
	}
	a.host = host
	return a, isName(host)
}

// splitPort splits off the port, if there is one. An IPv6 address without brackets has none.
func splitPort(text string) (host string, port uint16, ok bool) {
	host, digits := text, ""
	if bracket := strings.LastIndexByte(text, ']'); bracket >= 0 {
		host, digits = text[:bracket+1], text[bracket+1:]
	} else if colon := strings.IndexByte(text, ':'); colon >= 0 && colon == strings.LastIndexByte(text, ':') {
		host, digits = text[:colon], text[colon:]
	}
	if digits == "" || digits == ":" {
		return host, 0, true
	}
	n, err := strconv.ParseUint(digits[1:], 10, 16)
	return host, uint16(n), digits[0] == ':' && err == nil && n > 0
}

// unescapeZone resolves the escape of the percent sign before a zone (RFC 6874).
func unescapeZone(addr string) string { return strings.Replace(addr, "%25", "%", 1) }

// isName reports whether text can be a host name in ASCII. Underscores are not standard, but in use, and accepted.
func isName(text string) bool {
	const maxName = 253
	return text != "" && len(text) <= maxName && !strings.Contains(text, "..") &&
		strings.Trim(text, "abcdefghijklmnopqrstuvwxyz0123456789-_.") == "" && text[0] != '.'
}

// parseName reads a host in an operator's form, without a port: a name, perhaps in Unicode, or an IP literal.
func parseName(text string) (string, error) {
	a, ok := parseAuthority(toASCII(text))
	if !ok || a.port != 0 || strings.HasSuffix(text, ":") {
		return "", fmt.Errorf("%q is not a host name or an IP address without a port", text)
	}
	return a.host, nil
}

// toASCII returns a Unicode name in the form that browsers send (punycode), or text itself if it is no such name.
func toASCII(text string) string {
	ascii, err := idna.Lookup.ToASCII(text)
	if err != nil {
		return text
	}
	return ascii
}

// HostOf returns the host of an address such as belfry.example:8400, or "" if there is none.
func HostOf(addr string) string {
	host, _, ok := splitPort(addr)
	if !ok {
		return ""
	}
	return host
}
