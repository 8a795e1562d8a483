package membership

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
)

// location identifies where a record was written: its own file, and the folder.
type location struct {
	File   inode `json:"file"`
	Folder inode `json:"folder"`
}

// inode identifies a file or folder of this machine. The file system uses the number of a removed file again; birth
// times distinguish the two files.
type inode struct {
	Device  uint64 `json:"device"`
	Number  uint64 `json:"inode"`
	BirthNs int64  `json:"birth_ns,omitempty"` // Unix nanoseconds; 0: the file system keeps none
}

// differs reports whether the two are different files.
func (i inode) differs(o inode) bool {
	if i.Number != o.Number {
		return true
	}
	if i.BirthNs != 0 && o.BirthNs != 0 {
		return i.BirthNs != o.BirthNs
	}
	return i.Device != o.Device
}

// locate returns the location of a record that is written into an open file of the folder.
func locate(dir string, file *os.File) (*location, error) {
	ofFile, err := inodeOf(file.Name())
	if err != nil {
		return nil, err
	}
	ofFolder, err := inodeOf(dir)
	return &location{ofFile, ofFolder}, err
}

// moved reports whether the record's present location differs from the one where it was written.
func (id *Identity) moved() (bool, error) {
	file, err := inodeOf(filepath.Join(id.dir, identityFile))
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil // the folder has no record yet
	}
	if err != nil {
		return false, err
	}
	folder, err := inodeOf(id.dir)
	if err != nil {
		return false, err
	}
	was := id.now.Location
	return was == nil || was.File.differs(file) || was.Folder.differs(folder), nil
}
