package journal

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"math"
	"os"
	"path/filepath"
	"slices"

	"github.com/belfryhq/belfry/raftgroup/durable"
)

// state is the state in which a journal was found.
type state struct {
	epoch, number uint64 // of the newest frame; 0: no frame
	newest        int    // index of the segment with the newest frame
}

// replay writes the journal's frames into the files again. It makes the journal's folder if it is absent.
func replay(cfg Config) (state, error) {
	if err := durable.MakeDir(cfg.Dir); err != nil {
		return state{}, err
	}
	writes, st, err := read(cfg.Dir)
	if err != nil {
		return st, err
	}
	for _, path := range slices.Sorted(maps.Keys(writes)) {
		if err := restore(filepath.Join(cfg.Root, path), writes[path]); err != nil {
			return st, fmt.Errorf("write again what the journal says: %w", err)
		}
	}
	return st, nil
}

// readFrames returns the frames of the newest two epochs, in order.
func readFrames(dir string) ([]found, state, error) {
	var st state
	var all []found
	var newest [len(segmentNames)]uint64 // epoch
	for i, name := range segmentNames {
		b, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return nil, st, err
		}
		for at := int64(0); at < int64(len(b)); {
			f, ok := frameAt(b[at:])
			if !ok {
				at += align
				continue
			}
			at += aligned(headBytes + len(f.body))
			newest[i] = max(newest[i], f.epoch)
			all = append(all, f)
		}
	}
	if newest[1] > newest[0] {
		st.newest = 1
	}
	st.epoch = max(newest[0], newest[1])
	all = slices.DeleteFunc(all, func(f found) bool { return f.epoch+1 < st.epoch })
	slices.SortFunc(all, func(a, b found) int { return cmp.Compare(a.number, b.number) })
	all = valid(all)
	for i, f := range all {
		if i > 0 && f.number != all[i-1].number+1 {
			return nil, st, fmt.Errorf("%w: between frames %d and %d something is missing",
				ErrDamaged, all[i-1].number, f.number)
		}
		st.number = f.number
	}
	return all, st, nil
}

// valid leaves out the void frames. Void frames may have gaps: a frame whose sync failed may be read at the next start
// from the system's memory without being on the disk. Even the frame that made them void may be gone, torn by one that
// was not written to its end.
func valid(frames []found) []found {
	if len(frames) == 0 {
		return frames
	}
	begun := frames[len(frames)-1].begun
	return slices.DeleteFunc(frames, func(f found) bool { return f.number < begun })
}

// effective returns the writes that are not void, by path.
func effective(frames []found) (Writes, error) {
	writes := Writes{}
	for _, f := range frames {
		for body := f.body; len(body) > 0; {
			r, rest, err := nextRecord(body)
			if err != nil {
				return nil, fmt.Errorf("%w: frame %d: %w", ErrDamaged, f.number, err)
			}
			body = rest
			switch r.kind {
			case recordForget:
				maps.DeleteFunc(writes, func(path string, _ []record) bool { return isBelow(path, r.path) })
			case recordWrite:
				writes[r.path] = append(writes[r.path], r)
			}
		}
	}
	return writes, nil
}

// Writes holds a journal's writes by the paths of their files below the root.
type Writes map[string][]record

// Read reads a journal that no process has open.
func Read(dir string) (Writes, error) {
	writes, _, err := read(dir)
	if err != nil {
		return nil, fmt.Errorf("journal: %w", err)
	}
	return writes, nil
}

// Complete writes the journal's writes to folder, a path below the root, into the copy of that folder. The copy then
// equals the folder after an Open.
func (w Writes) Complete(folder, copied string) error {
	for path, of := range w {
		if !isBelow(path, folder) {
			continue
		}
		if err := restore(filepath.Join(copied, path[len(folder):]), of); err != nil {
			return fmt.Errorf("journal: %w", err)
		}
	}
	return nil
}

func read(dir string) (Writes, state, error) {
	frames, st, err := readFrames(dir)
	if err != nil {
		return nil, st, err
	}
	writes, err := effective(frames)
	return writes, st, err
}

// restore writes a file's records into it again, with all that the file holds behind the first of them, and syncs it.
// An append that did not get into the journal may have left bytes there that can be read and are not on the disk: no
// later sync writes what an earlier one failed to write. restore skips a file that does not exist.
func restore(path string, records []record) error {
	f, err := durable.Open(path, os.O_RDWR, 0)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	return errors.Join(rewrite(f, records), f.Close())
}

func rewrite(f Inner, records []record) error {
	start := slices.MinFunc(records, func(a, b record) int { return cmp.Compare(a.at, b.at) }).at
	behind, err := io.ReadAll(io.NewSectionReader(f, start, math.MaxInt64-start))
	if err != nil {
		return err
	}
	if _, err := f.WriteAt(bytes.TrimRight(behind, "\x00"), start); err != nil {
		return err
	}
	for _, w := range records {
		if _, err := f.WriteAt(w.data, w.at); err != nil {
			return err
		}
	}
	return f.Sync()
}
