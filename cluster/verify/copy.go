package verify

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// mirror rebuilds a group's folder at another path. It copies the files that opening the group may change, and links
// the snapshots, which are large and never change.
func mirror(from, to string) error {
	snapshots := filepath.Join(from, "snapshots")
	return filepath.WalkDir(from, func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(from, path)
		if err != nil {
			return err
		}
		target := filepath.Join(to, rel)
		switch {
		case entry.IsDir():
			return os.MkdirAll(target, 0o700)
		case !entry.Type().IsRegular() || entry.Name() == "LOCK":
			return nil // the lock belongs to a running node
		case strings.HasPrefix(path, snapshots+string(filepath.Separator)):
			return link(path, target)
		}
		return copyFile(path, target)
	})
}

func link(path, target string) error {
	whole, err := filepath.Abs(path)
	if err != nil {
		return err
	}
	return os.Symlink(whole, target)
}

func copyFile(path, target string) error {
	in, err := os.Open(path)
	if err != nil {
		return err
	}
	defer func() { _ = in.Close() }() // only read
	out, err := os.OpenFile(target, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	_, err = io.Copy(out, in)
	return errors.Join(err, out.Close())
}

// ignoreClosed returns err unless the file was closed already: restoring a snapshot may close it.
func ignoreClosed(err error) error {
	if errors.Is(err, os.ErrClosed) {
		return nil
	}
	return err
}
