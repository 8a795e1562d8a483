package identity

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"

	"github.com/belfryhq/belfry/raftgroup/durable"
)

// save replaces the file so that a crash at any step leaves either the old file or the new one, whole.
func (id *Identity) save(r record) error {
	content := func(aside *os.File) (_ []byte, err error) {
		if r.Location, err = locate(id.dir, aside); err != nil {
			return nil, err
		}
		data, err := json.MarshalIndent(r, "", "  ")
		return append(data, '\n'), err
	}
	return durable.ReplaceWith(filepath.Join(id.dir, fileName), content, id.step)
}

// errInUse says that another process holds the lock, and adds the system's error.
func errInUse(dir string, err error) error {
	return fmt.Errorf("data folder %s is in use by another process: %w", dir, err)
}
