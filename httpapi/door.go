package httpapi

import (
	"context"
	"fmt"
	"net/netip"
	"sync"
	"time"

	"github.com/labstack/echo/v4"

	"github.com/belfryhq/belfry/access"
	"github.com/belfryhq/belfry/internal/admission"
)

// single admits a short call. It bounds the number of such calls in progress, and the part of each namespace.
func (s *Server) single(next echo.HandlerFunc) echo.HandlerFunc {
	return func(c echo.Context) error {
		namespace := callOf(c).sharer()
		if most, ok := s.inFlight.Take(namespace, 1); !ok {
			return tooManyCalls("too many calls are under way on this node", most)
		}
		defer s.inFlight.Give(namespace, 1)
		return next(c)
	}
}

func tooManyCalls(detail string, limit int) *problem {
	return &problem{kind: overloaded, detail: detail, limit: fmt.Sprint(limit), retryAfter: 1}
}

// sharer returns the namespace for which a call takes parts of the node's memory and calls. It is empty for callers
// without credentials, so that they may take all, and for operators' calls about the whole cluster, so that an operator
// gets through.
func (c *call) sharer() string {
	if c.caller.Kind == access.KindLocal {
		return ""
	}
	return c.namespace
}

// lasting admits calls to places, for as long as they last.
func (s *Server) lasting(p *places) echo.MiddlewareFunc {
	return func(next echo.HandlerFunc) echo.HandlerFunc {
		return func(c echo.Context) error {
			leave, refusal := p.take(callOf(c).holder())
			if refusal != nil {
				return refusal
			}
			defer leave()
			return next(c)
		}
	}
}

// places bounds the calls of one kind that last: batches, streams, leases that wait.
//
//	holder                    holds at most
//	a caller with credentials as many places as it leaves free: half of all, if it is alone
//	an address without them   three quarters
//	a namespace               three quarters, all of its callers with credentials together
//
// Callers that came first hold more until they give places back. No call under way is cut off.
type places struct {
	kind  string // the kind of calls, in the plural
	limit int

	mu      sync.Mutex      // held while a place is taken in both pools
	callers *admission.Pool // by caller; callers without credentials are one, and may take all
	groups  *admission.Pool // by namespace and address
}

func newPlaces(kind string, limit int) *places {
	return &places{
		kind: kind, limit: limit,
		callers: admission.NewPool(limit), groups: admission.NewCappedPool(limit, limit-limit/4),
	}
}

// holder is the caller that takes a place.
type holder struct {
	caller string // empty: it has no credentials
	group  string // its namespace, or its network
}

// holder returns the caller as the holder of a place. A caller without credentials is its address. Behind a proxy, one
// address may be many callers, so the address of a caller with credentials does not count.
func (c *call) holder() holder {
	if c.caller.Kind == access.KindLocal {
		return holder{group: networkOf(c.Request().RemoteAddr)}
	}
	return holder{caller: c.caller.Kind + " " + c.caller.ID, group: "namespace " + c.namespace}
}

// networkOf returns the network under which a caller is counted: 64 bits with IPv6, since one machine owns all of it.
// Callers with unreadable addresses count as one.
func networkOf(remote string) string {
	at, err := netip.ParseAddrPort(remote)
	if err != nil {
		return ""
	}
	addr, bits := at.Addr().Unmap().WithZone(""), 64
	if addr.Is4() {
		bits = 32
	}
	return netip.PrefixFrom(addr, bits).Masked().String()
}

// take takes a place until leave is called.
func (p *places) take(h holder) (leave func(), refusal *problem) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.callers.Taken() >= p.limit {
		return nil, tooManyCalls("too many "+p.kind+" are under way on this node", p.limit)
	}
	if most, ok := p.callers.Take(h.caller, 1); !ok {
		return nil, tooManyCalls("too many "+p.kind+" of yours are under way on this node, which keeps as many places free "+
			"as you hold", most)
	}
	if most, ok := p.groups.Take(h.group, 1); !ok {
		p.callers.Give(h.caller, 1)
		return nil, tooManyCalls("too many "+p.kind+" of "+h.groupName()+" are under way on this node", most)
	}
	return func() { p.leave(h) }, nil
}

func (p *places) leave(h holder) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.callers.Give(h.caller, 1)
	p.groups.Give(h.group, 1)
}

func (h holder) groupName() string {
	if h.caller == "" {
		return "callers of your address"
	}
	return "your namespace"
}

// mixedLines is the number of a batch's lines in one commit while several namespaces call, for a weight of one.
const mixedLines = 64

// commits bounds the commits of batches while several namespaces call the node: each namespace has one at a time, of
// few lines. A storm of batches otherwise keeps all processors of a cluster busy, and a neighbour's call waits for them
// at each of its steps from node to node, however fair each queue is. A namespace that is alone commits all of its
// lines.
type commits struct {
	weights admission.Weights
	gate    *admission.Gate

	mu  sync.Mutex
	mix admission.Mix
}

func newCommits(weights admission.Weights) *commits {
	return &commits{weights: weights, gate: admission.NewGate(0, 1, weights), mix: admission.Mix{Now: time.Now}}
}

// note notes a call of a namespace. It is empty if the call is about none.
func (c *commits) note(namespace string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.mix.Note(namespace)
}

func (c *commits) areMixed() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.mix.IsMixed()
}

// begin waits until a namespace may commit some lines of a batch. It returns how many of the lines, and the function to
// call when they are committed. Its error is the context's.
func (c *commits) begin(ctx context.Context, namespace string, lines int) (n int, done func(), err error) {
	if !c.areMixed() {
		return lines, func() {}, nil
	}
	if err := c.gate.Await(ctx, namespace); err != nil {
		return 0, nil, err
	}
	return min(lines, mixedLines*c.weights.Of(namespace)), func() { c.gate.Leave(namespace) }, nil
}
