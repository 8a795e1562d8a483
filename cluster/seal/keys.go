package seal

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"os"
	"sync/atomic"
	"time"

	"github.com/belfryhq/belfry/fsm/fsmpb"
)

// lookEvery is the interval of looks at the file.
const lookEvery = 2 * time.Second

// Keys is the keys of a node, which follow their file. Its methods are safe for concurrent use. A nil Keys has no keys.
type Keys struct {
	path string
	log  *slog.Logger
	ring atomic.Pointer[Ring]

	// Only Run uses these.
	seen  []byte // contents at the last look
	fault string // of the contents; it is logged once
}

// OpenKeys reads the keys of a file. An empty path stands for no keys, and gives nil.
func OpenKeys(path string, log *slog.Logger) (*Keys, error) {
	if path == "" {
		return nil, nil //nolint:nilnil // nil is a Keys without keys
	}
	data, err := readFile(path)
	if err != nil {
		return nil, err
	}
	ring, err := Parse(data)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	k := &Keys{path: path, log: log, seen: data}
	k.ring.Store(ring)
	return k, nil
}

// readFile refuses a file that others may read or change.
func readFile(path string) ([]byte, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, err
	}
	if mode := info.Mode().Perm(); mode&0o027 != 0 {
		return nil, fmt.Errorf("%s has keys in it and mode %04o: take the rights of others away (chmod 640 or 600)",
			path, mode)
	}
	return os.ReadFile(path)
}

// Ring returns the present keys.
func (k *Keys) Ring() *Ring {
	if k == nil {
		return nil
	}
	return k.ring.Load()
}

// Key returns the id of the key that seals, or "" without keys.
func (k *Keys) Key() string { return k.Ring().First() }

// IsCurrent is that of the present Ring.
func (k *Keys) IsCurrent(p *fsmpb.QueuePolicy) bool { return k.Ring().IsCurrent(p) }

// Seal is that of the present Ring.
func (k *Keys) Seal(p, present *fsmpb.QueuePolicy) (*fsmpb.QueuePolicy, error) {
	return k.Ring().Seal(p, present)
}

// Open is that of the present Ring.
func (k *Keys) Open(p *fsmpb.QueuePolicy) (*fsmpb.QueuePolicy, error) { return k.Ring().Open(p) }

// Run follows the file until the context ends: every two seconds, and at once after a receive from again, which may be
// nil. New contents count once two looks find the same, or at once after a receive. Faulty contents change nothing.
func (k *Keys) Run(ctx context.Context, again <-chan struct{}) {
	if k == nil {
		return
	}
	ticker := time.NewTicker(lookEvery)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
			k.look(false)
		case <-again:
			k.look(true)
		}
	}
}

func (k *Keys) look(now bool) {
	data, err := readFile(k.path)
	settled := err == nil && bytes.Equal(data, k.seen)
	k.seen = data
	if err == nil && !settled && !now {
		return
	}
	var ring *Ring
	if err == nil {
		ring, err = Parse(data)
	}
	if err != nil {
		if err.Error() != k.fault {
			k.log.Warn("the cluster keys stay as they are: their file is faulty", "file", k.path, "err", err)
		}
		k.fault = err.Error()
		return
	}
	k.fault = ""
	if old := k.ring.Swap(ring); fmt.Sprint(old.IDs()) != fmt.Sprint(ring.IDs()) {
		k.log.Info("cluster keys", "file", k.path, "keys", ring.IDs())
	}
}
