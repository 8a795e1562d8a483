package wire

import (
	"encoding/binary"
	"fmt"

	"github.com/hashicorp/raft"
	"google.golang.org/protobuf/encoding/protowire"
)

// appendRequest encodes a request. It leaves the batch unchanged if it returns an error.
func appendRequest(b *batch, group uint32, number uint64, self string, r *raft.AppendEntriesRequest) error {
	if err := checkRequest(r); err != nil {
		return err
	}
	start := len(b.buf)
	buf := append(b.buf, 0, 0, 0, 0)
	buf = appendUint(buf, groupField, uint64(group))
	buf = appendUint(buf, numberField, number)
	buf = appendUint(buf, termField, r.Term)
	buf = appendUint(buf, prevEntryField, r.PrevLogEntry)
	buf = appendUint(buf, prevTermField, r.PrevLogTerm)
	buf = appendUint(buf, commitField, r.LeaderCommitIndex)
	buf = appendSender(buf, self, &r.RPCHeader)
	for _, e := range r.Entries {
		buf = appendEntry(buf, e)
	}
	head := len(buf) - start - lengthBytes
	if head > maxHead {
		b.buf = buf[:start]
		return fmt.Errorf("request with a head of %d bytes; at most %d", head, maxHead)
	}
	binary.BigEndian.PutUint32(buf[start:], uint32(head))
	b.buf = buf
	for _, e := range r.Entries {
		b.add(e.Data)
		b.add(e.Extensions)
	}
	return nil
}

func checkRequest(r *raft.AppendEntriesRequest) error {
	if n := len(r.Entries); n > maxEntries {
		return fmt.Errorf("request of %d entries; at most %d", n, maxEntries)
	}
	if n := dataBytes(r); n > maxData {
		return fmt.Errorf("request with %d bytes of entries; at most %d", n, maxData)
	}
	return nil
}

func dataBytes(r *raft.AppendEntriesRequest) int {
	n := 0
	for _, e := range r.Entries {
		n += len(e.Data) + len(e.Extensions)
	}
	return n
}

// yearOne is the number of seconds from the year 1 to 1970. It makes the zero time encode as zero.
const yearOne = 62135596800

func appendEntry(buf []byte, e *raft.Log) []byte {
	buf = protowire.AppendTag(buf, entriesField, protowire.BytesType)
	at := len(buf)
	buf = append(buf, 0) // length, always less than 128
	buf = appendUint(buf, entryIndexField, e.Index)
	buf = appendUint(buf, entryTermField, e.Term)
	buf = appendUint(buf, entryTypeField, uint64(e.Type))
	buf = appendUint(buf, entryDataField, uint64(len(e.Data)))
	buf = appendUint(buf, entryExtensionsField, uint64(len(e.Extensions)))
	buf = appendUint(buf, entrySecondsField, uint64(e.AppendedAt.Unix()+yearOne))
	buf = appendUint(buf, entryNanosField, uint64(e.AppendedAt.Nanosecond()))
	buf[at] = byte(len(buf) - at - 1)
	return buf
}

// appendAnswer encodes an answer, or err if it is not nil.
func appendAnswer(b *batch, number uint64, self string, r *raft.AppendEntriesResponse, err error) {
	start := len(b.buf)
	buf := append(b.buf, 0, 0, 0, 0)
	buf = appendUint(buf, numberField, number)
	if err != nil {
		buf = appendBytes(buf, errorField, []byte(textOf(err)))
	} else {
		buf = appendUint(buf, termField, r.Term)
		buf = appendUint(buf, lastLogField, r.LastLog)
		buf = appendBool(buf, successField, r.Success)
		buf = appendBool(buf, noBackoffField, r.NoRetryBackoff)
		buf = appendSender(buf, self, &r.RPCHeader)
	}
	binary.BigEndian.PutUint32(buf[start:], uint32(len(buf)-start-lengthBytes))
	b.buf = buf
}

// appendSender encodes the header that names the sender of a request or answer.
func appendSender(buf []byte, self string, h *raft.RPCHeader) []byte {
	buf = appendUint(buf, protoField, uint64(h.ProtocolVersion))
	if string(h.ID) == self && string(h.Addr) == self {
		return appendUint(buf, ownField, 1)
	}
	buf = appendBytes(buf, idField, h.ID)
	return appendBytes(buf, addrField, h.Addr)
}

func textOf(err error) string {
	text := err.Error()
	if text == "" {
		return "an error without a text"
	}
	return text[:min(len(text), maxError)]
}

func appendUint(buf []byte, field protowire.Number, v uint64) []byte {
	if v == 0 {
		return buf
	}
	buf = protowire.AppendTag(buf, field, protowire.VarintType)
	return protowire.AppendVarint(buf, v)
}

func appendBool(buf []byte, field protowire.Number, v bool) []byte {
	if !v {
		return buf
	}
	return appendUint(buf, field, 1)
}

func appendBytes(buf []byte, field protowire.Number, v []byte) []byte {
	if len(v) == 0 {
		return buf
	}
	buf = protowire.AppendTag(buf, field, protowire.BytesType)
	return protowire.AppendBytes(buf, v)
}
