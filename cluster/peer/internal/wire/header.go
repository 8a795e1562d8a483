package wire

import (
	"errors"
	"fmt"
	"io"
)

// traffic is the kind of requests that one of the two streams between two nodes carries.
type traffic byte

const (
	beats   traffic = iota // heartbeats: requests without entries that only assert the leader
	entries                // everything else
)

const (
	version = 1  // newest version that this build speaks
	idBytes = 16 // length of node and cluster ids
)

// Header begins a stream, after the byte that distinguishes a stream from other connections. It takes 50 bytes on the
// wire: the newest version that the sender speaks, traffic, and the ids. The receiver answers with one byte: the newest
// version that both speak if it takes the stream, or a Refusal.
type Header struct {
	From, To string // node ids
	Cluster  string

	traffic traffic
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
	buf = append(buf, version, byte(h.traffic))
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
	if traffic(buf[1]) > entries {
		return Header{}, fmt.Errorf("stream of traffic %d; there are two", buf[1])
	}
	ids := string(buf[2:])
	return Header{
		traffic: traffic(buf[1]), From: ids[:idBytes], To: ids[idBytes : 2*idBytes], Cluster: ids[2*idBytes:],
	}, nil
}
