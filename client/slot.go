package client

import (
	"encoding/binary"
	"math/bits"
	"strings"
	"sync/atomic"
)

// slotCount is the number of slots. It never changes.
const slotCount = 4096

// slotOf returns a task's slot: xxhash64(namespace, 0 byte, id) modulo slotCount. An empty namespace is "default". Of
// the id of an occurrence, only the part before the @ counts.
func slotOf(namespace, id string) int {
	id, _, _ = strings.Cut(id, "@")
	if namespace == "" {
		namespace = "default"
	}
	var room [320]byte // the longest namespace and id fit
	b := append(append(room[:0], namespace...), 0)
	return int(xxhash64(append(b, id...)) % slotCount)
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

// shard is one of the cluster's shards. Its identity lasts as long as the client.
type shard struct {
	leader atomic.Pointer[endpoint] // presumed leader, and usable; nil: none
	aside  atomic.Pointer[lane]     // lane of its own, while the shard is in trouble; nil: lines travel with others
}

// distrust makes the shard's lines travel alone from now on, since they would hold up the lines after them.
func (s *shard) distrust(c *Client) {
	if s.aside.Load() == nil {
		s.aside.CompareAndSwap(nil, &lane{c: c, of: s})
	}
}

// trust ends the shard's travelling alone in the given lane. Lines that wait in that lane still go out from it.
func (s *shard) trust(aside *lane) { s.aside.CompareAndSwap(aside, nil) }

// clusterMap is the answer to GET /v1/map.
type clusterMap struct {
	ClusterID string     `json:"cluster_id"`
	Version   string     `json:"map"`
	Namespace string     `json:"namespace"` // of calls that name none
	Nodes     []mapNode  `json:"nodes"`     // that lead a shard and are up
	Shards    []mapShard `json:"shards"`
}

type mapNode struct {
	ID  string `json:"id"`
	URL string `json:"http_url"`
}

type mapShard struct {
	ID     uint32  `json:"id"`
	Leader string  `json:"leader"` // a node's id; empty: none is known
	Slots  []Slots `json:"slots"`
}

// urlOf returns the URL that a node announces, or "" if it leads no shard or is not up.
func (m *clusterMap) urlOf(node string) string {
	for _, n := range m.Nodes {
		if n.ID == node {
			return n.URL
		}
	}
	return ""
}

// layout maps each slot to its shard. It does not change once it is in use.
type layout struct {
	version   string // of the map that it was read from
	namespace string // of the client's calls
	shards    [slotCount]*shard
}

func (l *layout) shardOf(id string) *shard { return l.shards[slotOf(l.namespace, id)] }

// newLayout returns the map's layout, or nil if the map lacks slots. Known shards keep their identity.
func newLayout(view *clusterMap, known map[uint32]*shard) *layout {
	l := &layout{version: view.Version, namespace: view.Namespace}
	for _, v := range view.Shards {
		s := known[v.ID]
		if s == nil {
			s = new(shard)
			known[v.ID] = s
		}
		for _, r := range v.Slots {
			for slot := r.First; slot < r.End && slot < slotCount; slot++ {
				l.shards[slot] = s
			}
		}
	}
	for _, s := range l.shards {
		if s == nil {
			return nil
		}
	}
	return l
}
