package identity

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"

	"github.com/belfryhq/belfry/raftgroup/durable"
)

// save replaces the file so that a crash at any line leaves either the old one or the new one, whole.
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

// errInUse is kept apart from the system's error so that the message says what to look for.
func errInUse(dir string, err error) error {
	return fmt.Errorf("data folder %s is in use by another process: %w", dir, err)
}
