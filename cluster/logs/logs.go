package logs

import (
	"context"
	"log"
	"log/slog"
	"net"
	"strings"
)

// Memberlist returns a logger that passes memberlist's lines to l. A line begins like "[WARN] memberlist: …".
func Memberlist(l *slog.Logger) *log.Logger { return log.New(lines{l}, "", 0) }

type lines struct{ to *slog.Logger }

func (w lines) Write(line []byte) (int, error) {
	level, msg := parse(string(line))
	w.to.Log(context.Background(), level, msg)
	return len(line), nil
}

// refusal begins a line about a member that the mesh refuses: a stranger, or a node that is not registered yet.
const refusal = "ignoring alive message"

// parse splits a line into level and message, without the library's name.
//
//   - A failed probe or a refused stream is common, and often an error in memberlist's terms; here it is a warning.
//   - The death of a node that has not said goodbye, which memberlist calls information, is a warning, too.
//   - Lines about a closed port are for debugging: memberlist goes on sending for a moment after its port was closed.
//   - Refused members are for debugging: admission refuses them on purpose.
func parse(line string) (slog.Level, string) {
	line = strings.TrimSpace(line)
	level := slog.LevelDebug
	if tag, rest, ok := strings.Cut(line, "] "); ok && strings.HasPrefix(tag, "[") {
		line = rest
		if tag == "[WARN" || tag == "[ERR" || tag == "[ERROR" {
			level = slog.LevelWarn
		}
	}
	msg := strings.TrimPrefix(line, "memberlist: ")
	switch {
	case strings.HasPrefix(msg, refusal), strings.HasSuffix(msg, net.ErrClosed.Error()):
		level = slog.LevelDebug
	case strings.HasPrefix(msg, "Marking "): // "… as failed, suspect timeout reached"
		level = slog.LevelWarn
	}
	return level, msg
}
