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
	replyPatience  = time.Second // for the body, once the header is there
	maxExcerpt     = 200         // bytes of a reply's body in last_error
	maxRetryAfter  = 24 * time.Hour
)

// drain reads what is left of a reply's body, so that its connection can be used again, and returns its first bytes.
// It stops at maxReplyBody, at an error and when the exchange's time is over; the connection is then dropped.
func drain(resp *http.Response, keep int) []byte {
	if resp.StatusCode <= 199 {
		return nil // 101: the "body" is the bare connection, which no context interrupts
	}
	start := make([]byte, keep)
	n, err := io.ReadFull(resp.Body, start)
	if err == nil {
		// An error leaves the body unread, and that is all that matters here.
		_, _ = io.Copy(io.Discard, io.LimitReader(resp.Body, int64(maxReplyBody-n)))
	}
	return start[:n]
}

// replyText is what last_error says of a reply that is no success.
func replyText(resp *http.Response) string {
	if 300 <= resp.StatusCode && resp.StatusCode <= 399 {
		return statusText(resp.StatusCode) + redirection(resp.Header.Get("Location"))
	}
	// Some more than is kept, for what is not printable takes no room.
	return withExcerpt(statusText(resp.StatusCode), drain(resp, 2*maxExcerpt))
}

// statusText has our name for the status, not the receiver's: that one may be anything.
func statusText(status int) string {
	text := strconv.Itoa(status)
	if name := http.StatusText(status); name != "" {
		text += " " + name
	}
	return text
}

func withExcerpt(text string, said []byte) string {
	if excerpt := printable(said, maxExcerpt); excerpt != "" {
		return text + ": " + excerpt
	}
	return text
}

func redirection(location string) string {
	if location = printable([]byte(location), maxExcerpt); location == "" {
		return ": redirects are not followed"
	}
	return ": redirects are not followed (to " + location + ")"
}

// printable returns at most limit bytes of b that are fit for a line of text: each run of spaces, line ends, control
// characters and broken UTF-8 becomes one space.
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

// retryAfter reads a receiver's wish (RFC 9110, section 10.2.3): seconds or an HTTP date, at most a day, 0 if there is
// none or it makes no sense.
func retryAfter(h http.Header, now time.Time) time.Duration {
	value := strings.TrimSpace(h.Get("Retry-After"))
	if value == "" {
		return 0
	}
	if strings.Trim(value, "0123456789") == "" {
		seconds, err := strconv.ParseInt(value, 10, 64)
		if err != nil || seconds > int64(maxRetryAfter/time.Second) {
			return maxRetryAfter // more digits than a number holds is merely very long
		}
		return time.Duration(seconds) * time.Second
	}
	date, err := http.ParseTime(value)
	if err != nil {
		return 0
	}
	return min(max(date.Sub(now), 0), maxRetryAfter)
}
