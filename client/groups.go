package client

import (
	"maps"
	"slices"
	"strconv"

	"github.com/belfryhq/belfry/internal/contract"
)

// appendGroups appends how a queue treats groups.
func appendGroups(b []byte, q *Queue) []byte {
	b = appendInt(b, contract.GroupInFlight, q.GroupInFlight)
	if q.FIFO {
		b = contract.AppendBool(b, contract.FIFO, true)
	}
	if q.Fair {
		b = contract.AppendBool(b, contract.Fair, true)
	}
	if len(q.GroupWeights) == 0 {
		return b
	}
	b = append(contract.AppendName(b, contract.GroupWeights), '{')
	for i, name := range slices.Sorted(maps.Keys(q.GroupWeights)) {
		if i > 0 {
			b = append(b, ',')
		}
		b = append(contract.AppendString(b, name), ':')
		b = strconv.AppendInt(b, int64(q.GroupWeights[name]), 10)
	}
	return append(b, '}')
}

// readNumbers reads an object of whole numbers.
func readNumbers(r *contract.Reader, name string, out *map[string]int) error {
	*out = map[string]int{}
	return r.Each(name, func(member []byte) error {
		var n int
		err := readValue(r, name, &n)
		(*out)[string(member)] = n
		return err
	})
}

// mergeWeights returns the weights as a merge patch has them: 0 removes one.
func mergeWeights(weights map[string]int) map[string]any {
	m := map[string]any{}
	for name, n := range weights {
		m[name] = n
		if n == 0 {
			m[name] = nil
		}
	}
	return m
}
