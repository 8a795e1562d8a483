package broker

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/belfryhq/belfry/fsm/task/targeturl"
)

// link is a connected client of one broker.
type link interface {
	// publish returns nil when the broker has confirmed the message, or else the reason. It may outlast ctx while the
	// client library blocks.
	publish(ctx context.Context, t *targeturl.Target, m *message) error
	// lost returns a context that ends when the link is lost; its cause is the reason.
	lost() context.Context
	close(cause error)
}

// pool holds one link for each broker, shared by all attempts.
type pool struct {
	cfg  Config
	open func(context.Context, *endpoint) (link, error)
	size prometheus.Gauge
	ctx  context.Context // ends with the pool
	end  context.CancelCauseFunc

	mu     sync.Mutex
	lines  map[lineKey]*line
	closed bool
}

// lineKey identifies a connection.
type lineKey struct {
	destination string
	vhost       string
	db          int
}

func newPool(cfg Config, size prometheus.Gauge) *pool {
	p := &pool{cfg: cfg, open: openLink, size: size, lines: map[lineKey]*line{}}
	p.ctx, p.end = context.WithCancelCause(context.Background())
	return p
}

func openLink(ctx context.Context, e *endpoint) (link, error) {
	switch e.target.Kind {
	case targeturl.NATS:
		return openNATS(ctx, e)
	case targeturl.AMQP:
		return openAMQP(ctx, e)
	case targeturl.Redis:
		return openRedis(ctx, e)
	case targeturl.Kafka:
		return openKafka(ctx, e)
	case targeturl.RocketMQ:
		return openRocketMQ(ctx, e)
	case targeturl.HTTP:
	}
	return nil, fmt.Errorf("%s is no broker", e.target.Kind)
}

// publish sends one message over the broker's link, which it opens if there is none. It returns when ctx ends.
func (p *pool) publish(ctx context.Context, t *targeturl.Target, m *message) error {
	l, err := p.take(t)
	if err != nil {
		return err
	}
	done, begun := make(chan error, 1), time.Now()
	// A client library may block for longer than the attempt's time, in a write or for another call's lock. So the call
	// runs in a goroutine of its own, which ends with the link at the latest.
	go func() {
		defer p.giveBack(l)
		done <- l.publish(ctx, t, m)
	}()
	select {
	case err := <-done:
		return err
	case <-ctx.Done():
		l.giveUp(begun)
		return l.late(ctx)
	}
}

// take returns the target's line, and counts the caller as its user.
func (p *pool) take(t *targeturl.Target) (*line, error) {
	key := lineKey{t.Destination(), t.VHost, t.DB}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return nil, errClosed
	}
	l := p.lines[key]
	if l == nil {
		known := p.cfg.accessTo(t)
		if known == nil {
			return nil, failed("target.url %s", unknownText(t)) // another node may know the broker, or this one soon
		}
		l = p.add(key, newEndpoint(&p.cfg, t, known))
	}
	l.users++
	l.idle.Stop()
	return l, nil
}

func (p *pool) add(key lineKey, e *endpoint) *line {
	l := &line{key: key, endpoint: e, ready: make(chan struct{})}
	l.idle = time.AfterFunc(p.cfg.IdleTimeout, func() { p.expire(l) })
	p.lines[key] = l
	p.size.Inc()
	go p.connect(l)
	return l
}

// connect opens the line's link. Attempts for the line wait for the link and fail with it, and the next attempt tries
// again. The leader of a task's shard decides on the pauses between attempts.
func (p *pool) connect(l *line) {
	ctx, cancel := context.WithTimeout(p.ctx, p.cfg.ConnectTimeout)
	defer cancel()
	l.link, l.err = p.open(ctx, l.endpoint)
	l.heard(time.Now())
	close(l.ready)
	p.mu.Lock()
	defer p.mu.Unlock()
	if l.err != nil {
		p.drop(l, l.err)
		return
	}
	context.AfterFunc(l.link.lost(), func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		p.drop(l, errClosed)
	})
	if l.dropped {
		go l.link.close(errClosed)
	}
}

// drop forgets a line and closes its link, unless the line was dropped before. The caller holds the pool's lock.
func (p *pool) drop(l *line, cause error) {
	if l.dropped {
		return
	}
	l.dropped = true
	delete(p.lines, l.key)
	p.size.Dec()
	l.idle.Stop()
	if link := l.opened(); link != nil {
		go link.close(cause)
	}
}

func (p *pool) giveBack(l *line) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if l.users--; l.users == 0 && !l.dropped {
		l.idle.Reset(p.cfg.IdleTimeout)
	}
}

func (p *pool) expire(l *line) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if l.users == 0 {
		p.drop(l, errClosed)
	}
}

// close closes every link, and returns when all are closed.
func (p *pool) close() {
	p.end(errClosed)
	p.mu.Lock()
	var links []link
	for _, l := range p.lines {
		if link := l.opened(); link != nil {
			links = append(links, link)
		}
		p.drop(l, errClosed)
	}
	p.closed = true
	p.mu.Unlock()
	var all sync.WaitGroup
	for _, l := range links {
		all.Go(func() { l.close(errClosed) })
	}
	all.Wait()
}
