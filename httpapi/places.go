package httpapi

import (
	"fmt"
	"net/netip"
	"sync"
)

// places are held by calls that last. Their number is bounded, and callers of one address hold at most three quarters
// of them, so that one address cannot lock all others out of a node.
type places struct {
	what  string // that hold them: batches, streams, consumers
	limit int

	mu    sync.Mutex
	taken int                  // 0 <= taken <= limit
	by    map[netip.Prefix]int // sums up to taken; without zeros
}

func newPlaces(what string, limit int) *places {
	return &places{what: what, limit: limit, by: map[netip.Prefix]int{}}
}

// share is how many places callers of one address may hold.
func (p *places) share() int { return p.limit - p.limit/4 }

// take takes a place for a caller of this address (host:port), until leave is called. Its error is a problem.
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

// callerOf returns the address that a caller counts under: of IPv6 the network of 64 bits, since one machine has all of
// it. Callers whose address cannot be read count as one.
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
