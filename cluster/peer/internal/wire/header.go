package wire

import (
	"errors"
	"fmt"
	"io"
)

// Traffic is the content of a stream. AppendEntries have two streams between two nodes; this package serves them.
type Traffic byte

// The kinds of traffic.
const (
	beats   Traffic = iota // heartbeats: requests without entries that only assert the leader
	entries                // everything else of AppendEntries
	Calls                  // calls to the other node
	Pulls                  // the demands of consumers, and leased tasks
)

const (
	version = 1  // newest version that this build speaks
	idBytes = 16 // length of node and cluster ids
)

// Header begins a stream, after the byte that distinguishes a stream from other connections. It takes 50 bytes on the
// wire: the newest version that the sender speaks, the traffic, and the ids. The receiver answers with one byte: the
// newest version that both speak if it takes the stream, or a Refusal.
type Header struct {
	From, To string // node ids
	Cluster  string

	Traffic Traffic
}

var (
	errID      = errors.New("not a valid id")
	errVersion = errors.New("not a version that this build speaks")
)

func (h Header) append(buf []byte) ([]byte, error) {
	for _, id := range []string{h.From, h.To, h.Cluster} {
		if len(id) != idBytes {
			return nil, fmt.Errorf("%q: %w", id, errID)
		}
	}
	buf = append(buf, version, byte(h.Traffic))
	buf = append(buf, h.From...)
	buf = append(buf, h.To...)
	return append(buf, h.Cluster...), nil
}

// ReadHeader reads the header that follows the first byte.
func ReadHeader(r io.Reader) (Header, error) {
	var buf [2 + 3*idBytes]byte
	if _, err := io.ReadFull(r, buf[:]); err != nil {
		return Header{}, err
	}
	if buf[0] == 0 {
		return Header{}, errVersion
	}
	if Traffic(buf[1]) > Pulls {
		return Header{}, fmt.Errorf("stream of traffic %d; the last known one is %d", buf[1], Pulls)
	}
	ids := string(buf[2:])
	return Header{
		Traffic: Traffic(buf[1]), From: ids[:idBytes], To: ids[idBytes : 2*idBytes], Cluster: ids[2*idBytes:],
	}, nil
}
