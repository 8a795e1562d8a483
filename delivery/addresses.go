package delivery

import "net/netip"

var (
	loopback4 = netip.AddrFrom4([4]byte{127, 0, 0, 1})
	loopback6 = netip.IPv6Loopback()

	publicIPv6 = netip.MustParsePrefix("2000::/3") // unicast addresses for global use
)

// addressRange is a part of the address space that has no public receiver.
type addressRange struct {
	prefix netip.Prefix
	kind   string
}

// ranges4 and ranges6 follow IANA's special-purpose address registries (RFC 6890 and its updates), as of 2025. ranges6
// lists the ranges in publicIPv6 that are not public, and those outside that have a name of their own.
var (
	ranges4 = parseRanges([][2]string{
		{"0.0.0.0/8", "unspecified"},
		{"10.0.0.0/8", "private"},
		{"100.64.0.0/10", "shared"},
		{"127.0.0.0/8", "loopback"},
		{"168.63.129.16/32", "cloud platform"}, // Azure's host agent, reachable from each of its machines
		{"169.254.0.0/16", "link-local"},
		{"172.16.0.0/12", "private"},
		{"192.0.0.0/24", "reserved"},
		{"192.0.2.0/24", "documentation"},
		{"192.88.99.0/24", "6to4 relay"},
		{"192.168.0.0/16", "private"},
		{"198.18.0.0/15", "benchmarking"},
		{"198.51.100.0/24", "documentation"},
		{"203.0.113.0/24", "documentation"},
		{"224.0.0.0/4", "multicast"},
		{"255.255.255.255/32", "broadcast"},
		{"240.0.0.0/4", "reserved"},
	})
	ranges6 = parseRanges([][2]string{
		{"::/128", "unspecified"},
		{"::1/128", "loopback"},
		{"::/96", "v4-in-v6"},
		{"::ffff:0:0:0/96", "v4-in-v6"}, // RFC 2765's translated form
		{"64:ff9b::/96", "NAT64"},
		{"64:ff9b:1::/48", "NAT64"},
		{"2001::/32", "Teredo"},
		{"2001::/23", "reserved"},
		{"2001:db8::/32", "documentation"},
		{"2002::/16", "6to4"},
		{"3fff::/20", "documentation"},
		{"fc00::/7", "private"},
		{"fe80::/10", "link-local"},
		{"fec0::/10", "private"}, // site-local, long deprecated
		{"ff00::/8", "multicast"},
	})
)

func parseRanges(table [][2]string) []addressRange {
	out := make([]addressRange, 0, len(table))
	for _, row := range table {
		out = append(out, addressRange{netip.MustParsePrefix(row[0]), row[1]})
	}
	return out
}

// kindOf returns the kind of a special address, or "" for a public unicast one. Where ranges overlap, the first in the
// table counts.
func kindOf(addr netip.Addr) string {
	ranges := ranges4
	if addr.Is6() {
		ranges = ranges6
	}
	for _, r := range ranges {
		if r.prefix.Contains(addr) {
			return r.kind
		}
	}
	if addr.Is6() && !publicIPv6.Contains(addr) {
		return "reserved"
	}
	return ""
}
