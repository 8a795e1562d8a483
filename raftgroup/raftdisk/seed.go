package raftdisk

import (
	"errors"
	"fmt"
	"io"

	"github.com/hashicorp/raft"
)

// SeedIndex and SeedTerm are the index and the term of the entry that the snapshot of Seed stands for.
const (
	SeedIndex = 1
	SeedTerm  = 1
)

// Seed makes the empty files of a group the files of a replica that is the group's only voter. write writes the state
// of the group's machine as its snapshots have it, after an entry of SeedIndex and SeedTerm.
func (d *Disk) Seed(node string, write func(io.Writer) error) error {
	if d.term != 0 || d.last != 0 {
		return errors.New("seed: the group has entries already")
	}
	if err := d.Stable().SetUint64([]byte("CurrentTerm"), SeedTerm); err != nil {
		return fmt.Errorf("seed: %w", err)
	}
	voter := raft.Server{ID: raft.ServerID(node), Address: raft.ServerAddress(node)}
	_, transport := raft.NewInmemTransport(voter.Address) // only encodes addresses
	sink, err := d.snapshots.Create(raft.SnapshotVersionMax, SeedIndex, SeedTerm,
		raft.Configuration{Servers: []raft.Server{voter}}, SeedIndex, transport)
	if err != nil {
		return fmt.Errorf("seed: %w", err)
	}
	if err := write(sink); err != nil {
		return errors.Join(fmt.Errorf("seed: %w", err), sink.Cancel())
	}
	if err := sink.Close(); err != nil {
		return fmt.Errorf("seed: %w", err)
	}
	return transport.Close()
}
