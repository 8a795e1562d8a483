package delivery

import (
	"io"
	"net/http"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"
)

const (
	maxReplyHeader = 64 << 10
	maxReplyBody   = 64 << 10
	replyPatience  = time.Second // for the body, after the header
	maxExcerpt     = 200         // bytes of a reply's body in last_error
	maxRetryAfter  = 24 * time.Hour
)

// drain reads the rest of a reply's body, so that its connection can be used again, and returns the first keep bytes.
// It stops at maxReplyBody, at an error, and at the end of the exchange's time; the connection is then dropped.
func drain(resp *http.Response, keep int) []byte {
	if resp.StatusCode <= 199 {
		return nil // 101: the "body" is the raw connection, which no context interrupts
	}
	start := make([]byte, keep)
	n, err := io.ReadFull(resp.Body, start)
	if err == nil {
		// An error leaves the body unread, which only costs the connection.
		_, _ = io.Copy(io.Discard, io.LimitReader(resp.Body, int64(maxReplyBody-n)))
	}
	return start[:n]
}

// replyText returns the text for last_error of a reply that is not 2xx, from the beginning of its body. Twice
// maxExcerpt are enough of it, since printable drops unprintable bytes.
func replyText(resp *http.Response, body []byte) string {
	if isRedirect(resp.StatusCode) {
		return statusText(resp.StatusCode) + redirection(resp.Header.Get("Location"))
	}
	return withExcerpt(statusText(resp.StatusCode), body[:min(2*maxExcerpt, len(body))])
}

// statusText returns the status with its standard name. The receiver's own name for it may be any text.
func statusText(status int) string {
	text := strconv.Itoa(status)
	if name := http.StatusText(status); name != "" {
		text += " " + name
	}
	return text
}

func withExcerpt(text string, body []byte) string {
	if excerpt := printable(body, maxExcerpt); excerpt != "" {
		return text + ": " + excerpt
	}
	return text
}

// isRedirect reports whether a status sends the client elsewhere. 304 and the unassigned ones do not.
func isRedirect(status int) bool {
	switch status {
	case http.StatusMultipleChoices, http.StatusMovedPermanently, http.StatusFound, http.StatusSeeOther,
		http.StatusUseProxy, http.StatusTemporaryRedirect, http.StatusPermanentRedirect:
		return true
	}
	return false
}

func redirection(location string) string {
	if location = printable([]byte(location), maxExcerpt); location == "" {
		return ": redirects are not followed"
	}
	return ": redirects are not followed (to " + location + ")"
}

// printable returns at most limit bytes of b that fit in a line of text: each run of spaces, line ends, control
// characters and invalid UTF-8 becomes one space.
func printable(b []byte, limit int) string {
	var out strings.Builder
	gap := false
	for len(b) > 0 {
		r, size := utf8.DecodeRune(b)
		b = b[size:]
		if r == utf8.RuneError && size == 1 || !unicode.IsPrint(r) || r == ' ' {
			gap = out.Len() > 0
			continue
		}
		if out.Len()+size+1 > limit {
			break
		}
		if gap {
			_ = out.WriteByte(' ') // never fails
			gap = false
		}
		_, _ = out.WriteRune(r) // never fails
	}
	return out.String()
}

// retryAfter returns the delay of a reply's Retry-After (RFC 9110, section 10.2.3), given in seconds or as an HTTP
// date. The delay is at most a day, and 0 if the header is missing or malformed.
func retryAfter(h http.Header, now time.Time) time.Duration {
	value := strings.TrimSpace(h.Get("Retry-After"))
	if value == "" {
		return 0
	}
	if strings.Trim(value, "0123456789") == "" {
		seconds, err := strconv.ParseInt(value, 10, 64)
		if err != nil || seconds > int64(maxRetryAfter/time.Second) {
			return maxRetryAfter // a number of more digits than fit is a very long delay
		}
		return time.Duration(seconds) * time.Second
	}
	date, err := http.ParseTime(value)
	if err != nil {
		return 0
	}
	return min(max(date.Sub(now), 0), maxRetryAfter)
}
