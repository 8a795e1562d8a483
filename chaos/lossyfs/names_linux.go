package lossyfs

import (
	"errors"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"syscall"
	"time"
)

// inode is a file or a folder. Its number is never used again in one mount.
type inode struct {
	id      uint64
	mode    uint32            // kind and permissions
	content *content          // nil for a folder
	entries map[string]*inode // of a folder
	uid     uint32
	gid     uint32
	changed time.Time

	parent  *inode // nil: it has no name now, or is the top folder
	name    string
	handles int // open handles
	pending int // changes in the journal that concern the inode
}

func (n *inode) folder() bool { return n.content == nil }

// change is the replacement of the inode behind one name, from old to new.
type change struct {
	dir      *inode
	name     string
	old, new *inode // nil: none
}

// names is the tree of folders as processes see it. A folder of the real file system mirrors the tree. The journal
// lists the changes of names that are not durable. The attic holds inodes without a name that may need one again. The
// owner of names has the lock.
type names struct {
	tree, attic string // paths of real folders
	root        *inode
	byID        map[uint64]*inode
	last        uint64 // largest inode number so far
	journal     journal
	rand        *rand.Rand
	contentOf   func(id uint64, size int64, path func() string, r *rand.Rand) *content
}

// load reads the mirror, all of which is durable.
func (t *names) load() error {
	if err := errors.Join(os.MkdirAll(t.tree, 0o755), os.RemoveAll(t.attic), os.MkdirAll(t.attic, 0o755)); err != nil {
		return err
	}
	info, err := os.Stat(t.tree)
	if err != nil {
		return err
	}
	t.byID, t.last, t.journal = map[uint64]*inode{}, 0, journal{}
	t.root = t.add(info) // the first inode, so its number is fuse.FUSE_ROOT_ID
	return t.loadFolder(t.root)
}

func (t *names) loadFolder(dir *inode) error {
	found, err := os.ReadDir(t.path(dir))
	if err != nil {
		return err
	}
	for _, e := range found {
		info, err := e.Info()
		if err != nil {
			return err
		}
		if !info.IsDir() && !info.Mode().IsRegular() {
			return &os.PathError{Op: "load", Path: filepath.Join(t.path(dir), e.Name()), Err: syscall.ENOTSUP}
		}
		n := t.add(info)
		n.parent, n.name = dir, e.Name()
		dir.entries[n.name] = n
		if n.folder() {
			if err := t.loadFolder(n); err != nil {
				return err
			}
		}
	}
	return nil
}

func (t *names) add(info os.FileInfo) *inode {
	kind, size := uint32(syscall.S_IFREG), info.Size()
	if info.IsDir() {
		kind = syscall.S_IFDIR
	}
	n := t.newInode(kind|uint32(info.Mode().Perm()), size)
	n.changed = info.ModTime()
	if st, ok := info.Sys().(*syscall.Stat_t); ok {
		n.uid, n.gid = st.Uid, st.Gid
	}
	return n
}

func (t *names) newInode(mode uint32, size int64) *inode {
	t.last++
	n := &inode{id: t.last, mode: mode, changed: time.Now()}
	if mode&syscall.S_IFMT == syscall.S_IFDIR {
		n.entries = map[string]*inode{}
	} else {
		n.content = t.contentOf(n.id, size, func() string { return t.path(n) }, t.rand)
	}
	t.byID[n.id] = n
	return n
}

// make creates the real file or folder of an inode.
func (t *names) make(n *inode) error {
	if n.folder() {
		return errors.Join(os.Mkdir(t.path(n), 0o700), t.dress(n))
	}
	return errors.Join(os.WriteFile(t.path(n), nil, 0o600), t.dress(n))
}

// dress gives the real file or folder the owner and permissions of its inode. Without root, the owner stays, and this
// process keeps access.
func (t *names) dress(n *inode) error {
	path, mode := t.path(n), os.FileMode(n.mode&0o777)
	if os.Geteuid() != 0 {
		return os.Chmod(path, mode|0o600)
	}
	return errors.Join(os.Chmod(path, mode), os.Chown(path, int(n.uid), int(n.gid)))
}

// path returns the path of an inode in the real file system.
func (t *names) path(n *inode) string {
	switch {
	case n == t.root:
		return t.tree
	case n.parent == nil:
		return filepath.Join(t.attic, strconv.FormatUint(n.id, 10))
	}
	return filepath.Join(t.path(n.parent), n.name)
}

// apply makes changes: first it removes all old names, and then it sets all new ones.
func (t *names) apply(changes []change) error {
	for _, c := range changes {
		if c.old == nil {
			continue
		}
		from := t.path(c.old)
		delete(c.dir.entries, c.name)
		c.old.parent, c.old.name = nil, ""
		if err := os.Rename(from, t.path(c.old)); err != nil {
			return err
		}
	}
	for _, c := range changes {
		if c.new == nil {
			continue
		}
		from := t.path(c.new)
		c.dir.entries[c.name] = c.new
		c.new.parent, c.new.name = c.dir, c.name
		if err := os.Rename(from, t.path(c.new)); err != nil {
			return err
		}
		c.dir.changed = time.Now()
	}
	return nil
}

