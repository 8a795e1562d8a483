package cli

import (
	"errors"
	"io/fs"
	"os"
)

// secretRoom is the space that a file has for a secret before the secret is made.
const secretRoom = 4 << 10

// OpenForSecret prepares an output for a secret that is shown once: a file becomes readable by its owner alone, since
// the shell has made it readable for all, and must have room. Other outputs stay as they are.
func OpenForSecret(out any) error {
	file, size, err := regular(out)
	if file == nil || err != nil {
		return err
	}
	info, err := file.Stat()
	if err != nil {
		return err
	}
	if info.Mode().Perm()&0o077 != 0 {
		if err := file.Chmod(info.Mode().Perm() &^ 0o077); err != nil {
			return err
		}
	}
	room := make([]byte, secretRoom)
	_, err = file.WriteAt(room, size)
	var failed *fs.PathError
	if err != nil && !errors.As(err, &failed) { // a file that only grows takes no WriteAt
		_, err = file.Write(room)
	}
	if err == nil {
		err = file.Sync()
	}
	return errors.Join(err, file.Truncate(size))
}

// SyncSecret returns once the secret in an output outlives the machine, if the output is a file.
func SyncSecret(out any) error {
	file, _, err := regular(out)
	if file == nil || err != nil {
		return err
	}
	return file.Sync()
}

// regular returns the file of an output and its size, or nil for other outputs.
func regular(out any) (file *os.File, size int64, err error) {
	file, ok := out.(*os.File)
	if !ok {
		return nil, 0, nil
	}
	info, err := file.Stat()
	if err != nil || !info.Mode().IsRegular() {
		return nil, 0, err
	}
	return file, info.Size(), nil
}
