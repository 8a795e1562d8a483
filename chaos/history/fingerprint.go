package history

import "hash/fnv"

// Fingerprint is the hash of a body, by which bodies are compared; 0 stands for none.
func Fingerprint(body []byte) uint64 {
	if len(body) == 0 {
		return 0
	}
	h := fnv.New64a()
	h.Write(body)
	return h.Sum64()
}
