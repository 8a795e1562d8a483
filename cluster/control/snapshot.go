package control

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"

	"google.golang.org/protobuf/proto"

	"github.com/belfryhq/belfry/cluster/clusterpb"
)

// snapshotMagic begins every snapshot. Its last byte is the version of the format.
const snapshotMagic = "belfryc\x01"

// snapshotHeaderBytes is the size of the magic and of the CRC-32C of the state that follows, in big endian. Raft's file
// store has its own checksum, but that does not cover a snapshot on its way over the network, and a protobuf message
// that is cut between two fields still decodes.
const snapshotHeaderBytes = len(snapshotMagic) + 4

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

type snapshot struct{ state *clusterpb.ControlState }

// WriteTo writes the state with its header.
func (s snapshot) WriteTo(w io.Writer) (int64, error) {
	data, err := proto.Marshal(s.state)
	if err != nil {
		return 0, err
	}
	n, err := w.Write(sealed(data))
	return int64(n), err
}

// Release does nothing, since states are never changed.
func (snapshot) Release() {}

// sealed returns a state behind its header.
func sealed(state []byte) []byte {
	data := append(make([]byte, 0, snapshotHeaderBytes+len(state)), snapshotMagic...)
	data = binary.BigEndian.AppendUint32(data, crc32.Checksum(state, castagnoli))
	return append(data, state...)
}

func readSnapshot(r io.Reader) (*clusterpb.ControlState, error) {
	data, err := io.ReadAll(r)
	if err != nil {
		return nil, err
	}
	if len(data) < snapshotHeaderBytes {
		return nil, fmt.Errorf("its header: %w", io.ErrUnexpectedEOF)
	}
	magic, sum, body := string(data[:len(snapshotMagic)]), data[len(snapshotMagic):], data[snapshotHeaderBytes:]
	if magic != snapshotMagic {
		return nil, fmt.Errorf("it begins with %q, and this build reads %q", magic, snapshotMagic)
	}
	if crc32.Checksum(body, castagnoli) != binary.BigEndian.Uint32(sum) {
		return nil, errors.New("it is damaged: the state does not match its checksum")
	}
	state := &clusterpb.ControlState{}
	if err := proto.Unmarshal(body, state); err != nil {
		return nil, err
	}
	return state, nil
}
