package main

import (
	"context"
	"log/slog"
	"os"
	"os/signal"
	"syscall"
)

// untilHangup returns a context that also ends when the terminal is closed (SIGHUP), so that a command that runs nodes
// stops them in order. Further hangups, which shells send beside the terminal, change nothing. Under nohup the terminal
// does not matter.
func untilHangup(parent context.Context) (context.Context, context.CancelFunc) {
	if signal.Ignored(syscall.SIGHUP) {
		return context.WithCancel(parent)
	}
	return signal.NotifyContext(parent, syscall.SIGHUP)
}

// ignoreHangups logs each SIGHUP and otherwise ignores it until stop is called. A node outlives the terminal that
// started it, and never reads its settings again.
func ignoreHangups(log *slog.Logger) (stop func()) {
	if signal.Ignored(syscall.SIGHUP) {
		return func() {}
	}
	hangups := make(chan os.Signal, 1)
	signal.Notify(hangups, syscall.SIGHUP)
	go func() {
		for range hangups {
			log.Info("SIGHUP is ignored: settings are read at the start only")
		}
	}()
	return func() {
		signal.Stop(hangups)
		close(hangups)
	}
}
