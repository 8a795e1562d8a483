package history

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/belfryhq/belfry/history/historypb"
	"github.com/belfryhq/belfry/history/internal/segment"
)

const (
	markName = "mark"
	draft    = ".draft" // ends the names of files that are not whole yet
)

// writeMark replaces the mark of a folder.
func writeMark(dir string, m *historypb.Mark) error {
	data, err := m.MarshalVT()
	if err != nil {
		return err
	}
	sum := crc32.Checksum(data, crc32.MakeTable(crc32.Castagnoli))
	path := filepath.Join(dir, markName)
	if err := writeSynced(path+draft, binary.LittleEndian.AppendUint32(data, sum)); err != nil {
		return err
	}
	if err := os.Rename(path+draft, path); err != nil {
		return err
	}
	return syncDir(dir)
}

func writeSynced(path string, data []byte) error {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o640)
	if err != nil {
		return err
	}
	_, err = f.Write(data)
	return errors.Join(err, f.Sync(), f.Close())
}

// readMark returns the mark of a folder, or an empty one if there is none. A damaged mark is segment.ErrCorrupt.
func readMark(dir string) (*historypb.Mark, error) {
	m := &historypb.Mark{}
	data, err := os.ReadFile(filepath.Join(dir, markName))
	if errors.Is(err, os.ErrNotExist) {
		return m, nil
	}
	if err != nil {
		return nil, err
	}
	n := len(data) - 4
	if n < 0 || crc32.Checksum(data[:n], crc32.MakeTable(crc32.Castagnoli)) != binary.LittleEndian.Uint32(data[n:]) {
		return nil, fmt.Errorf("%w: the mark", segment.ErrCorrupt)
	}
	return m, m.UnmarshalVT(data[:n])
}

// floorOf returns the place up to which the events of a namespace are gone; nil: none is gone.
func floorOf(m *historypb.Mark, namespace string) *historypb.Place {
	i, found := findFloor(m, namespace)
	if found && m.Namespaces[i].Place.Position().After(m.Floor.Position()) {
		return m.Namespaces[i].Place
	}
	return m.Floor
}

func findFloor(m *historypb.Mark, namespace string) (int, bool) {
	return slices.BinarySearchFunc(m.Namespaces, namespace, func(f *historypb.Floor, namespace string) int {
		return strings.Compare(f.Namespace, namespace)
	})
}

// raiseFloor returns a mark with the floor of one namespace at the place.
func raiseFloor(m *historypb.Mark, namespace string, place *historypb.Place) *historypb.Mark {
	m = m.CloneVT()
	i, found := findFloor(m, namespace)
	if !found {
		m.Namespaces = slices.Insert(m.Namespaces, i, &historypb.Floor{Namespace: namespace})
	}
	m.Namespaces[i].Place = place
	return m
}

// raiseFloors returns a mark with the floor of all namespaces at the place.
func raiseFloors(m *historypb.Mark, place *historypb.Place) *historypb.Mark {
	m = m.CloneVT()
	m.Floor = place
	m.Namespaces = slices.DeleteFunc(m.Namespaces, func(f *historypb.Floor) bool {
		return !f.Place.Position().After(place.Position())
	})
	return m
}

// forgetFloor returns a mark without the namespace.
func forgetFloor(m *historypb.Mark, namespace string) *historypb.Mark {
	i, found := findFloor(m, namespace)
	if !found {
		return m
	}
	m = m.CloneVT()
	m.Namespaces = slices.Delete(m.Namespaces, i, i+1)
	return m
}
