package history

import "hash/fnv"

// Fingerprint returns the 64-bit FNV-1a hash of a body, by which the checks compare bodies. It returns 0 for an empty
// body.
func Fingerprint(body []byte) uint64 {
	if len(body) == 0 {
		return 0
	}
	h := fnv.New64a()
	h.Write(body)
	return h.Sum64()
}
