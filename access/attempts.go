package access

import (
	"net/netip"
	"time"

	lru "github.com/hashicorp/golang-lru/v2"
	"golang.org/x/time/rate"
)

// The wrong credentials of an address have these limits.
const (
	wrongPerSecond = 100
	maxAddresses   = 8192 // remembered at a time, in less than 3 MiB
	ipv6Bits       = 64   // a subscriber has at least a whole /64
)

// attempts counts the wrong credentials of each address. Above maxAddresses it forgets the address that was idle for
// longest. This helps no attacker: more addresses than that have a hundred attempts a second each anyway.
type attempts struct {
	byAddress *lru.Cache[netip.Addr, *rate.Limiter]
}

func newAttempts() (*attempts, error) {
	byAddress, err := lru.New[netip.Addr, *rate.Limiter](maxAddresses)
	return &attempts{byAddress: byAddress}, err
}

// tooMany reports whether an address is over its limit.
func (a *attempts) tooMany(addr netip.Addr, now time.Time) bool {
	limiter, known := a.byAddress.Get(subscriber(addr))
	return known && limiter.TokensAt(now) < 1
}

// add counts a wrong credential, and reports whether its address is within its limit.
func (a *attempts) add(addr netip.Addr, now time.Time) bool {
	addr = subscriber(addr)
	limiter, known := a.byAddress.Get(addr)
	if !known {
		limiter = rate.NewLimiter(wrongPerSecond, wrongPerSecond)
		if earlier, exists, _ := a.byAddress.PeekOrAdd(addr, limiter); exists {
			limiter = earlier
		}
	}
	return limiter.AllowN(now, 1)
}

// subscriber returns the address that stands for all addresses of one caller: the first of its /64 for IPv6. An IPv4
// address has one form.
func subscriber(addr netip.Addr) netip.Addr {
	addr = addr.Unmap().WithZone("")
	if !addr.Is6() {
		return addr
	}
	prefix, err := addr.Prefix(ipv6Bits)
	if err != nil {
		return addr // never: an IPv6 address has 64 bits
	}
	return prefix.Addr()
}
