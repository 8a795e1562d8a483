package listen

import (
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/belfryhq/belfry/deploy/receiver"
)

func (p *printer) show(arrivals []receiver.Arrival, statuses []int, signatures []string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for i, a := range arrivals {
		if p.cfg.JSON {
			p.showJSON(a, statuses[i], signatures[i])
			continue
		}
		_, _ = io.WriteString(p.cfg.Out, text(a, statuses[i], signatures[i])) // the terminal may have gone
	}
}

// say prints a line for people. In JSON mode the output holds only arrivals.
func (p *printer) say(format string, args ...any) {
	if !p.cfg.JSON {
		_, _ = fmt.Fprintf(p.cfg.Out, format, args...)
	}
}

func (p *printer) showJSON(a receiver.Arrival, status int, signature string) {
	headers := make(map[string]string, len(a.Header))
	for name, values := range a.Header {
		headers[strings.ToLower(name)] = strings.Join(values, ", ")
	}
	line := struct {
		At         time.Time         `json:"at"`
		ID         string            `json:"id"`
		WebhookID  string            `json:"webhook_id"`
		Attempt    int               `json:"attempt"`
		Fence      uint64            `json:"fence"`
		Due        time.Time         `json:"due,omitzero"`
		LatenessMs float64           `json:"lateness_ms"`
		Status     int               `json:"status"` // -1: hangs, -2: resets
		Signature  string            `json:"signature,omitempty"`
		Batch      string            `json:"batch,omitempty"` // webhook-id of the batch
		Headers    map[string]string `json:"headers"`
		Body       string            `json:"body"`
	}{
		a.At.UTC(), a.TaskID, a.WebhookID, a.Attempt, a.Fence, a.Due,
		float64(a.Lateness().Microseconds()) / 1000, status, signature, batchOf(a), headers, string(a.Body),
	}
	enc := json.NewEncoder(p.cfg.Out)
	enc.SetEscapeHTML(false)
	_ = enc.Encode(line) // the terminal may have gone
}

func text(a receiver.Arrival, status int, signature string) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s  %s  attempt %d  %s  %s\n",
		a.At.Format("15:04:05.000"), printable(a.TaskID), a.Attempt, timing(a), answered(status))
	if signature != "" {
		fmt.Fprintf(&b, "    signature: %s\n", signature)
	}
	if id := batchOf(a); id != "" {
		fmt.Fprintf(&b, "    %d of %d in %s\n", a.Index+1, a.Of, printable(id))
	}
	if a.Index == 0 { // the headers belong to the whole request
		writeHeaders(&b, a.Header)
	}
	fmt.Fprintf(&b, "    %s\n\n", body(a.Body))
	return b.String()
}

// batchOf returns the id of an arrival's batch; "" if it came alone.
func batchOf(a receiver.Arrival) string {
	if id := a.Header.Get("Webhook-Id"); id != a.WebhookID {
		return id
	}
	return ""
}

func answered(status int) string {
	switch status {
	case receiver.Hang:
		return "not answered"
	case receiver.Reset:
		return "connection reset"
	}
	return fmt.Sprintf("answered %d", status)
}

func writeHeaders(b *strings.Builder, h http.Header) {
	for _, name := range slices.Sorted(maps.Keys(h)) {
		fmt.Fprintf(b, "    %s: %s\n", strings.ToLower(name), printable(strings.Join(h[name], ", ")))
	}
}

func timing(a receiver.Arrival) string {
	late := a.Lateness()
	switch {
	case a.Due.IsZero():
		return "no due time"
	case late < 0:
		return fmt.Sprintf("%.1f ms EARLY", -late.Seconds()*1000)
	}
	return fmt.Sprintf("%.1f ms late", late.Seconds()*1000)
}

const maxShown = 1000

func body(data []byte) string {
	if len(data) > maxShown {
		return fmt.Sprintf("%s… (%d bytes)", printable(string(data[:maxShown])), len(data))
	}
	return printable(string(data))
}

// printable quotes a text with control characters, because the text of a stranger could change the terminal.
func printable(s string) string {
	for _, r := range s {
		if !strconv.IsPrint(r) {
			return strconv.Quote(s)
		}
	}
	return s
}
