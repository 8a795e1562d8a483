// Package raftlog writes the log of hashicorp/raft to a slog.Logger, for the shards' groups and the control group.
//
// Raft logs every election step of every group at Info, and every message that did not reach a dead peer at Error:
// hundreds of lines while a node is away. The groups themselves log their leaders. So raftlog changes the levels:
//
//	Raft's level   written as
//	Info           Debug
//	Warn, Error    Warn; Info if its cause is a node that starts or stops in order
//
// Two more points:
//
//   - An error that a group cannot survive comes through its store, and ends the process.
//   - A record that repeats one shown a moment ago is counted rather than shown.
package raftlog

import (
	"context"
	"fmt"
	"io"
	"log"
	"log/slog"

	"github.com/hashicorp/go-hclog"
)

// raftLogger implements hclog.Logger.
type raftLogger struct {
	slog    *slog.Logger
	repeats *repeats
	name    string
	implied []any
}

// New returns a logger for one Raft group.
func New(l *slog.Logger) hclog.Logger {
	return &raftLogger{slog: l.With("component", "raft"), repeats: newRepeats(), name: "raft"}
}

func slogLevel(l hclog.Level) slog.Level {
	switch l {
	case hclog.Error, hclog.Warn:
		return slog.LevelWarn
	case hclog.Trace:
		return slog.LevelDebug - 4
	default:
		return slog.LevelDebug
	}
}

// Log writes one record.
func (l *raftLogger) Log(level hclog.Level, msg string, args ...any) {
	ctx, to := context.Background(), slogLevel(level)
	if to == slog.LevelWarn && isOrdinary(msg, args) {
		to = slog.LevelInfo
	}
	if msg == "found temporary snapshot" { // one that is being written, at each look at the others
		to = slog.LevelDebug
	}
	if !l.slog.Enabled(ctx, to) {
		return
	}
	plain := plainArgs(args)
	shown, left := l.repeats.show(msg, plain)
	if !shown {
		return
	}
	if left > 0 {
		plain = append(plain, "not_shown", left)
	}
	l.slog.Log(ctx, to, msg, plain...)
}

// plainArgs renders the values that only hclog can format.
func plainArgs(args []any) []any {
	plain := make([]any, len(args))
	for i, arg := range args {
		plain[i] = arg
		if f, ok := arg.(hclog.Format); ok && len(f) > 0 {
			plain[i] = fmt.Sprintf(fmt.Sprint(f[0]), f[1:]...)
		}
	}
	return plain
}

func (l *raftLogger) Trace(msg string, args ...any) { l.Log(hclog.Trace, msg, args...) }
func (l *raftLogger) Debug(msg string, args ...any) { l.Log(hclog.Debug, msg, args...) }
func (l *raftLogger) Info(msg string, args ...any)  { l.Log(hclog.Info, msg, args...) }
func (l *raftLogger) Warn(msg string, args ...any)  { l.Log(hclog.Warn, msg, args...) }
func (l *raftLogger) Error(msg string, args ...any) { l.Log(hclog.Error, msg, args...) }

func (l *raftLogger) IsTrace() bool { return l.enabled(hclog.Trace) }
func (l *raftLogger) IsDebug() bool { return l.enabled(hclog.Debug) }
func (l *raftLogger) IsInfo() bool  { return l.enabled(hclog.Info) }
func (l *raftLogger) IsWarn() bool  { return l.enabled(hclog.Warn) }
func (l *raftLogger) IsError() bool { return l.enabled(hclog.Error) }

func (l *raftLogger) enabled(level hclog.Level) bool {
	return l.slog.Enabled(context.Background(), slogLevel(level))
}

func (l *raftLogger) ImpliedArgs() []any { return l.implied }
func (l *raftLogger) Name() string       { return l.name }

// With returns a logger that adds args to every record.
func (l *raftLogger) With(args ...any) hclog.Logger {
	implied := append(append([]any(nil), l.implied...), args...)
	return &raftLogger{slog: l.slog.With(plainArgs(args)...), repeats: l.repeats, name: l.name, implied: implied}
}

// Named returns a logger whose name is this one's, a dot and name.
func (l *raftLogger) Named(name string) hclog.Logger {
	if l.name != "" {
		name = l.name + "." + name
	}
	return l.ResetNamed(name)
}

// ResetNamed returns a logger of exactly that name.
func (l *raftLogger) ResetNamed(name string) hclog.Logger {
	return &raftLogger{slog: l.slog, repeats: l.repeats, name: name, implied: l.implied}
}

// SetLevel does nothing: the slog handler sets the level.
func (l *raftLogger) SetLevel(hclog.Level) {}

// GetLevel returns the lowest level that the slog handler accepts.
func (l *raftLogger) GetLevel() hclog.Level {
	for _, level := range []hclog.Level{hclog.Trace, hclog.Debug, hclog.Warn} {
		if l.enabled(level) {
			return level
		}
	}
	return hclog.Error
}

// StandardLogger returns a logger of the standard library that writes to the same handler, at Warn.
func (l *raftLogger) StandardLogger(*hclog.StandardLoggerOptions) *log.Logger {
	return slog.NewLogLogger(l.slog.Handler(), slog.LevelWarn)
}

// StandardWriter returns a writer whose lines go to the same handler.
func (l *raftLogger) StandardWriter(options *hclog.StandardLoggerOptions) io.Writer {
	return l.StandardLogger(options).Writer()
}
