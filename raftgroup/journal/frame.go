package journal

import (
	"encoding/binary"
	"errors"
	"hash/crc32"
	"path/filepath"
	"strings"
)

// A frame, little-endian:
//
//	0   4 bytes  "Bjr2"
//	4   4 bytes  CRC-32C of all that follows
//	8   4 bytes  length of the body
//	12  4 bytes  0
//	16  8 bytes  epoch
//	24  8 bytes  number
//	32  8 bytes  number of the last frame with a begin record: all frames before it are void
//	40           body: records, one after the other
//
// A record is a byte for its kind, and then, lengths and offsets as varints:
//
//	begin   nothing more: the frame makes all before it void
//	forget  path: all before about files below it is void
//	write   path, offset, data
const (
	magic     = "Bjr2"
	headBytes = 40
	align     = 512 // frames begin at multiples of it, so that no sector with acknowledged bytes is overwritten
)

const (
	recordBegin = iota + 1
	recordForget
	recordWrite
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

func aligned(n int) int64 { return (int64(n) + align - 1) &^ (align - 1) }

const (
	newFrame  = 4 << 10
	keptFrame = 128 << 10 // a larger buffer is not kept for the next frame
)

// newBatch returns an empty batch with room for the head of its frame. It reuses frame if that is not nil.
func newBatch(frame []byte) *batch {
	if frame == nil {
		frame = make([]byte, 0, newFrame)
	}
	return &batch{frame: frame[:headBytes], turn: make(chan struct{}, 1), done: make(chan struct{})}
}

func appendBegin(b []byte) []byte { return append(b, recordBegin) }

func appendForget(b []byte, path string) []byte { return appendBytes(append(b, recordForget), path) }

func appendWrite(b []byte, path string, at int64, data []byte) []byte {
	b = appendBytes(append(b, recordWrite), path)
	b = binary.AppendUvarint(b, uint64(at))
	return appendBytes(b, data)
}

func appendBytes[T string | []byte](b []byte, data T) []byte {
	return append(binary.AppendUvarint(b, uint64(len(data))), data...)
}

// seal fills in a frame's head.
func seal(frame []byte, epoch, number, begun uint64) {
	copy(frame, magic)
	binary.LittleEndian.PutUint32(frame[8:], uint32(len(frame)-headBytes))
	binary.LittleEndian.PutUint32(frame[12:], 0)
	binary.LittleEndian.PutUint64(frame[16:], epoch)
	binary.LittleEndian.PutUint64(frame[24:], number)
	binary.LittleEndian.PutUint64(frame[32:], begun)
	binary.LittleEndian.PutUint32(frame[4:], crc32.Checksum(frame[8:], castagnoli))
}

// found is a frame that was read. Its body points into the bytes read.
type found struct {
	epoch, number, begun uint64
	body                 []byte
}

// frameAt reads the frame at the start of b. It returns false if there is no whole frame.
func frameAt(b []byte) (found, bool) {
	if len(b) < headBytes || string(b[:4]) != magic {
		return found{}, false
	}
	n := uint64(binary.LittleEndian.Uint32(b[8:]))
	if n > uint64(len(b)-headBytes) {
		return found{}, false
	}
	frame := b[:headBytes+n]
	if crc32.Checksum(frame[8:], castagnoli) != binary.LittleEndian.Uint32(frame[4:]) {
		return found{}, false
	}
	return found{
		epoch: binary.LittleEndian.Uint64(frame[16:]), number: binary.LittleEndian.Uint64(frame[24:]),
		begun: binary.LittleEndian.Uint64(frame[32:]), body: frame[headBytes:],
	}, true
}

// record is one record of a frame. Its data points into the bytes read.
type record struct {
	kind byte
	path string // below the root
	at   int64
	data []byte
}

var errMalformed = errors.New("malformed record")

// nextRecord splits the first record off a body that is not empty.
func nextRecord(body []byte) (r record, rest []byte, err error) {
	r.kind, body = body[0], body[1:]
	if r.kind == recordBegin {
		return r, body, nil
	}
	path, body, ok := cutBytes(body)
	r.path = filepath.FromSlash(string(path))
	if !ok || r.kind != recordForget && r.kind != recordWrite || !filepath.IsLocal(r.path) {
		return r, nil, errMalformed
	}
	if r.kind == recordForget {
		return r, body, nil
	}
	at, n := binary.Uvarint(body)
	if n <= 0 || at > 1<<62 {
		return r, nil, errMalformed
	}
	r.at = int64(at)
	if r.data, body, ok = cutBytes(body[n:]); !ok {
		return r, nil, errMalformed
	}
	return r, body, nil
}

func cutBytes(b []byte) (data, rest []byte, ok bool) {
	n, size := binary.Uvarint(b)
	if size <= 0 || n > uint64(len(b)-size) {
		return nil, nil, false
	}
	b = b[size:]
	return b[:n], b[n:], true
}

// isBelow reports whether a file lies in a folder.
func isBelow(path, dir string) bool { return strings.HasPrefix(path, dir+string(filepath.Separator)) }
