package logs

import (
	"context"
	"log/slog"
	"strings"
	"sync"
	"time"
)

const (
	quiet    = 10 * time.Second // between two records of one kind
	maxKinds = 64               // of distinct kinds; all further records share one kind
	maxKind  = 64               // bytes of a message that determine its kind
)

// Limited returns a logger for records that strangers can cause. Of each kind it writes one record in ten seconds. The
// attribute "suppressed" counts the records of that kind since the last one. A kind is a level and the beginning of a
// message, up to the first character that is likely to vary. Debug records are not limited.
func Limited(l *slog.Logger) *slog.Logger {
	return slog.New(&limiter{l.Handler(), &floods{kinds: make(map[string]*flood)}})
}

type limiter struct {
	slog.Handler
	floods *floods
}

func (l *limiter) Handle(ctx context.Context, r slog.Record) error {
	if r.Level >= slog.LevelInfo {
		write, suppressed := l.floods.admit(r.Level.String()+kindOf(r.Message), time.Now())
		if !write {
			return nil
		}
		if suppressed > 0 {
			r = r.Clone()
			r.AddAttrs(slog.Int("suppressed", suppressed))
		}
	}
	return l.Handler.Handle(ctx, r)
}

func (l *limiter) WithAttrs(attrs []slog.Attr) slog.Handler {
	return &limiter{l.Handler.WithAttrs(attrs), l.floods}
}

func (l *limiter) WithGroup(name string) slog.Handler {
	return &limiter{l.Handler.WithGroup(name), l.floods}
}

// kindOf returns the beginning of a message, up to the first character that is likely to vary.
func kindOf(msg string) string {
	end := strings.IndexFunc(msg, func(r rune) bool { return strings.ContainsRune("0123456789:=([{'\"\\/<", r) })
	if end < 0 {
		end = len(msg)
	}
	return msg[:min(end, maxKind)]
}

// floods counts the suppressed records of each kind since the last written one.
type floods struct {
	mu    sync.Mutex
	kinds map[string]*flood
}

type flood struct {
	written    time.Time // time of the last written record
	suppressed int       // since then
}

// admit reports whether a record of this kind is written now, and how many were suppressed before it.
func (f *floods) admit(kind string, now time.Time) (write bool, suppressed int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.kinds[kind] == nil && len(f.kinds) >= maxKinds {
		f.forget(now)
		if len(f.kinds) >= maxKinds {
			kind = "" // shared by the kinds beyond maxKinds
		}
	}
	last := f.kinds[kind]
	if last == nil {
		f.kinds[kind] = &flood{written: now}
		return true, 0
	}
	if now.Sub(last.written) < quiet {
		last.suppressed++
		return false, 0
	}
	suppressed = last.suppressed
	*last = flood{written: now}
	return true, suppressed
}

// forget removes the kinds that need no memory: the next record is written anyway, and none is suppressed.
func (f *floods) forget(now time.Time) {
	for kind, last := range f.kinds {
		if last.suppressed == 0 && now.Sub(last.written) >= quiet {
			delete(f.kinds, kind)
		}
	}
}
