package places

import (
	"net/netip"
	"sync"
)

// Caller is the holder of a place.
type Caller struct {
	Kind, ID  string // of its credentials; empty: it has none
	Namespace string // of the call; empty: none
	Addr      string // host:port
}

// FullError refuses a place.
type FullError struct {
	Detail string
	Limit  int // that is reached
}

func (e *FullError) Error() string { return e.Detail }

// Places is a number of places for calls of one kind.
type Places struct {
	what  string // the kind of calls: batches, streams, consumers
	limit int

	mu    sync.Mutex
	taken int            // 0 <= taken <= limit
	by    map[holder]int // without zeros; an address or a caller, and a namespace, for each place taken
}

// holder identifies a caller, an address or a namespace whose places are counted.
type holder struct {
	kind, id string       // of a caller; kind is namespaceKind for a namespace
	network  netip.Prefix // of a caller without credentials
}

const namespaceKind = "namespace"

// New returns as many places as limit, for a kind of calls in the plural.
func New(what string, limit int) *Places {
	return &Places{what: what, limit: limit, by: map[holder]int{}}
}

// Take takes a place until leave is called. Its error is a *FullError.
func (p *Places) Take(c Caller) (leave func(), err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.taken >= p.limit {
		return nil, &FullError{"too many " + p.what + " are under way on this node", p.limit}
	}
	if c.Kind == "" {
		return p.takeAt(c.Addr)
	}
	own, all := holder{kind: c.Kind, id: c.ID}, holder{kind: namespaceKind, id: c.Namespace}
	switch n := p.by[own]; {
	case n >= p.limit-p.taken:
		return nil, &FullError{"too many " + p.what + " of yours are under way on this node, which keeps as many places " +
			"free as you hold", n}
	case p.by[all] >= p.share():
		return nil, &FullError{"too many " + p.what + " of your namespace are under way on this node", p.share()}
	}
	return p.hold(own, all), nil
}

func (p *Places) takeAt(addr string) (leave func(), err error) {
	from := holder{network: networkOf(addr)}
	if p.by[from] >= p.share() {
		return nil, &FullError{"too many " + p.what + " of callers of your address are under way on this node", p.share()}
	}
	return p.hold(from), nil
}

// share returns how many places callers of one address, or of one namespace, may hold.
func (p *Places) share() int { return p.limit - p.limit/4 }

func (p *Places) hold(holders ...holder) (leave func()) {
	p.taken++
	for _, h := range holders {
		p.by[h]++
	}
	return func() { p.leave(holders) }
}

func (p *Places) leave(holders []holder) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.taken--
	for _, h := range holders {
		if p.by[h]--; p.by[h] == 0 {
			delete(p.by, h)
		}
	}
}

// Taken returns the number of places taken.
func (p *Places) Taken() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.taken
}

// networkOf returns the network under which a caller is counted. Callers with unreadable addresses count as one.
func networkOf(remote string) netip.Prefix {
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
