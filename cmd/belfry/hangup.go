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

// reloadOnHangup returns a channel that holds a value after each SIGHUP, until stop is called. A node outlives the
// terminal that started it.
func reloadOnHangup(log *slog.Logger) (reload <-chan struct{}, stop func()) {
	if signal.Ignored(syscall.SIGHUP) {
		return nil, func() {}
	}
	hangups, again := make(chan os.Signal, 1), make(chan struct{}, 1)
	signal.Notify(hangups, syscall.SIGHUP)
	go func() {
		for range hangups {
			log.Info("SIGHUP: the files of certificates and gossip keys are read again; other settings stay")
			select {
			case again <- struct{}{}:
			default: // the node is about to read them
			}
		}
	}()
	return again, func() {
		signal.Stop(hangups)
		close(hangups)
	}
}
