package stand

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"sync/atomic"
	"syscall"
	"unsafe"

	"github.com/belfryhq/belfry/deploy/local"
)

// shared is a number in a file that a node maps, too, so that the node sees each change at once. The node's build needs
// the tag chaos.
type shared struct {
	mapped []byte
	number *atomic.Int64
}

const sharedBytes = 8

// share makes the file with a zero in it. It gives the node the file's path in an environment variable.
func share(with *local.Place, variable, path string) (_ *shared, err error) {
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return nil, err
	}
	if err := os.WriteFile(path, make([]byte, sharedBytes), 0o644); err != nil {
		return nil, err
	}
	file, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, file.Close()) }() // the mapping stays
	mapped, err := syscall.Mmap(int(file.Fd()), 0, sharedBytes, syscall.PROT_READ|syscall.PROT_WRITE, syscall.MAP_SHARED)
	if err != nil {
		return nil, fmt.Errorf("mapping %s: %w", path, err)
	}
	with.Env = append(slices.Clip(with.Env), variable+"="+path)
	return &shared{mapped, (*atomic.Int64)(unsafe.Pointer(&mapped[0]))}, nil
}

func (s *shared) close() error { return syscall.Munmap(s.mapped) }

// shareAll shares a number with every node, in a file of the folder, and returns what of makes of the numbers, by node.
func shareAll[T any](places []local.Place, variable, folder string, of func(*shared) T) (map[string]T, error) {
	all := make(map[string]T, len(places))
	for i, name := range names(len(places)) {
		number, err := share(&places[i], variable, filepath.Join(folder, name))
		if err != nil {
			return all, fmt.Errorf("a number shared with %s: %w", name, err)
		}
		all[name] = of(number)
	}
	return all, nil
}

// closeAll closes all values of a map from nodes to resources, and joins the errors.
func closeAll[T interface{ close() error }](all map[string]T) error {
	var errs []error
	for _, one := range all {
		errs = append(errs, one.close())
	}
	return errors.Join(errs...)
}
