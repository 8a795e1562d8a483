package logs

import (
	"context"
	"log"
	"log/slog"
	"net"
	"strings"
)

// Memberlist writes what memberlist logs, a line each: "[WARN] memberlist: …".
func Memberlist(l *slog.Logger) *log.Logger { return log.New(lines{l}, "", 0) }

type lines struct{ to *slog.Logger }

func (w lines) Write(line []byte) (int, error) {
	level, msg := parse(string(line))
	w.to.Log(context.Background(), level, msg)
	return len(line), nil
}

// refusal begins a line about a member that the mesh does not take: a stranger, or a node that is not registered yet.
const refusal = "ignoring alive message"

// parse takes the level and the library's own name off a line. A failed probe or a refused stream is memberlist's
// daily bread and often called an error there; it is a warning here. So is the death of a node that has not said
// goodbye, which memberlist calls information. It goes on sending for a moment after its port was closed, which is no
// warning. A refusal is what admission is for.
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
