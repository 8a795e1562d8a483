package logstore

import (
	"encoding/binary"
	"hash/crc32"
)

// A raft-wal segment is a header of 32 bytes and then frames. A frame is a header of 8 bytes, the payload, and padding
// to 8 bytes. It holds an entry, the segment's index (which seals it), or a commit. A commit ends a batch and has the
// CRC-32C of all bytes since the commit before, the segment's header included.
const (
	segmentHeaderLen = 32
	frameHeaderLen   = 8

	frameEntry  = 1
	frameIndex  = 2
	frameCommit = 3
)

// segmentScan describes the intact part of a segment.
type segmentScan struct {
	entries    uint64 // number of entries in whole batches
	indexStart uint64 // offset of the array of offsets; 0: not sealed
	end        int    // offset behind the last whole batch; 0: no batch
}

func (s segmentScan) sealed() bool { return s.indexStart > 0 }

// scanSegment reads whole batches from the start of a segment. It stops at the first damaged or torn one, or at the
// seal.
func scanSegment(b []byte) segmentScan {
	var done, next segmentScan
	for off := segmentHeaderLen; ; {
		f, ok := frameAt(b, off)
		if !ok {
			return done
		}
		switch f.typ {
		case frameEntry:
			next.entries++
		case frameIndex:
			next.indexStart = uint64(off + frameHeaderLen)
		case frameCommit:
			if crc32.Checksum(b[done.end:off], castagnoli) != f.value {
				return done
			}
			next.end = f.end
			done = next
			if done.sealed() {
				return done
			}
		}
		off = f.end
	}
}

type frame struct {
	typ     byte
	value   uint32 // length of the payload; in a commit, the checksum
	payload []byte
	end     int // offset of the next frame
}

// frameAt reads the frame at off. It returns false if there is no whole frame.
func frameAt(b []byte, off int) (frame, bool) {
	if off+frameHeaderLen > len(b) {
		return frame{}, false
	}
	head := b[off : off+frameHeaderLen]
	f := frame{typ: head[0], value: binary.LittleEndian.Uint32(head[4:])}
	if f.typ < frameEntry || f.typ > frameCommit || head[1]|head[2]|head[3] != 0 {
		return frame{}, false
	}
	size := 0
	if f.typ != frameCommit {
		size = int(f.value)
	}
	start := off + frameHeaderLen
	f.end = start + (size+7)&^7
	if f.end > len(b) {
		return frame{}, false
	}
	f.payload = b[start : start+size]
	return f, true
}

// farthest is how many entries beyond the last readable one lostEntry searches. A segment cannot hold more: an empty
// entry takes some 40 bytes.
const farthest = 1 << 20

// lostEntry searches behind the last whole batch of a segment for an intact entry that was written when the log was
// durable beyond `last`. Such an entry proves that durable entries are unreadable: the segment is damaged, not torn.
func lostEntry(rest []byte, last uint64) (index uint64, found bool) {
	for off := 0; off+frameHeaderLen <= len(rest); off += 8 {
		if rest[off] != frameEntry {
			continue
		}
		f, ok := frameAt(rest, off)
		if !ok {
			continue
		}
		i, ok := recordIndex(f.payload)
		if !ok || i <= last || i > last+farthest || !intact(f.payload) {
			continue
		}
		if durableBefore(f.payload) > last {
			return i, true
		}
	}
	return 0, false
}
