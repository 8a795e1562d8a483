package identity

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
)

// location is where a record was written: its own file, and the folder.
type location struct {
	File   inode `json:"file"`
	Folder inode `json:"folder"`
}

// inode names a file or folder of this machine. The file system uses the number of a removed file again; birth times
// tell the two files apart.
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

// locate returns the location of a record in that folder that is written into an open file.
func locate(dir string, file *os.File) (*location, error) {
	ofFile, err := inodeOf(file.Name())
	if err != nil {
		return nil, err
	}
	ofFolder, err := inodeOf(dir)
	return &location{ofFile, ofFolder}, err
}

// moved reports whether the record that was read stands elsewhere than where it was written.
func (id *Identity) moved() (bool, error) {
	file, err := inodeOf(filepath.Join(id.dir, fileName))
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil // there is none yet
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
