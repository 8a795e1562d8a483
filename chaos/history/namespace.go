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

// In returns the part of a history in one namespace: its calls, arrivals and schedules, with the faults, terms, owners
// and replicas. It shares these with h, and has no keys.
func (h *History) In(namespace string) *History {
	part := &History{
		Namespace: namespace, Faults: h.Faults, Terms: h.Terms, Owners: h.Owners, Replicas: h.Replicas,
		Calls: h.Calls, Arrivals: h.Arrivals,
		Occurrences: h.Occurrences, ScheduleCalls: h.ScheduleCalls, Tallies: h.Tallies,
	}
	if len(h.Namespaces()) == 1 {
		return part
	}
	part.Calls = only(h.Calls, func(c *Call) bool { return c.Namespace == namespace })
	part.Arrivals = only(h.Arrivals, func(a *Arrival) bool { return a.Namespace == namespace })
	part.Occurrences = only(h.Occurrences, func(a *Arrival) bool { return a.Namespace == namespace })
	part.ScheduleCalls = only(h.ScheduleCalls, func(c *ScheduleCall) bool { return c.Namespace == namespace })
	part.Tallies = only(h.Tallies, func(t *Tally) bool { return t.Namespace == namespace })
	return part
}

// only returns the records that belong to a part of a history.
func only[T any](records []T, belongs func(*T) bool) (part []T) {
	for i := range records {
		if belongs(&records[i]) {
			part = append(part, records[i])
		}
	}
	return part
}
