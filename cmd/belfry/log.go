package main

import (
	"fmt"
	"io"
	"log/slog"
)

func newLogger(out io.Writer, level, format string) (*slog.Logger, error) {
	var options slog.HandlerOptions
	var parsed slog.Level
	if err := parsed.UnmarshalText([]byte(level)); err != nil {
		return nil, fmt.Errorf("--log-level %q: debug, info, warn or error", level)
	}
	options.Level = parsed
	switch format {
	case "text":
		return slog.New(slog.NewTextHandler(out, &options)), nil
	case "json":
		return slog.New(slog.NewJSONHandler(out, &options)), nil
	}
	return nil, fmt.Errorf("--log-format %q: text or json", format)
}
