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

// snapshotMagic begins every snapshot.
const snapshotMagic = "belfryc"

// snapshotHeaderBytes is the size of the magic, of one byte with the state's command version, and of the CRC-32C of the
// state that follows, in big endian. Raft's file store has its own checksum, but that does not cover a snapshot on its
// way over the network, and a protobuf message that is cut between two fields still decodes.
const snapshotHeaderBytes = len(snapshotMagic) + 1 + 4

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

type snapshot struct{ state *clusterpb.ControlState }

// WriteTo writes the state with its header.
func (s snapshot) WriteTo(w io.Writer) (int64, error) {
	data, err := proto.Marshal(s.state)
	if err != nil {
		return 0, err
	}
	n, err := w.Write(sealed(data, s.state.Version))
	return int64(n), err
}

// WriteSnapshot writes a state as the snapshot of a replica.
func WriteSnapshot(w io.Writer, state *clusterpb.ControlState) error {
	_, err := snapshot{state}.WriteTo(w)
	return err
}

// Release does nothing, since states are never changed.
func (snapshot) Release() {}

// sealed returns a state of a command version behind its header.
func sealed(state []byte, version uint32) []byte {
	data := append(make([]byte, 0, snapshotHeaderBytes+len(state)), snapshotMagic...)
	data = append(data, byte(max(version, firstVersion)))
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
	header, body := data[:snapshotHeaderBytes], data[snapshotHeaderBytes:]
	if err := checkHeader(header, body); err != nil {
		return nil, err
	}
	state := &clusterpb.ControlState{}
	if err := proto.Unmarshal(body, state); err != nil {
		return nil, err
	}
	if said := uint32(header[len(snapshotMagic)]); said != max(state.Version, firstVersion) {
		return nil, fmt.Errorf("its header has command version %d, and its state %d", said, state.Version)
	}
	return state, nil
}

func checkHeader(header, body []byte) error {
	magic, version, sum := header[:len(snapshotMagic)], uint32(header[len(snapshotMagic)]), header[len(snapshotMagic)+1:]
	switch {
	case string(magic) != snapshotMagic:
		return fmt.Errorf("it begins with %q, and not with %q", magic, snapshotMagic)
	case version > Version:
		return fmt.Errorf("it has command version %d, and this build reads %d at most: upgrade this node", version, Version)
	case crc32.Checksum(body, castagnoli) != binary.BigEndian.Uint32(sum):
		return errors.New("it is damaged: the state does not match its checksum")
	}
	return nil
}
