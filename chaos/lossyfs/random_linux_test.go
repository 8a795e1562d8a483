package lossyfs

import (
	"bytes"
	"errors"
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"testing"

	"golang.org/x/sys/unix"
	"pgregory.net/rapid"
)

// tested is the set of calls that the test makes to a disk.
type tested interface {
	mkdir(path string, mode os.FileMode) error
	create(path string, mode os.FileMode) error
	write(path string, data []byte, at int64) error
	truncate(path string, size int64) error
	allocate(path string, size int64) error
	sync(path string) error
	rename(from, to string) error
	remove(path string) error
	powerLoss() error
	read() (map[string]found, error)
}

const (
	numbers  = 64 // files and folders that one test can distinguish, with the top folder
	mostLost = 9  // most steps that can be lost at once: the model tries all subsets
)

func TestModel(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		play(rt, newDirect(rt, t.TempDir(), rapid.Uint64().Draw(rt, "seed")))
	})
}

// TestModelMounted plays the same calls through the kernel.
func TestModelMounted(t *testing.T) {
	d := mounted(t, 1)
	rapid.Check(t, func(rt *rapid.T) {
		dir, err := os.MkdirTemp(d.Mountpoint(), "")
		need(rt, err, syncPath(d.Mountpoint()))
		play(rt, &onMount{disk: d, dir: dir})
		need(rt, os.RemoveAll(dir), syncPath(d.Mountpoint()))
	})
}

func need(t *rapid.T, errs ...error) {
	t.Helper()
	if err := errors.Join(errs...); err != nil {
		t.Fatal(err)
	}
}

// play makes random calls to a disk and to the model, and compares the two after each power loss.
func play(t *rapid.T, disk tested) {
	g := &game{t: t, disk: disk, model: newModel()}
	t.Repeat(map[string]func(*rapid.T){
		"mkdir":    g.mkdir,
		"create":   g.create,
		"write":    g.write,
		"rewrite":  g.write,
		"truncate": g.truncate,
		"allocate": g.allocate,
		"sync":     g.sync,
		"rename":   g.rename,
		"remove":   g.remove,
		"power":    g.powerLoss,
		"":         func(*rapid.T) {},
	})
	g.powerLoss(t)
}

type game struct {
	t     *rapid.T
	disk  tested
	model *model
}

// choose draws one of the existing paths that are wanted.
func (g *game) choose(t *rapid.T, what string, wanted func(p string, n *modelNode) bool) (string, *modelNode) {
	all := g.model.now.paths(g.model.root)
	maps.DeleteFunc(all, func(p string, n *modelNode) bool { return !wanted(p, n) })
	if len(all) == 0 {
		t.Skip("no such path exists")
	}
	p := rapid.SampledFrom(slices.Sorted(maps.Keys(all))).Draw(t, what)
	return p, all[p]
}

func isFile(_ string, n *modelNode) bool   { return !n.folder }
func isFolder(_ string, n *modelNode) bool { return n.folder }

// newPlace draws a folder and a name in it.
func (g *game) newPlace(t *rapid.T) (string, place) {
	p, dir := g.choose(t, "folder", isFolder)
	name := rapid.SampledFrom([]string{"a", "b", "c"}).Draw(t, "name")
	return path.Join(p, name), place{dir.number, name}
}

// begin makes room for one more step that can be lost.
func (g *game) begin(t *rapid.T) {
	if len(g.model.steps) >= mostLost {
		g.powerLoss(t)
		t.Skip("enough steps")
	}
}

func (g *game) add(t *rapid.T, folder bool, do func(p string, mode os.FileMode) error) {
	g.begin(t)
	p, at := g.newPlace(t)
	if g.model.now[at] != nil || g.model.given+1 >= numbers {
		t.Skip("taken")
	}
	g.model.given++
	n := &modelNode{number: g.model.given, folder: folder, versions: [][]byte{nil}}
	mode := os.FileMode(0o600 | n.number)
	if folder {
		mode |= 0o100
	}
	need(t, do(p, mode))
	g.model.step(nil, modelTree{at: n})
}

func (g *game) mkdir(t *rapid.T)  { g.add(t, true, g.disk.mkdir) }
func (g *game) create(t *rapid.T) { g.add(t, false, g.disk.create) }

const largest = 5 * pageSize

func (g *game) write(t *rapid.T) {
	p, n := g.choose(t, "file", isFile)
	at := rapid.Int64Range(0, largest-1).Draw(t, "at")
	length := rapid.IntRange(1, largest-int(at)).Draw(t, "length")
	data := bytes.Repeat([]byte{rapid.Byte().Draw(t, "value")}, length)
	need(t, g.disk.write(p, data, at))
	next := padded(n.now(), 0, max(len(n.now()), int(at)+length))
	copy(next[at:], data)
	n.versions = append(n.versions, next)
}

