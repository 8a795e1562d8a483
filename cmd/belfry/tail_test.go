package main

import (
	"errors"
	"strings"
	"testing"
)

// TestTailNamesUnreadableEvents checks that belfry tail names an event that it cannot read, goes on behind it, and
// fails in the end. At a server that is not Belfry it fails at once.
func TestTailNamesUnreadableEvents(t *testing.T) {
	t.Parallel()
	events := `{"id":"e1","type":"fired","at":"2026-01-01T00:00:00.000Z","task":"one","queue":"q","shard":1}
{"id":"e2\u001b[2J","type":"fired","attempt":"none"}
{"id":"e3","type":"fired","at":"2026-01-01T00:00:01.000Z","task":"three","queue":"q","shard":1}
`
	out, _, err := executed(t, "tail", "--until-now", "--addr", serveOne(t, 200, events).url)
	for _, part := range []string{" one ", " three ", "cannot read event e2"} {
		if !strings.Contains(out, part) {
			t.Errorf("%q is missing in\n%s", part, out)
		}
	}
	if strings.Contains(out, "\x1b") || !errors.Is(err, errSaid) {
		t.Errorf("%q, %v", out, err)
	}
	_, _, err = executed(t, "tail", "--addr", serveOne(t, 200, "<html>\n").url)
	if err == nil || !strings.Contains(err.Error(), "no stream of events") {
		t.Errorf("at another server: %v", err)
	}
}
