package wire

import (
	"fmt"
	"math"
	"time"

	"github.com/hashicorp/raft"
	"google.golang.org/protobuf/encoding/protowire"
)

// fields iterates over the fields of a protobuf message.
type fields struct {
	rest  []byte
	field protowire.Number
	value uint64 // of a varint field
	bytes []byte // of a field with a length; points into rest
	err   error
}

func (f *fields) next() bool {
	for f.err == nil && len(f.rest) > 0 {
		field, kind, n := protowire.ConsumeTag(f.rest)
		if !f.skip(n) {
			return false
		}
		f.field, f.value, f.bytes = field, 0, nil
		switch kind {
		case protowire.VarintType:
			f.value, n = protowire.ConsumeVarint(f.rest)
		case protowire.BytesType:
			f.bytes, n = protowire.ConsumeBytes(f.rest)
		default:
			if n = protowire.ConsumeFieldValue(field, kind, f.rest); f.skip(n) {
				continue
			}
			return false
		}
		return f.skip(n)
	}
	return false
}

func (f *fields) skip(n int) bool {
	if n < 0 {
		f.err = fmt.Errorf("%w: %w", errMalformed, protowire.ParseError(n))
		return false
	}
	f.rest = f.rest[n:]
	return true
}

// sender decodes the current field into the header if it describes the sender, in requests and answers alike.
func (f *fields) sender(h *raft.RPCHeader, from []byte) {
	switch f.field {
	case protoField:
		h.ProtocolVersion = raft.ProtocolVersion(f.value)
	case ownField:
		h.ID, h.Addr = from, from
	case idField:
		h.ID = copied(f.bytes)
	case addrField:
		h.Addr = copied(f.bytes)
	}
}

// request is a received request.
type request struct {
	group  uint32
	number uint64
	rpc    *raft.AppendEntriesRequest // entries lack their data
	sizes  []size                     // of each entry
	data   int                        // bytes of data and extensions of all entries
}

type size struct{ data, extensions int }

// parseRequest decodes a request's head. The result keeps no part of head; its ids may share from, which must not
// change.
func parseRequest(head []byte, from []byte, sizes []size) (request, error) {
	r := request{rpc: &raft.AppendEntriesRequest{}, sizes: sizes[:0]}
	f := fields{rest: head}
	for f.next() {
		switch f.field {
		case groupField:
			if f.value > math.MaxUint32 {
				return r, fmt.Errorf("%w: group %d", errMalformed, f.value)
			}
			r.group = uint32(f.value)
		case numberField:
			r.number = f.value
		case termField:
			r.rpc.Term = f.value
		case prevEntryField:
			r.rpc.PrevLogEntry = f.value
		case prevTermField:
			r.rpc.PrevLogTerm = f.value
		case commitField:
			r.rpc.LeaderCommitIndex = f.value
		case entriesField:
			if err := r.addEntry(f.bytes); err != nil {
				return r, err
			}
		default:
			f.sender(&r.rpc.RPCHeader, from)
		}
	}
	return r, f.err
}

func (r *request) addEntry(encoded []byte) error {
	if len(r.rpc.Entries) == maxEntries {
		return fmt.Errorf("%w: more than %d entries", errMalformed, maxEntries)
	}
	var data, extensions, seconds, nanos uint64
	e := &raft.Log{}
	f := fields{rest: encoded}
	for f.next() {
		switch f.field {
		case entryIndexField:
			e.Index = f.value
		case entryTermField:
			e.Term = f.value
		case entryTypeField:
			if f.value > math.MaxUint8 {
				return fmt.Errorf("%w: entry of type %d", errMalformed, f.value)
			}
			e.Type = raft.LogType(f.value)
		case entryDataField:
			data = f.value
		case entryExtensionsField:
			extensions = f.value
		case entrySecondsField:
			seconds = f.value
		case entryNanosField:
			nanos = f.value
		}
	}
	if f.err != nil {
		return f.err
	}
	room := uint64(maxData - r.data)
	if data > room || extensions > room-data {
		return fmt.Errorf("%w: more than %d bytes of entries", errMalformed, maxData)
	}
	if nanos >= uint64(time.Second) {
		return fmt.Errorf("%w: entry of nanosecond %d", errMalformed, nanos)
	}
	e.AppendedAt = time.Unix(int64(seconds)-yearOne, int64(nanos)).UTC()
	r.rpc.Entries = append(r.rpc.Entries, e)
	r.sizes = append(r.sizes, size{int(data), int(extensions)})
	r.data += int(data) + int(extensions)
	return nil
}

// answer is a received answer.
type answer struct {
	number uint64
	resp   raft.AppendEntriesResponse
	err    error
}

// errPeer is the text of an error that the peer sent as its answer.
type errPeer string

func (e errPeer) Error() string { return string(e) }

func parseAnswer(head []byte, from []byte) (answer, error) {
	var a answer
	f := fields{rest: head}
	for f.next() {
		switch f.field {
		case numberField:
			a.number = f.value
		case termField:
			a.resp.Term = f.value
		case lastLogField:
			a.resp.LastLog = f.value
		case successField:
			a.resp.Success = f.value != 0
		case noBackoffField:
			a.resp.NoRetryBackoff = f.value != 0
		case errorField:
			a.err = errPeer(f.bytes)
		default:
			f.sender(&a.resp.RPCHeader, from)
		}
	}
	if a.err != nil {
		a.resp = raft.AppendEntriesResponse{}
	}
	return a, f.err
}

func copied(b []byte) []byte { return append([]byte(nil), b...) }
