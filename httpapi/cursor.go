package httpapi

import (
	"encoding/base64"
	"encoding/binary"
	"slices"
	"strings"

	"github.com/belfryhq/belfry/fsm/fsmpb"
	"github.com/belfryhq/belfry/fsm/task"
)

// listing identifies a listing by a hash of its kind and its filters. A cursor belongs to one listing: in another one
// it would pass over entries that its caller never saw. The hash is the same on every node, so any of them can go on.
type listing uint64

const (
	listsTasks  = "tasks"
	listsQueues = "queues"
)

// listingOf hashes the filters of q. The size of a page and the payloads in it may differ from page to page.
func listingOf(what string, q *fsmpb.ListQuery) listing {
	var h hasher
	h.digest.Reset()
	h.text(what)
	h.text(q.Namespace)
	h.text(q.Queue)
	h.text(q.Prefix)
	h.num(q.DueBeforeMs)
	h.num(int64(len(q.States)))
	for _, state := range slices.Sorted(slices.Values(q.States)) {
		h.num(int64(state))
	}
	labels := slices.Clone(q.Labels)
	slices.SortFunc(labels, func(a, b *fsmpb.Label) int {
		return strings.Compare(a.Name+"\x00"+a.Value, b.Name+"\x00"+b.Value)
	})
	h.num(int64(len(labels)))
	for _, l := range labels {
		h.text(l.Name)
		h.text(l.Value)
	}
	return listing(h.digest.Sum64())
}

// A cursor is base64url of: eight bytes of a checksum over the listing and the rest, the slot (two bytes), the last id.
const (
	cursorSum  = 8
	cursorHead = cursorSum + 2
)

func (l listing) cursor(slot uint32, after string) string {
	raw := binary.BigEndian.AppendUint16(make([]byte, cursorSum, cursorHead+len(after)), uint16(slot))
	raw = append(raw, after...)
	binary.BigEndian.PutUint64(raw, l.sum(raw[cursorSum:]))
	return base64.RawURLEncoding.EncodeToString(raw)
}

func (l listing) sum(rest []byte) uint64 {
	var h hasher
	h.digest.Reset()
	h.num(int64(l))
	h.bytes(rest)
	return h.digest.Sum64()
}

// decode reads a cursor. ok is false if this listing did not give it out.
func (l listing) decode(text string) (slot uint32, after string, ok bool) {
	raw, err := base64.RawURLEncoding.Strict().DecodeString(text)
	if err != nil || len(raw) < cursorHead || binary.BigEndian.Uint64(raw) != l.sum(raw[cursorSum:]) {
		return 0, "", false
	}
	slot, after = uint32(binary.BigEndian.Uint16(raw[cursorSum:])), string(raw[cursorHead:])
	if slot >= task.Slots || after != "" && task.CheckName("cursor", after) != nil ||
		l.cursor(slot, after) != text { // the decoder skips line breaks
		return 0, "", false
	}
	return slot, after, true
}
