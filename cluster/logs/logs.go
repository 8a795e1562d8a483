// Package logs lets the libraries of HashiCorp write to a slog.Logger: hashicorp/raft speaks hclog, memberlist writes
// lines with a level in brackets. Both are talkative, so what they call information is debugging here.
package logs

import (
	"context"
	"log"
	"log/slog"
	"strings"

	"github.com/hashicorp/go-hclog"
)

// Raft writes what hashicorp/raft logs.
func Raft(l *slog.Logger) hclog.Logger { return raftLogger{hclog.NewNullLogger(), l} }

// raftLogger leaves what nobody calls to hclog's own empty logger.
type raftLogger struct {
	hclog.Logger
	to *slog.Logger
}

func levelOf(l hclog.Level) slog.Level {
	switch l {
	case hclog.Error:
		return slog.LevelError
	case hclog.Warn:
		return slog.LevelWarn
	default:
		return slog.LevelDebug
	}
}

func (l raftLogger) Log(level hclog.Level, msg string, args ...any) {
	l.to.Log(context.Background(), levelOf(level), msg, args...)
}

func (l raftLogger) Trace(string, ...any)           {}
func (l raftLogger) Debug(msg string, args ...any)  { l.Log(hclog.Debug, msg, args...) }
func (l raftLogger) Info(msg string, args ...any)   { l.Log(hclog.Info, msg, args...) }
func (l raftLogger) Warn(msg string, args ...any)   { l.Log(hclog.Warn, msg, args...) }
func (l raftLogger) Error(msg string, args ...any)  { l.Log(hclog.Error, msg, args...) }
func (l raftLogger) With(args ...any) hclog.Logger  { return raftLogger{l.Logger, l.to.With(args...)} }
func (l raftLogger) Named(string) hclog.Logger      { return l }
func (l raftLogger) ResetNamed(string) hclog.Logger { return l }
func (l raftLogger) IsDebug() bool                  { return l.to.Enabled(context.Background(), slog.LevelDebug) }
func (l raftLogger) IsWarn() bool                   { return l.to.Enabled(context.Background(), slog.LevelWarn) }

// Memberlist writes what memberlist logs, a line each: "[WARN] memberlist: …".
func Memberlist(l *slog.Logger) *log.Logger { return log.New(lines{l}, "", 0) }

type lines struct{ to *slog.Logger }

func (w lines) Write(line []byte) (int, error) {
	level, msg := parse(string(line))
	w.to.Log(context.Background(), level, msg)
	return len(line), nil
}

// parse takes the level and the library's own name off a line. A failed probe or a refused stream is memberlist's
// daily bread and often called an error there; it is a warning here.
func parse(line string) (slog.Level, string) {
	line = strings.TrimSpace(line)
	level := slog.LevelDebug
	if tag, rest, ok := strings.Cut(line, "] "); ok && strings.HasPrefix(tag, "[") {
		line = rest
		if tag == "[WARN" || tag == "[ERR" || tag == "[ERROR" {
			level = slog.LevelWarn
		}
	}
	return level, strings.TrimPrefix(line, "memberlist: ")
}
