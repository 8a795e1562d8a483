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

	"github.com/belfryhq/belfry/cluster"
	"github.com/belfryhq/belfry/cluster/disk"
	"github.com/belfryhq/belfry/httpapi"
)

// How often a node that waits for room looks, and how often it tries again to open its data without there being more.
const (
	roomPoll = time.Second
	roomTry  = 10 * time.Second
)

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
	return n.wait(ctx, &waiting{dir: n.flags.data, space: space, enough: reserve.Starts, why: func(s disk.Space) string {
		return fmt.Sprintf("the node opens its data when there are %s (half of --min-free-disk, and at least %s)",
			disk.Size(reserve.ToStart(s.Total)), disk.Size(disk.None().ToStart(s.Total)))
	}})
}

// openCluster opens the node's data, and waits for room each time that the disk turns out to be full on the way.
func (n *node) openCluster(ctx context.Context, cfg cluster.Config) error {
	for {
		n.opened = prometheus.NewRegistry() // what an attempt that failed has registered goes with it
		cfg.Registerer = n.opened
		var err error
		if n.cluster, err = n.open(cfg); err == nil || !disk.IsFull(err) {
			return err
		}
		space, unknown := n.space()
		if unknown != nil {
			return err
		}
		again := time.Now().Add(roomTry)
		if failed := n.wait(ctx, &waiting{
			dir: n.flags.data, space: space,
			enough: func(s disk.Space) bool { return s.Free > space.Free || time.Now().After(again) },
			why: func(disk.Space) string {
				return fmt.Sprintf("opening its data failed (%v), and the node tries again when there is more", err)
			},
		}); failed != nil || ctx.Err() != nil {
			return failed
		}
	}
}

// wait returns when there is enough room, or the context ends, and says at the node's port why it waits.
func (n *node) wait(ctx context.Context, w *waiting) error {
	if why := w.why(w.space); why != n.waitedFor {
		n.log.Error("this node does not open its data yet", "reason", w.reason())
		n.waitedFor = why
	}
	stop, err := n.serveWaiting(w)
	if err != nil {
		return err
	}
	w.wait(ctx, n.space)
	stop()
	if ctx.Err() == nil {
		n.log.Info("the node tries to open its data")
	}
	return nil
}

// waiting is what a node that waits for room says of it.
type waiting struct {
	dir    string
	enough func(disk.Space) bool
	why    func(disk.Space) string // the condition that the node waits for

	mu    sync.Mutex
	space disk.Space // when it last looked
}

func (w *waiting) reason() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return fmt.Sprintf("there is too little room on the disk of %s: %s are free, and %s; it does so by itself",
		w.dir, disk.Size(w.space.Free), w.why(w.space))
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
		if err != nil || w.enough(now) {
			return
		}
		w.mu.Lock()
		w.space = now
		w.mu.Unlock()
	}
}

// serveWaiting answers on the node's port until it is told to stop. The port stays bound.
func (n *node) serveWaiting(w *waiting) (stop func(), err error) {
	l, ok := n.listener.(*net.TCPListener)
	if !ok {
		return nil, fmt.Errorf("--http: %T is no TCP listener", n.listener)
	}
	reserve, err := disk.Parse(n.flags.minFreeDisk)
	if err != nil {
		return nil, err
	}
	metrics := prometheus.NewRegistry() // the node's own watch comes later
	watch := disk.New(disk.Config{
		Space: n.space, Reserve: reserve, Changed: func() {}, Logger: slog.New(slog.DiscardHandler), Registerer: metrics,
	})
	watching, stopWatching := context.WithCancel(context.Background())
	go watch.Run(watching)
	server := &http.Server{
		Handler:           httpapi.Waiting(w.reason, n.origins, prometheus.Gatherers{n.registry, metrics}, n.log),
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
