package delivery

import (
	"bufio"
	"io"
	"log"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/belfryhq/belfry/fsm/task"
	"github.com/belfryhq/belfry/internal/assert"
)

func quiet() *log.Logger { return log.New(io.Discard, "", 0) }

func TestRetryAfter(t *testing.T) {
	now := time.Date(2026, 11, 21, 10, 0, 0, 0, time.UTC)
	for value, want := range map[string]time.Duration{
		"":                                 0,
		"0":                                0,
		"5":                                5 * time.Second,
		" 5 ":                              5 * time.Second,
		"86400":                            24 * time.Hour,
		"86401":                            24 * time.Hour,
		"99999999999999999999":             24 * time.Hour,
		"-5":                               0,
		"+5":                               0,
		"1.5":                              0,
		"soon":                             0,
		"Sat, 21 Nov 2026 10:01:30 GMT":    90 * time.Second,
		"Saturday, 21-Nov-26 10:01:30 GMT": 90 * time.Second,
		"Sat Nov 21 10:01:30 2026":         90 * time.Second,
		"Sat, 21 Nov 2026 09:59:59 GMT":    0,
		"Mon, 21 Nov 2033 10:01:30 GMT":    24 * time.Hour,
		"Fri, 31 Dec 9999 23:59:59 GMT":    24 * time.Hour,
	} {
		assert.Equal(t, retryAfter(http.Header{"Retry-After": {value}}, now), want, "%q", value)
	}
}

func FuzzRetryAfter(f *testing.F) {
	f.Add("120")
	f.Add("Sat, 21 Nov 2026 10:01:30 GMT")
	for _, value := range []string{"", "-1", "soon", "99999999999999999999", "Fri, 31 Dec 9999 23:59:59 GMT"} {
		f.Add(value)
	}
	f.Fuzz(func(t *testing.T, value string) {
		if d := retryAfter(http.Header{"Retry-After": {value}}, time.Unix(1795255200, 0)); d < 0 || d > maxRetryAfter {
			t.Errorf("%q: %v", value, d)
		}
	})
}

func TestPrintable(t *testing.T) {
	for in, want := range map[string]string{
		"":                       "",
		" \n\t":                  "",
		"  a \r\n\tb  ":          "a b",
		"\x1b[31mred\x1b[0m":     "[31mred [0m",
		"a\xff\xfeb":             "a b",
		"\u202eright to left":    "right to left", // would reverse the log line
		"naïve 日本":               "naïve 日本",
		strings.Repeat("a", 300): strings.Repeat("a", 19),
		strings.Repeat("日", 300): strings.Repeat("日", 6),
	} {
		assert.Equal(t, printable([]byte(in), 20), want, "printable(%q)", in)
	}
}

func FuzzPrintable(f *testing.F) {
	f.Add([]byte("a\xffb\n"), 5)
	f.Add([]byte("日本 \u202e\x1b[31m"), 6)
	f.Fuzz(func(t *testing.T, b []byte, limit int) {
		limit &= 0xff
		got := printable(b, limit)
		unfit := strings.ContainsFunc(got, func(r rune) bool { return !unicode.IsPrint(r) })
		if len(got) > limit || !utf8.ValidString(got) || unfit {
			t.Errorf("printable(%q, %d) = %q", b, limit, got)
		}
	})
}

// FuzzReply checks for any reply bytes that the attempt ends with a valid outcome.
func FuzzReply(f *testing.F) {
	for _, seed := range []string{
		"", "HTTP/1.1 200 OK\r\n\r\n", "HTTP/1.1 500\r\nRetry-After: 5\r\nContent-Length: 3\r\n\r\nabc",
		"HTTP/1.1 101 S\r\nUpgrade: x\r\nConnection: upgrade\r\n\r\nabc", "HTTP/1.1 302 F\r\nLocation: x\r\n\r\n",
		"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n",
		"HTTP/1.1 100 C\r\n\r\nHTTP/1.1 204 N\r\n\r\n", "HTTP/1.1 200 OK\r\nno colon\r\n\r\n", "HTTP/1.1 200",
	} {
		f.Add([]byte(seed))
	}
	replies := make(chan []byte, 1)
	addr := listen(f, func(c net.Conn) {
		if _, err := http.ReadRequest(bufio.NewReader(c)); err == nil {
			_, _ = c.Write(<-replies)
		}
	})
	w := newWebhook(f)
	f.Fuzz(func(t *testing.T, reply []byte) {
		w.transports.plain.CloseIdleConnections()
		select {
		case <-replies: // left over if the last request went to a connection that was just closing
		default:
		}
		replies <- reply
		a := attemptOf("http://" + addr)
		a.Timeout = 5 * time.Second
		out := w.Deliver(t.Context(), a)
		checkOutcome(t, out)
		if strings.HasPrefix(out.Error, "timed out") {
			t.Errorf("outcome %+v", out)
		}
	})
}

func checkOutcome(t *testing.T, out task.Outcome) {
	t.Helper()
	switch {
	case out.Delivered != (out.Error == ""),
		out.Delivered && (out.Permanent || out.RetryAfter != 0),
		out.RetryAfter < 0 || out.RetryAfter > maxRetryAfter,
		len(out.Error) > task.MaxErrorBytes:
		t.Errorf("outcome %+v", out)
	}
}
