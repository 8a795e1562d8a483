package sim

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"time"
)

// trace writes the log of the nodes, each line with the second of the run.
type trace struct {
	w     io.Writer
	attrs string
}

func (t trace) Enabled(context.Context, slog.Level) bool { return true }

func (t trace) Handle(_ context.Context, r slog.Record) error {
	line := fmt.Sprintf("%.4f%s %s", time.Since(epoch).Seconds(), t.attrs, r.Message)
	r.Attrs(func(a slog.Attr) bool {
		line += fmt.Sprintf(" %s=%v", a.Key, a.Value)
		return true
	})
	_, err := fmt.Fprintln(t.w, line)
	return err
}

func (t trace) WithAttrs(attrs []slog.Attr) slog.Handler {
	for _, a := range attrs {
		t.attrs += fmt.Sprintf(" %s=%v", a.Key, a.Value)
	}
	return t
}

func (t trace) WithGroup(string) slog.Handler { return t }
