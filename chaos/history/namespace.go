package history

import (
	"maps"
	"slices"
)

// Namespaces returns the namespaces of the calls and arrivals, in the order of their names. A history without any has
// the default one.
func (h *History) Namespaces() []string {
	seen := map[string]bool{}
	for i := range h.Calls {
		seen[h.Calls[i].Namespace] = true
	}
	for i := range h.Arrivals {
		seen[h.Arrivals[i].Namespace] = true
	}
	if len(seen) == 0 {
		return []string{""}
	}
	return slices.Sorted(maps.Keys(seen))
}

// In returns the part of a history in one namespace: its calls and arrivals, with the faults, terms, owners and
// replicas. It shares these with h, and has no keys.
func (h *History) In(namespace string) *History {
	part := &History{
		Namespace: namespace, Faults: h.Faults, Terms: h.Terms, Owners: h.Owners, Replicas: h.Replicas,
		Calls: h.Calls, Arrivals: h.Arrivals,
	}
	if len(h.Namespaces()) == 1 {
		return part
	}
	part.Calls, part.Arrivals = nil, nil
	for i := range h.Calls {
		if h.Calls[i].Namespace == namespace {
			part.Calls = append(part.Calls, h.Calls[i])
		}
	}
	for i := range h.Arrivals {
		if h.Arrivals[i].Namespace == namespace {
			part.Arrivals = append(part.Arrivals, h.Arrivals[i])
		}
	}
	return part
}