// do makes changes that are one step for the caller, and journals them.
func (t *names) do(changes ...change) error {
	if err := t.apply(changes); err != nil {
		return err
	}
	t.settle(t.journal.append(changes))
	return nil
}

// sync makes durable the changes of names in a folder, or the steps that gave a file its name.
func (t *names) sync(n *inode) { t.settle(t.journal.commit(n)) }

// settle forgets steps that have become durable.
func (t *names) settle(steps []*step) {
	for _, s := range steps {
		for _, c := range s.changes {
			for _, n := range []*inode{c.old, c.new} {
				if n != nil {
					n.pending--
					t.bury(n)
				}
			}
		}
	}
}

// bury forgets an inode that has no name, cannot get one again, and is not open. It ignores errors, which concern the
// real file system only.
func (t *names) bury(n *inode) {
	if n.parent != nil || n == t.root || n.pending > 0 || n.handles > 0 || t.byID[n.id] == nil {
		return
	}
	delete(t.byID, n.id)
	if n.content != nil {
		_ = n.content.end()
	}
	_ = os.RemoveAll(t.path(n)) // load empties the attic, too
}

// lose undoes the steps that a power loss undoes.
func (t *names) lose() (lost Stats, err error) {
	undone, kept := t.journal.lose(t.rand)
	lost.DroppedNames, lost.KeptNames = int64(len(undone)), int64(len(kept))
	slices.Reverse(undone)
	for _, s := range undone {
		if err := t.apply(reversed(s.changes)); err != nil {
			return lost, err
		}
	}
	return lost, nil
}

func reversed(changes []change) []change {
	back := make([]change, len(changes))
	for i, c := range changes {
		back[i] = change{dir: c.dir, name: c.name, old: c.new, new: c.old}
	}
	return back
}

// journal holds the steps that changed names and are not durable yet, oldest first.
type journal struct {
	steps []*step
}

// step is a set of changes that survives a power loss as a whole or not at all.
type step struct {
	changes []change
}

// longest is the largest number of steps that wait for a sync. Beyond it the older half becomes durable by itself, as
// it would in time on any real file system.
const longest = 512

// append adds a step. It returns the steps that became durable because the journal was full.
func (j *journal) append(changes []change) (durable []*step) {
	for _, c := range changes {
		for _, n := range []*inode{c.old, c.new} {
			if n != nil {
				n.pending++
			}
		}
	}
	j.steps = append(j.steps, &step{changes})
	if len(j.steps) > longest {
		durable = j.steps[:longest/2]
		j.steps = append([]*step(nil), j.steps[longest/2:]...)
	}
	return durable
}

// commit removes and returns the steps that a sync of n makes durable, with all the steps that they rest on.
func (j *journal) commit(n *inode) (durable []*step) {
	if !n.folder() && n.pending == 0 {
		return nil
	}
	wanted := make([]bool, len(j.steps))
	for i := len(j.steps) - 1; i >= 0; i-- {
		wanted[i] = wanted[i] || j.steps[i].concerns(n)
		if wanted[i] {
			j.eachBase(i, func(base int) { wanted[base] = true })
		}
	}
	return j.take(wanted)
}

// lose empties the journal at a power loss. It returns the undone and the kept steps. The steps after an undone one,
// with that one as their ground, are undone, too.
func (j *journal) lose(r *rand.Rand) (undone, kept []*step) {
	chance := r.IntN(5) // out of 4, that a step has got to the disk
	gone := make([]bool, len(j.steps))
	for i := range j.steps {
		gone[i] = r.IntN(4) >= chance
		j.eachBase(i, func(base int) { gone[i] = gone[i] || gone[base] })
	}
	undone = j.take(gone)
	kept, j.steps = j.steps, nil
	return undone, kept
}

func (j *journal) take(which []bool) (taken []*step) {
	var left []*step
	for i, s := range j.steps {
		if which[i] {
			taken = append(taken, s)
		} else {
			left = append(left, s)
		}
	}
	j.steps = left
	return taken
}

// eachBase calls f for each earlier step that step i rests on.
func (j *journal) eachBase(i int, f func(base int)) {
	for base := range i {
		if j.steps[i].restsOn(j.steps[base]) {
			f(base)
		}
	}
}

// concerns reports whether a sync of n makes the step durable: it changed a name in the folder n, or it gave n its
// name.
func (s *step) concerns(n *inode) bool {
	for _, c := range s.changes {
		if c.dir == n || c.new == n {
			return true
		}
	}
	return false
}

// restsOn reports whether s cannot happen without the earlier step b. Moves of folders keep their order, because two of
// them could otherwise put folders into each other.
func (s *step) restsOn(b *step) bool {
	if s.movesFolder() && b.movesFolder() {
		return true
	}
	for _, c := range s.changes {
		for _, d := range b.changes {
			sameName := c.dir == d.dir && c.name == d.name
			madeIn := d.new != nil && d.new == c.dir
			emptied := c.old != nil && c.old == d.dir
			sameThing := c.old != nil && c.old == d.new || c.new != nil && (c.new == d.new || c.new == d.old)
			if sameName || madeIn || emptied || sameThing {
				return true
			}
		}
	}
	return false
}

func (s *step) movesFolder() bool {
	for _, c := range s.changes {
		if c.new != nil && c.new.folder() && len(s.changes) > 1 {
			return true
		}
	}
	return false
}
