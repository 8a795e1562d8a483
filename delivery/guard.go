package delivery

import (
	"fmt"
	"net/netip"
	"net/url"
	"slices"
	"strings"

	"golang.org/x/net/idna"

	"github.com/belfryhq/belfry/fsm/task"
)

const (
	urlField  = "target.url"
	allowFlag = "--allow-webhook-cidr"
)

// Guard decides which addresses a webhook may reach: public unicast addresses and the ranges given to NewGuard. A Guard
// never changes, and the zero value allows only public addresses.
type Guard struct {
	allow []netip.Prefix
}

// NewGuard returns a Guard that also allows the given ranges. Ranges are taken literally: ::/0 contains no IPv4
// address, and a NAT64 range allows every address behind that gateway. A range of IPv4 addresses in IPv6 form counts as
// IPv4.
func NewGuard(allow []netip.Prefix) *Guard {
	g := &Guard{allow: make([]netip.Prefix, 0, len(allow))}
	for _, p := range allow {
		if a := p.Addr(); a.Is4In6() && p.Bits() >= 96 {
			p = netip.PrefixFrom(a.Unmap(), p.Bits()-96)
		}
		g.allow = append(g.allow, p.Masked())
	}
	return g
}

// CheckURL returns an error for a URL, when a task is scheduled, whose host is a refused literal address or no plain
// host name. These are the faults that can be found without a look-up; each attempt checks the addresses of a name.
// task.CheckSpec checks the rest of the URL.
func (g *Guard) CheckURL(rawURL string) *task.FieldError {
	u, err := url.Parse(rawURL)
	if err != nil {
		return faulty(urlFault(err))
	}
	host, err := asciiHost(u.Hostname())
	if err != nil {
		return faulty("has a host that is no valid international name")
	}
	addr, err := netip.ParseAddr(host)
	switch {
	case err == nil:
		return g.checkAddr(host, addr)
	case strings.Contains(host, ":") || strings.HasPrefix(u.Host, "["):
		return faulty(fmt.Sprintf("has a host %q that is no IPv6 address", host))
	}
	return g.checkName(host)
}

// asciiHost maps a host as the HTTP transport does before it dials. Full-width digits become plain digits, for example.
func asciiHost(host string) (string, error) {
	if strings.IndexFunc(host, func(r rune) bool { return r >= 0x80 }) >= 0 {
		return idna.Lookup.ToASCII(host)
	}
	return strings.ToLower(host), nil
}

func (g *Guard) checkAddr(host string, addr netip.Addr) *task.FieldError {
	if addr.Zone() != "" {
		return faulty(fmt.Sprintf("has an address with a zone (%%%s), which differs from node to node", addr.Zone()))
	}
	if kind := g.refusal(addr); kind != "" {
		return faulty(leadsTo(host, addr, kind))
	}
	return nil
}

func (g *Guard) checkName(host string) *task.FieldError {
	name := strings.TrimSuffix(host, ".")
	last := name[strings.LastIndexByte(name, '.')+1:]
	switch {
	case name == "":
		return faulty("has no host")
	case slices.Contains(strings.Split(name, "."), ""):
		return faulty(fmt.Sprintf("has a host %q that is no valid name: there is nothing between two of its dots", host))
	case isNumber(last):
		return faulty(fmt.Sprintf("has a host %q that is an unusual spelling of an IPv4 address: "+
			"write four decimal numbers, as in 192.0.2.7. Loopback and private ones also need %s", host, allowFlag))
	case last == "localhost" && !g.allows(loopback4) && !g.allows(loopback6):
		return faulty(leadsTo(host, loopback4, "loopback"))
	}
	return nil
}

// isNumber reports whether some parsers take a host whose last label is label for an IPv4 address: decimal, octal or
// hexadecimal (WHATWG URL Standard, "ends in a number checker"). No top-level domain is a number.
func isNumber(label string) bool {
	if label == "" {
		return false
	}
	if digits, ok := strings.CutPrefix(label, "0x"); ok {
		return strings.Trim(digits, "0123456789abcdef") == ""
	}
	return strings.Trim(label, "0123456789") == ""
}

// refusal returns the kind of addr if addr must not be reached, or "" if it may be.
func (g *Guard) refusal(addr netip.Addr) string {
	addr = addr.WithZone("")
	plain := addr.Unmap()
	if g.allows(plain) {
		return ""
	}
	if kind := kindOf(plain); kind != "" || plain == addr {
		return kind
	}
	return "v4-in-v6"
}

func (g *Guard) allows(addr netip.Addr) bool {
	for _, p := range g.allow {
		if p.Contains(addr) {
			return true
		}
	}
	return false
}

// leadsTo words the refusal of a host that is an address, or is known to be one: the host, its address, and the flag by
// which an operator can allow it.
func leadsTo(host string, addr netip.Addr, kind string) string {
	subject := addr.String()
	if host != subject {
		subject = host + " leads to " + subject
	}
	return fmt.Sprintf("%s (%s), which is not a public address: %s", subject, kind, onlyOperators)
}

const onlyOperators = "only an operator can allow it, with " + allowFlag

func faulty(detail string) *task.FieldError { return &task.FieldError{Field: urlField, Detail: detail} }
