package vitals

import (
	"errors"
	"io/fs"
	"path/filepath"
)

// logFile is the name of a node's log. The starter of the node puts it into the data folder.
const logFile = "belfry.log"

// size returns the number of bytes in the files of a data folder, without logFile. Files that vanish meanwhile are
// left out.
func size(folder string) (int64, error) {
	var sum int64
	err := filepath.WalkDir(folder, func(path string, e fs.DirEntry, err error) error {
		if errors.Is(err, fs.ErrNotExist) || path == filepath.Join(folder, logFile) {
			return nil
		}
		if err != nil || e.IsDir() {
			return err
		}
		info, err := e.Info()
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		if err == nil {
			sum += info.Size()
		}
		return err
	})
	return sum, err
}
