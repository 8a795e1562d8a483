package httpapi

import (
	"fmt"
	"net/netip"
	"sync"
	"sync/atomic"

	"github.com/labstack/echo/v4"
)

// single admits a short call. It bounds the number of such calls in progress.
func (s *Server) single(next echo.HandlerFunc) echo.HandlerFunc {
	return func(c echo.Context) error {
		defer s.inFlight.Add(-1)
		if s.inFlight.Add(1) > int64(s.cfg.MaxInFlight) {
			return tooMany("calls", s.cfg.MaxInFlight)
		}
		return next(c)
	}
}

func tooMany(what string, limit int) error {
	return &problem{kind: overloaded, detail: "too many " + what + " are under way on this node",
		limit: fmt.Sprint(limit), retryAfter: 1}
}

// admit gives a long call one of the places.
func (p *places) admit(next echo.HandlerFunc) echo.HandlerFunc {
	return func(c echo.Context) error {
		leave, err := p.take(c.Request().RemoteAddr)
		if err != nil {
			return err
		}
		defer leave()
		return next(c)
	}
}

// places bounds the number of long calls. Callers from one address hold at most three quarters of the places, so that
// one address cannot lock the others out of a node.
type places struct {
	what  string // the kind of calls: batches, streams, consumers
	limit int

	mu    sync.Mutex
	taken int                  // 0 <= taken <= limit
	by    map[netip.Prefix]int // adds up to taken; without zeros
}

func newPlaces(what string, limit int) *places {
	return &places{what: what, limit: limit, by: map[netip.Prefix]int{}}
}

// share returns how many places callers from one address may hold.
func (p *places) share() int { return p.limit - p.limit/4 }

// take takes a place for a caller from this address (host:port), until leave is called. Its error is a problem.
func (p *places) take(remote string) (leave func(), err error) {
	from := callerOf(remote)
	p.mu.Lock()
	defer p.mu.Unlock()
	switch {
	case p.taken >= p.limit:
		return nil, tooMany(p.what, p.limit)
	case p.by[from] >= p.share():
		return nil, &problem{kind: overloaded, limit: fmt.Sprint(p.share()), retryAfter: 1,
			detail: "too many " + p.what + " of callers of your address are under way on this node"}
	}
	p.taken++
	p.by[from]++
	return func() { p.leave(from) }, nil
}

func (p *places) leave(from netip.Prefix) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.taken--
	if p.by[from]--; p.by[from] == 0 {
		delete(p.by, from)
	}
}

// callerOf returns the address under which a caller is counted. For IPv6 it is the network of 64 bits, since one
// machine owns all of it. Callers with unreadable addresses count as one.
func callerOf(remote string) netip.Prefix {
	at, err := netip.ParseAddrPort(remote)
	if err != nil {
		return netip.Prefix{}
	}
	addr, bits := at.Addr().Unmap().WithZone(""), 64
	if addr.Is4() {
		bits = 32
	}
	return netip.PrefixFrom(addr, bits).Masked()
}

// budget is an amount that many calls share. A call that takes a part gives it back later.
type budget struct {
	limit int64
	taken atomic.Int64 // 0 <= taken <= limit, except during a refused take
}

func (b *budget) Take(n int) bool {
	if b.taken.Add(int64(n)) > b.limit {
		b.taken.Add(-int64(n))
		return false
	}
	return true
}

func (b *budget) Give(n int) { b.taken.Add(-int64(n)) }
