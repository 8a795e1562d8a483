package witness

import (
	"maps"
	"slices"
)

// missing returns the voters that must still answer before a node may take part, sorted. It is empty if enough have
// answered. If all is set, every voter of every group must answer, not only a majority of each.
func missing(self string, replicas map[uint32]Replica, answered map[string]bool, all bool) []string {
	waited := make(map[string]bool)
	for _, r := range replicas {
		there, silent := 0, []string{}
		for _, v := range r.Voters {
			if v == self || answered[v] {
				there++
			} else {
				silent = append(silent, v)
			}
		}
		if all || there < len(r.Voters)/2+1 {
			for _, v := range silent {
				waited[v] = true
			}
		}
	}
	return slices.Sorted(maps.Keys(waited))
}

// voters returns all nodes that vote in any of the groups, except self, sorted.
func voters(self string, replicas map[uint32]Replica) []string {
	return missing(self, replicas, nil, true)
}
