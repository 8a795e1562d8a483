package main

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/belfryhq/belfry/cluster/disk"
	"github.com/belfryhq/belfry/httpapi"
)

// roomPoll is how often a node that waits for room looks.
const roomPoll = time.Second

// awaitRoom holds the start back as long as there is too little room on the disk to write the log for a while: without
// any, the node would end at its first write, and be started, again and again. Meanwhile its port says why.
func (n *node) awaitRoom(ctx context.Context) error {
	reserve, err := disk.Parse(n.flags.minFreeDisk)
	if err != nil {
		return &usageError{fmt.Errorf("--min-free-disk: %w", err)}
	}
	space, err := n.space()
	if err != nil || reserve.Starts(space) {
		return nil // what is not known is no obstacle
	}
	w := waiting{need: reserve, dir: n.flags.data, space: space}
	n.log.Error("this node does not open its data yet", "reason", w.reason())
	stop, err := n.serveWaiting(&w, reserve)
	if err != nil {
		return err
	}
	w.wait(ctx, n.space)
	stop()
	if ctx.Err() == nil {
		n.log.Info("there is room: the node opens its data")
	}
	return nil
}

// waiting is what a node that waits for room says of it.
type waiting struct {
	need disk.Reserve
	dir  string

	mu    sync.Mutex
	space disk.Space // when it last looked
}

func (w *waiting) reason() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return fmt.Sprintf("there is too little room on the disk of %s: %s are free, and the node opens its data when there "+
		"are %s (half of --min-free-disk); it does so by itself",
		w.dir, disk.Size(w.space.Free), disk.Size(w.need.ToStart(w.space.Total)))
}

// wait returns when there is room, or the context ends.
func (w *waiting) wait(ctx context.Context, space func() (disk.Space, error)) {
	ticker := time.NewTicker(roomPoll)
	defer ticker.Stop()
	for {
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return
		}
		now, err := space()
		if err != nil || w.need.Starts(now) {
			return
		}
		w.mu.Lock()
		w.space = now
		w.mu.Unlock()
	}
}

// serveWaiting answers on the node's port until it is told to stop. The port stays bound.
func (n *node) serveWaiting(w *waiting, reserve disk.Reserve) (stop func(), err error) {
	l, ok := n.listener.(*net.TCPListener)
	if !ok {
		return nil, fmt.Errorf("--http: %T is no TCP listener", n.listener)
	}
	metrics := prometheus.NewRegistry() // the node's own watch comes later
	watch := disk.New(disk.Config{
		Space: n.space, Reserve: reserve, Changed: func() {}, Logger: slog.New(slog.DiscardHandler), Registerer: metrics,
	})
	watching, stopWatching := context.WithCancel(context.Background())
	go watch.Run(watching)
	server := &http.Server{
		Handler:           httpapi.Waiting(w.reason, n.origins, prometheus.Gatherers{n.registry, metrics}),
		ReadHeaderTimeout: 10 * time.Second, ReadTimeout: 30 * time.Second, WriteTimeout: 30 * time.Second,
	}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		n.serve(server, lentListener{l})
	}()
	return func() {
		stopWatching()
		ctx, cancel := context.WithTimeout(context.Background(), callGrace)
		defer cancel()
		if server.Shutdown(ctx) != nil {
			_ = server.Close() // nothing that was asked here changes anything
		}
		<-ended
		_ = l.SetDeadline(time.Time{}) // fails only if it is closed, which its next user will notice
	}, nil
}

// lentListener ends whoever accepts when it is closed, and leaves the port bound.
type lentListener struct{ *net.TCPListener }

func (l lentListener) Close() error { return l.SetDeadline(time.Now()) }
