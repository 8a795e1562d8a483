package seal

import (
	"context"
	"fmt"
	"log/slog"
	"os"

	"github.com/belfryhq/belfry/cluster/reload"
	"github.com/belfryhq/belfry/fsm/fsmpb"
)

// Keys holds the keys of a node and follows their file. Its methods are safe for concurrent use. A nil Keys has none.
type Keys struct {
	path string
	log  *slog.Logger
	ring reload.Value[*Ring]
}

// OpenKeys reads the keys of a file. An empty path stands for no keys, and gives nil.
func OpenKeys(path string, log *slog.Logger) (*Keys, error) {
	if path == "" {
		return nil, nil //nolint:nilnil // nil is a Keys without keys
	}
	k := &Keys{path: path, log: log, ring: reload.Value[*Ring]{
		Files: []string{path},
		Parse: func(contents [][]byte) (*Ring, error) {
			if err := checkMode(path); err != nil {
				return nil, err
			}
			ring, err := Parse(contents[0])
			if err != nil {
				err = fmt.Errorf("%s: %w", path, err)
			}
			return ring, err
		},
	}}
	if err := k.ring.Open(); err != nil {
		return nil, err
	}
	return k, nil
}

// checkMode refuses a file that others may read or change.
func checkMode(path string) error {
	info, err := os.Stat(path)
	if err != nil {
		return err
	}
	if mode := info.Mode().Perm(); mode&0o027 != 0 {
		return fmt.Errorf("%s has keys in it and mode %04o: take the rights of others away (chmod 640 or 600)", path, mode)
	}
	return nil
}

// Ring returns the present keys.
func (k *Keys) Ring() *Ring {
	if k == nil {
		return nil
	}
	return k.ring.Get()
}

// Key returns the id of the key that seals, or "" without keys.
func (k *Keys) Key() string { return k.Ring().First() }

// IsCurrent calls the IsCurrent of the present Ring.
func (k *Keys) IsCurrent(p *fsmpb.QueuePolicy) bool { return k.Ring().IsCurrent(p) }

// Seal calls the Seal of the present Ring.
func (k *Keys) Seal(p, present *fsmpb.QueuePolicy) (*fsmpb.QueuePolicy, error) {
	return k.Ring().Seal(p, present)
}

// Open calls the Open of the present Ring.
func (k *Keys) Open(p *fsmpb.QueuePolicy) (*fsmpb.QueuePolicy, error) { return k.Ring().Open(p) }

// Run follows the file until the context ends, as package reload does; again may be nil.
func (k *Keys) Run(ctx context.Context, again <-chan struct{}) { reload.Loop(ctx, 0, again, k.look) }

func (k *Keys) look(now bool) {
	switch outcome, err := k.ring.Look(now); outcome {
	case reload.Taken:
		k.log.Info("cluster keys", "file", k.path, "keys", k.Ring().IDs())
	case reload.Faulty:
		k.log.Warn("the cluster keys stay as they are: their file is faulty", "file", k.path, "err", err)
	}
}
