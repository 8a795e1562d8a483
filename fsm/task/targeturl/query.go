package targeturl

import (
	"fmt"
	"strings"
)

// CheckQuery returns an error for a URL whose query has a percent sign that two hexadecimal digits do not follow. Parse
// refuses such a sign in all other parts of a URL.
func CheckQuery(rawURL string) error {
	_, query, _ := strings.Cut(rawURL, "?")
	for i := 0; i < len(query); i++ {
		if query[i] == '%' && !isEscape(query[i:]) {
			return fmt.Errorf("has %q in its query, at byte %d: a percent sign comes before two hexadecimal digits, and is "+
				"itself written as %%25", query[i:min(i+3, len(query))], len(rawURL)-len(query)+i+1)
		}
	}
	return nil
}

func isEscape(s string) bool {
	return len(s) >= 3 && strings.IndexByte(hexDigits, s[1]) >= 0 && strings.IndexByte(hexDigits, s[2]) >= 0
}

const hexDigits = "0123456789ABCDEFabcdef"

// EscapeQuery returns a query with the characters percent-encoded that no query on the wire may have (RFC 3986), such
// as spaces, quotes and letters beyond ASCII. package net/url does the same for paths. Escapes stay as they are.
func EscapeQuery(query string) string {
	if strings.IndexFunc(query, notInQuery) < 0 {
		return query
	}
	var b strings.Builder
	for i := range len(query) {
		if c := query[i]; notInQuery(rune(c)) {
			fmt.Fprintf(&b, "%%%02X", c)
		} else {
			b.WriteByte(c)
		}
	}
	return b.String()
}

// notInQuery reports whether c must be encoded in a query. Brackets need not: the names of lists in forms have them.
func notInQuery(c rune) bool {
	return !('a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9') &&
		!strings.ContainsRune("-._~!$&'()*+,;=:@/?%[]", c)
}