func (g *game) truncate(t *rapid.T) {
	p, n := g.choose(t, "file", isFile)
	size := rapid.Int64Range(0, largest).Draw(t, "size")
	if len(n.versions) > 1000 {
		t.Skip("enough versions")
	}
	need(t, g.disk.truncate(p, size))
	// The cut bytes need not be the last written ones: those may be lost while the cut survives.
	next := make([]byte, size)
	copy(next, n.now())
	for _, v := range n.versions {
		n.versions = append(n.versions, v[:min(len(v), int(size))])
	}
	n.versions = append(n.versions, next)
}

func (g *game) allocate(t *rapid.T) {
	p, n := g.choose(t, "file", isFile)
	size := rapid.Int64Range(1, largest).Draw(t, "size")
	need(t, g.disk.allocate(p, size))
	n.versions = append(n.versions, padded(n.now(), 0, max(int(size), len(n.now()))))
}

func (g *game) sync(t *rapid.T) {
	p, n := g.choose(t, "path", func(string, *modelNode) bool { return true })
	need(t, g.disk.sync(p))
	g.model.sync(n)
}

func (g *game) rename(t *rapid.T) {
	g.begin(t)
	from, n := g.choose(t, "what", func(p string, _ *modelNode) bool { return p != "." })
	to, at := g.newPlace(t)
	met := g.model.now[at]
	old := modelTree{g.where(n): n}
	if met != nil {
		old[at] = met
	}
	err := g.disk.rename(from, to)
	switch {
	case met == n:
		need(t, err)
		return
	case g.below(n, at.folder), met != nil && (met.folder != n.folder || g.filled(met)):
		if err == nil {
			t.Fatalf("rename of %s to %s succeeded", from, to)
		}
		return
	}
	need(t, err)
	g.model.step(old, modelTree{at: n})
}

func (g *game) where(n *modelNode) place {
	for at, other := range g.model.now {
		if other == n {
			return at
		}
	}
	panic("it has no name")
}

// below reports whether a folder is n or is in it.
func (g *game) below(n *modelNode, folder int) bool {
	for p, other := range g.model.now.paths(g.model.root) {
		if !other.folder || other.number != folder {
			continue
		}
		for ; p != "."; p = path.Dir(p) {
			if g.model.now.paths(g.model.root)[p] == n {
				return true
			}
		}
	}
	return false
}

func (g *game) filled(n *modelNode) bool {
	for at := range g.model.now {
		if n.folder && at.folder == n.number {
			return true
		}
	}
	return false
}

func (g *game) remove(t *rapid.T) {
	g.begin(t)
	p, n := g.choose(t, "what", func(p string, n *modelNode) bool { return p != "." && !g.filled(n) })
	need(t, g.disk.remove(p))
	g.model.step(modelTree{g.where(n): n}, nil)
}

func (g *game) powerLoss(t *rapid.T) {
	need(t, g.disk.powerLoss())
	got, err := g.disk.read()
	need(t, err, g.model.judge(got))
}

// onMount makes calls in a folder of a mounted disk.
type onMount struct {
	disk *Disk
	dir  string
}

func (m *onMount) at(p string) string { return filepath.Join(m.dir, p) }

func (m *onMount) mkdir(p string, mode os.FileMode) error {
	return errors.Join(os.Mkdir(m.at(p), 0o700), os.Chmod(m.at(p), mode))
}

func (m *onMount) create(p string, mode os.FileMode) error {
	return errors.Join(os.WriteFile(m.at(p), nil, 0o600), os.Chmod(m.at(p), mode))
}

func (m *onMount) open(p string, do func(*os.File) error) error {
	f, err := os.OpenFile(m.at(p), os.O_RDWR, 0)
	if err != nil {
		return err
	}
	return errors.Join(do(f), f.Close())
}

func (m *onMount) write(p string, data []byte, at int64) error {
	return m.open(p, func(f *os.File) error {
		_, err := f.WriteAt(data, at)
		return err
	})
}

func (m *onMount) truncate(p string, size int64) error { return os.Truncate(m.at(p), size) }

func (m *onMount) allocate(p string, size int64) error {
	return m.open(p, func(f *os.File) error { return allocate(f, size) })
}

func (m *onMount) sync(p string) error             { return syncPath(m.at(p)) }
func (m *onMount) rename(from, to string) error    { return unix.Rename(m.at(from), m.at(to)) }
func (m *onMount) remove(p string) error           { return os.Remove(m.at(p)) }
func (m *onMount) powerLoss() error                { return m.disk.PowerLoss() }
func (m *onMount) read() (map[string]found, error) { return readTree(m.dir) }

func syncPath(p string) error {
	f, err := os.Open(p)
	if err != nil {
		return err
	}
	return errors.Join(f.Sync(), f.Close())
}

func readTree(dir string) (map[string]found, error) {
	all := map[string]found{}
	err := filepath.WalkDir(dir, func(p string, e fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := e.Info()
		if err != nil {
			return err
		}
		f := found{number: int(info.Mode().Perm() & (numbers - 1)), folder: e.IsDir()}
		if !f.folder {
			if f.content, err = os.ReadFile(p); err != nil {
				return err
			}
		}
		rel, err := filepath.Rel(dir, p)
		if rel == "." {
			f.number = 0
		}
		all[rel] = f
		return err
	})
	return all, err
}
