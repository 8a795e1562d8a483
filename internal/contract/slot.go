package contract

import (
	"encoding/binary"
	"math/bits"
	"strings"
)

// SlotCount is the number of slots. It never changes.
const SlotCount = 4096

// SlotOf returns a task's slot: xxhash64(namespace, 0 byte, id) modulo SlotCount. An empty namespace is "default". Of
// the id of an occurrence, only the part before the @ counts.
func SlotOf(namespace, id string) int {
	id, _, _ = strings.Cut(id, "@")
	if namespace == "" {
		namespace = "default"
	}
	var room [320]byte // the longest namespace and id fit
	b := append(append(room[:0], namespace...), 0)
	return int(xxhash64(append(b, id...)) % SlotCount)
}

// The primes of xxHash64 (https://github.com/Cyan4973/xxHash, doc/xxhash_spec.md).
const (
	prime1 uint64 = 11400714785074694791
	prime2 uint64 = 14029467366897019727
	prime3 uint64 = 1609587929392839161
	prime4 uint64 = 9650029242287828579
	prime5 uint64 = 2870177450012600261
)

// xxhash64 returns the xxHash64 of b with seed 0.
func xxhash64(b []byte) uint64 {
	h, n := prime5, uint64(len(b))
	if len(b) >= 32 {
		h, b = stripes(b)
	}
	h += n
	for ; len(b) >= 8; b = b[8:] {
		h ^= round(0, binary.LittleEndian.Uint64(b))
		h = bits.RotateLeft64(h, 27)*prime1 + prime4
	}
	if len(b) >= 4 {
		h ^= uint64(binary.LittleEndian.Uint32(b)) * prime1
		h = bits.RotateLeft64(h, 23)*prime2 + prime3
		b = b[4:]
	}
	for _, c := range b {
		h ^= uint64(c) * prime5
		h = bits.RotateLeft64(h, 11) * prime1
	}
	h = (h ^ h>>33) * prime2
	h = (h ^ h>>29) * prime3
	return h ^ h>>32
}

// stripes hashes all whole stripes of 32 bytes, and returns the rest.
func stripes(b []byte) (h uint64, rest []byte) {
	one, two := prime1, prime2 // sums of constants would overflow; sums of variables wrap
	v := [4]uint64{one + two, two, 0, -one}
	for ; len(b) >= 32; b = b[32:] {
		for i := range v {
			v[i] = round(v[i], binary.LittleEndian.Uint64(b[8*i:]))
		}
	}
	h = bits.RotateLeft64(v[0], 1) + bits.RotateLeft64(v[1], 7) + bits.RotateLeft64(v[2], 12) + bits.RotateLeft64(v[3], 18)
	for _, lane := range v {
		h = (h^round(0, lane))*prime1 + prime4
	}
	return h, b
}

func round(lane, input uint64) uint64 { return bits.RotateLeft64(lane+input*prime2, 31) * prime1 }
