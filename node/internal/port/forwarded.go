package port

import (
	"net"
	"net/http"
	"net/netip"
	"strings"
)

// Forwarded returns a handler for a node behind a proxy: a call has the address that the proxy names as its caller's.
// It has the proxy's own address if the proxy names none, or two headers name different ones.
func Forwarded(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if addr := forwardedFor(r.Header); addr.IsValid() {
			from := *r
			from.RemoteAddr = net.JoinHostPort(addr.String(), "0")
			r = &from
		}
		next.ServeHTTP(w, r)
	})
}

// forwardedFor returns the address of the proxy's caller, or the zero Addr if it is not known.
func forwardedFor(h http.Header) netip.Addr {
	listed, elements := h.Values("X-Forwarded-For"), h.Values("Forwarded")
	a, b := lastListed(listed), lastForwarded(elements)
	switch {
	case len(listed) > 0 && len(elements) > 0 && a != b:
		return netip.Addr{}
	case len(listed) > 0:
		return a
	default:
		return b
	}
}

// lastListed returns the last address of X-Forwarded-For. A list may continue on a further line.
func lastListed(lines []string) netip.Addr {
	if len(lines) == 0 {
		return netip.Addr{}
	}
	line := lines[len(lines)-1]
	return parseAddr(strings.TrimSpace(line[strings.LastIndexByte(line, ',')+1:]))
}

// lastForwarded returns the address in the last element of Forwarded: for="[2001:db8::1]:4711";proto=http. A line with
// a faulty quotation has none, since a caller may have begun the quotation.
func lastForwarded(lines []string) netip.Addr {
	if len(lines) == 0 {
		return netip.Addr{}
	}
	elements, ok := splitUnquoted(lines[len(lines)-1], ',')
	if !ok {
		return netip.Addr{}
	}
	pairs, _ := splitUnquoted(elements[len(elements)-1], ';')
	for _, pair := range pairs {
		name, value, _ := strings.Cut(strings.TrimSpace(pair), "=")
		if strings.EqualFold(name, "for") {
			return parseAddr(strings.Trim(value, `"`))
		}
	}
	return netip.Addr{}
}

// splitUnquoted splits a text at a separator, except within quotations. It returns false if a quotation has no end, or
// a backslash stands outside.
func splitUnquoted(text string, separator byte) (parts []string, ok bool) {
	quoted, escaped, begin := false, false, 0
	for i := range len(text) {
		switch c := text[i]; {
		case escaped:
			escaped = false
		case c == '\\' && !quoted:
			return nil, false
		case c == '\\':
			escaped = true
		case c == '"':
			quoted = !quoted
		case c == separator && !quoted:
			parts, begin = append(parts, text[begin:i]), i+1
		}
	}
	return append(parts, text[begin:]), !quoted
}

// parseAddr reads an IP address, perhaps with brackets or a port. The result is the zero Addr for any other text.
func parseAddr(text string) netip.Addr {
	if at, err := netip.ParseAddrPort(text); err == nil {
		return at.Addr().Unmap().WithZone("")
	}
	addr, err := netip.ParseAddr(strings.TrimSuffix(strings.TrimPrefix(text, "["), "]"))
	if err != nil {
		return netip.Addr{}
	}
	return addr.Unmap().WithZone("")
}
