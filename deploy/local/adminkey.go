package local

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/belfryhq/belfry/access"
)

// keyFile is the name of the file with the first admin key, in the cluster's folder.
const keyFile = "admin.key"

// openKey returns the path of the cluster's admin key. It makes the key if the cluster is to demand credentials and has
// none yet. A cluster that had a key keeps it. The path is empty if there is none.
func openKey(cfg Config) (string, error) {
	path := filepath.Join(cfg.DataDir, keyFile)
	text, err := os.ReadFile(path)
	switch {
	case err == nil:
		if _, err := access.ParseKey(strings.TrimSpace(string(text))); err != nil {
			return "", fmt.Errorf("%s: the content %w", path, err)
		}
		return path, nil
	case !errors.Is(err, fs.ErrNotExist):
		return "", err
	case !cfg.Auth:
		return "", nil
	}
	_, key := access.NewKey()
	return path, writeKey(path, key)
}

// writeKey writes a new file whole, which only its owner may read. A killed run leaves no part of it.
func writeKey(path, key string) error {
	dir := filepath.Dir(path)
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	file, err := os.CreateTemp(dir, keyFile+".*") // of mode 0600
	if err != nil {
		return err
	}
	_, err = file.WriteString(key + "\n")
	err = errors.Join(err, file.Sync(), file.Close())
	if err == nil {
		err = os.Rename(file.Name(), path)
	}
	if err != nil {
		return errors.Join(err, os.Remove(file.Name()))
	}
	return syncDir(dir)
}

// syncDir makes the entries of a folder last.
func syncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}

// KeyFile returns the path of the file with the cluster's admin key, or "" if calls need no credentials.
func (c *Cluster) KeyFile() string { return c.keyFile }
