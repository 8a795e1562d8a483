package identity

import (
	"encoding/json"
	"fmt"
	"path/filepath"

	"github.com/belfryhq/belfry/shard/durable"
)

// save replaces the file so that a crash at any line leaves either the old one or the new one, whole.
func (id *Identity) save(r record) error {
	data, err := json.MarshalIndent(r, "", "  ")
	if err != nil {
		return err
	}
	return durable.Replace(filepath.Join(id.dir, fileName), append(data, '\n'), id.step)
}

// errInUse is kept apart from the system's error so that the message says what to look for.
func errInUse(dir string, err error) error {
	return fmt.Errorf("data folder %s is in use by another process: %w", dir, err)
}
