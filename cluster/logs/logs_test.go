package logs

import (
	"bytes"
	"log/slog"
	"net"
	"strings"
	"testing"
)

func capture() (*slog.Logger, *bytes.Buffer) {
	var out bytes.Buffer
	return slog.New(slog.NewTextHandler(&out, &slog.HandlerOptions{Level: slog.LevelDebug})), &out
}

func TestMemberlistLines(t *testing.T) {
	l, out := capture()
	m := Memberlist(l)
	m.Printf("[WARN] memberlist: Refuting %s", "a suspect")
	m.Printf("[DEBUG] memberlist: Stream connection")
	m.Printf("no level at all")
	m.Printf("[WARN] memberlist: ignoring alive message for 'x.1': a stranger")
	m.Printf("[ERR] memberlist: Failed to send gossip to %s: %v", "n1", &net.OpError{Op: "write", Net: "udp", Err: net.ErrClosed})
	m.Printf("[INFO] memberlist: Marking %s as failed, suspect timeout reached (0 peer confirmations)", "n1.7")
	for _, want := range []string{`level=WARN msg="Refuting a suspect"`, `level=DEBUG msg="Stream`, `level=DEBUG msg="no level`,
		`level=DEBUG msg="Failed to send gossip to n1: write udp: use of closed`, `level=WARN msg="Marking n1.7 as failed`,
		`level=DEBUG msg="ignoring`} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("%q is not in %s", want, out)
		}
	}
}
