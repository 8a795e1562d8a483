package peer

import (
	"encoding/binary"
	"errors"
	"io"
)

// The first byte of a connection, and again the first byte after a hello.
const (
	groupByte  = 0x01
	gossipByte = 0x02
	wireByte   = 0x03
	helloByte  = 0x04
	grpcByte   = 'P' // "PRI * HTTP/2.0"
)

// idBytes is the length of node ids and cluster ids. The header has a fixed size because they have.
const idBytes = 16

// groupHeader follows groupByte and names the connection's group, node and cluster. It takes 36 bytes on the wire.
type groupHeader struct {
	group   uint32
	to      string // node id
	cluster string
}

var errHeader = errors.New("peer: not a valid id")

// encode returns groupByte and the header.
func (h groupHeader) encode() ([]byte, error) {
	if len(h.to) != idBytes || len(h.cluster) != idBytes {
		return nil, errHeader
	}
	buf := make([]byte, 0, 1+4+2*idBytes)
	buf = append(buf, groupByte)
	buf = binary.BigEndian.AppendUint32(buf, h.group)
	buf = append(buf, h.to...)
	return append(buf, h.cluster...), nil
}

// readGroupHeader reads the header that follows groupByte.
func readGroupHeader(r io.Reader) (groupHeader, error) {
	var buf [4 + 2*idBytes]byte
	if _, err := io.ReadFull(r, buf[:]); err != nil {
		return groupHeader{}, err
	}
	return groupHeader{
		group:   binary.BigEndian.Uint32(buf[:4]),
		to:      string(buf[4 : 4+idBytes]),
		cluster: string(buf[4+idBytes:]),
	}, nil
}
