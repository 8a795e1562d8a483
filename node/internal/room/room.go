// Package room holds the start of a node back while its disk is too full to open the data.
//
// Without room the node would end at its first write, and its supervisor would start it again and again. Instead the
// node waits, and its port answers every call with the reason:
//
//	Await   waits until the disk has room to write the log for a while; looks every second
//	Open    calls its function again while the function fails with a full disk: when more is free, and every ten seconds
package room

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/belfryhq/belfry/cluster/headroom"
)

const (
	lookPeriod  = time.Second      // between two looks at the free space
	retryPeriod = 10 * time.Second // between two attempts to open the data with no more space than before
	answerGrace = 2 * time.Second  // for answers under way when the wait ends
)

// Config holds the condition of a Gate and the listener on which it answers. All fields but Secured are required.
type Config struct {
	Dir      string           // data folder, for messages
	Reserve  headroom.Reserve // half of it must be free to start
	Host     headroom.Host
	Listener net.Listener // stays open; has SetDeadline, as a TCP listener
	// Secured returns the listener of the callers' connections, which accepts from the given one. Nil: the given one.
	Secured func(net.Listener) net.Listener
	// Handler returns the handler that answers calls with a reason, and serves the metrics that exist so far.
	Handler func(reason func() string, metrics prometheus.Gatherer) http.Handler
	Logger  *slog.Logger
}

// Gate delays one start. It is not safe for concurrent use.
type Gate struct {
	cfg    Config
	logged string // the last condition in the log
}

// New returns the gate of one start.
func New(cfg Config) *Gate { return &Gate{cfg: cfg} }

// Await returns when there is room to write the log for a while, or when the context ends. It returns at once if the
// space on the disk is not known.
func (g *Gate) Await(ctx context.Context) error {
	space, err := g.cfg.Host.Space()
	if err != nil || g.cfg.Reserve.Starts(space) {
		return nil
	}
	return g.wait(ctx, &wait{
		dir: g.cfg.Dir, space: space, enough: g.cfg.Reserve.Starts,
		condition: func(s headroom.Space) string {
			return fmt.Sprintf("the node opens its data when there are %s (half of --min-free-disk, and at least %s)",
				headroom.FormatBytes(g.cfg.Reserve.ToStart(s.Total)), headroom.FormatBytes(headroom.NoReserve().ToStart(s.Total)))
		},
	})
}

// Open calls open until it succeeds or fails with another error than a full disk, and waits for room in between. It
// returns nil if the context ends during a wait.
func (g *Gate) Open(ctx context.Context, open func() error) error {
	for {
		err := open()
		if err == nil || !headroom.IsDiskFull(err) {
			return err
		}
		space, unknown := g.cfg.Host.Space()
		if unknown != nil {
			return err
		}
		again := time.Now().Add(retryPeriod)
		waited := g.wait(ctx, &wait{
			dir: g.cfg.Dir, space: space,
			enough: func(s headroom.Space) bool { return s.Free > space.Free || time.Now().After(again) },
			condition: func(headroom.Space) string {
				return fmt.Sprintf("opening its data failed (%v), and the node tries again when there is more", err)
			},
		})
		if waited != nil || ctx.Err() != nil {
			return waited
		}
	}
}

// wait answers callers until the wait is over or the context ends.
func (g *Gate) wait(ctx context.Context, w *wait) error {
	if condition := w.condition(w.space); condition != g.logged {
		g.cfg.Logger.Error("this node does not open its data yet", "reason", w.reason())
		g.logged = condition
	}
	stop, err := g.answer(w.reason)
	if err != nil {
		return err
	}
	w.run(ctx, g.cfg.Host)
	if err := stop(); err != nil {
		return err
	}
	if ctx.Err() == nil {
		g.cfg.Logger.Info("the node tries to open its data")
	}
	return nil
}

// wait is one wait for room.
type wait struct {
	dir       string
	enough    func(headroom.Space) bool
	condition func(headroom.Space) string // describes enough

	mu    sync.Mutex
	space headroom.Space // at the last look
}

func (w *wait) reason() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return fmt.Sprintf("there is too little room on the disk of %s: %s are free, and %s; it does so by itself",
		w.dir, headroom.FormatBytes(w.space.Free), w.condition(w.space))
}

// run returns when there is room, or the context ends.
func (w *wait) run(ctx context.Context, host headroom.Host) {
	ticker := time.NewTicker(lookPeriod)
	defer ticker.Stop()
	for {
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return
		}
		now, err := host.Space()
		if err != nil || w.enough(now) {
			return
		}
		w.mu.Lock()
		w.space = now
		w.mu.Unlock()
	}
}

// answer serves the reason on the node's port until stop is called. The port stays bound. stop returns the error that
// ended the server earlier, if any.
func (g *Gate) answer(reason func() string) (stop func() error, err error) {
	l, ok := g.cfg.Listener.(lender)
	if !ok {
		return nil, fmt.Errorf("%T has no deadline", g.cfg.Listener)
	}
	metrics := prometheus.NewRegistry()
	stopWatch := g.watch(metrics)
	server := &http.Server{
		Handler:           g.cfg.Handler(reason, metrics),
		ReadHeaderTimeout: 10 * time.Second, ReadTimeout: 30 * time.Second, WriteTimeout: 30 * time.Second,
	}
	ended := make(chan error, 1)
	lent := net.Listener(lentListener{l})
	if g.cfg.Secured != nil {
		lent = g.cfg.Secured(lent)
	}
	go func() { ended <- server.Serve(lent) }()
	return func() error {
		stopWatch()
		ctx, cancel := context.WithTimeout(context.Background(), answerGrace)
		defer cancel()
		if server.Shutdown(ctx) != nil {
			_ = server.Close() // the calls that this cuts off have changed nothing
		}
		if err := <-ended; !errors.Is(err, http.ErrServerClosed) {
			return err
		}
		return l.SetDeadline(time.Time{})
	}, nil
}

// watch registers the metrics of the disk. The node's own watch starts once its data is open.
func (g *Gate) watch(registerer prometheus.Registerer) (stop func()) {
	watch := headroom.NewDisk(headroom.DiskConfig{
		Host: g.cfg.Host, Reserve: g.cfg.Reserve, Logger: slog.New(slog.DiscardHandler), Registerer: registerer,
	})
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		watch.Run(ctx, func() {})
	}()
	return func() {
		cancel()
		<-ended
	}
}

// lender is a listener whose Accept ends at a deadline.
type lender interface {
	net.Listener
	SetDeadline(at time.Time) error
}

var _ lender = (*net.TCPListener)(nil)

// lentListener is a listener whose Close ends only the pending Accept: the port stays bound.
type lentListener struct{ lender }

func (l lentListener) Close() error { return l.SetDeadline(time.Now()) }
