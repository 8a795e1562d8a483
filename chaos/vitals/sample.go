package vitals

import (
	"errors"
	"io/fs"
	"path/filepath"
)

// logFile is where a node's output goes, which whoever started it put beside its data.
const logFile = "belfry.log"

// size is how many bytes the files of a node's data take from the disk. Files that go away meanwhile are left out.
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
