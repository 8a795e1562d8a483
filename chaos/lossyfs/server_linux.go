package lossyfs

import (
	"cmp"
	"errors"
	"slices"
	"sync"
	"syscall"
	"time"

	"github.com/hanwen/go-fuse/v2/fuse"
)

// cached is how long the kernel may keep an answer. Changes come through the kernel alone, so answers do not get stale.
const cached = 3600 // seconds

// server answers the kernel's calls for one mount.
type server struct {
	fuse.RawFileSystem // refuses all other calls: links, devices, extended attributes
	disk               *Disk
	off                chan struct{} // closed when the power goes
	turnOff            func()

	mu      sync.RWMutex // guards the fields below; a file's content has its own lock, taken after this one
	names   *names
	handles map[uint64][]fuse.DirEntry // open folders
	opened  uint64                     // number of folders opened so far
}

func newServer(d *Disk, t *names) *server {
	s := &server{
		RawFileSystem: fuse.NewDefaultRawFileSystem(), disk: d, names: t, handles: map[uint64][]fuse.DirEntry{},
		off: make(chan struct{}),
	}
	s.turnOff = sync.OnceFunc(func() { close(s.off) })
	return s
}

func (s *server) String() string { return "lossyfs" }

// lose reduces all names and files to their state after a power loss. No call may be under way.
func (s *server) lose() (Stats, error) {
	lost, err := s.names.lose()
	for _, n := range s.inodes() {
		if n.content != nil {
			more, failed := n.content.lose()
			lost.add(more)
			err = errors.Join(err, failed)
		}
	}
	return lost, err
}

// end closes all files.
func (s *server) end() error {
	var errs []error
	for _, n := range s.inodes() {
		if n.content != nil {
			errs = append(errs, n.content.end())
		}
	}
	return errors.Join(errs...)
}

func (s *server) inodes() []*inode {
	s.mu.RLock()
	defer s.mu.RUnlock()
	all := make([]*inode, 0, len(s.names.byID))
	for _, n := range s.names.byID {
		all = append(all, n)
	}
	slices.SortFunc(all, func(a, b *inode) int { return cmp.Compare(a.id, b.id) })
	return all
}

// inode finds a file or folder by its number. It returns nil if the inode is gone.
func (s *server) inode(id uint64) *inode {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.names.byID[id]
}

func (s *server) content(id uint64) *content {
	if n := s.inode(id); n != nil {
		return n.content
	}
	return nil
}

// attr fills in the attributes of a file or folder. The caller holds s.mu.
func (s *server) attr(n *inode, out *fuse.Attr) {
	*out = fuse.Attr{
		Ino: n.id, Mode: n.mode, Nlink: 1, Owner: fuse.Owner{Uid: n.uid, Gid: n.gid}, Blksize: pageSize,
	}
	changed := n.changed
	if n.folder() {
		out.Nlink = 2
	} else {
		size, held, written := n.content.stat()
		out.Size, out.Blocks = uint64(size), uint64(held/sectorSize)
		if written.After(changed) {
			changed = written
		}
	}
	if n.parent == nil && n != s.names.root {
		out.Nlink = 0
	}
	out.SetTimes(&changed, &changed, &changed)
}

func (s *server) entry(n *inode, out *fuse.EntryOut) {
	out.NodeId, out.EntryValid, out.AttrValid = n.id, cached, cached
	s.attr(n, &out.Attr)
}

// GetAttr returns the attributes of a file or folder.
func (s *server) GetAttr(_ <-chan struct{}, in *fuse.GetAttrIn, out *fuse.AttrOut) fuse.Status {
	s.mu.RLock()
	defer s.mu.RUnlock()
	n := s.names.byID[in.NodeId]
	if n == nil {
		return fuse.Status(syscall.ESTALE)
	}
	out.AttrValid = cached
	s.attr(n, &out.Attr)
	return fuse.OK
}

// SetAttr changes size, permissions, owner or time. A power loss can undo only the size.
func (s *server) SetAttr(_ <-chan struct{}, in *fuse.SetAttrIn, out *fuse.AttrOut) fuse.Status {
	if size, ok := in.GetSize(); ok {
		if status := s.truncate(in.NodeId, int64(size)); status != fuse.OK {
			return status
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	n := s.names.byID[in.NodeId]
	if n == nil {
		return fuse.Status(syscall.ESTALE)
	}
	n.changed = time.Now()
	if at, ok := in.GetMTime(); ok {
		n.changed = at
	}
	out.AttrValid = cached
	defer s.attr(n, &out.Attr)
	return statusOf(s.dress(n, in))
}

// dress changes permissions and owner.
func (s *server) dress(n *inode, in *fuse.SetAttrIn) error {
	mode, changesMode := in.GetMode()
	uid, changesUID := in.GetUID()
	gid, changesGID := in.GetGID()
	if changesMode {
		n.mode = n.mode&syscall.S_IFMT | mode
	}
	if changesUID {
		n.uid = uid
	}
	if changesGID {
		n.gid = gid
	}
	if !changesMode && !changesUID && !changesGID {
		return nil
	}
	return s.names.dress(n)
}

// StatFs reports the room that is left. Without a limit it reports a large number, whatever the real disk has.
func (s *server) StatFs(_ <-chan struct{}, _ *fuse.InHeader, out *fuse.StatfsOut) fuse.Status {
	const plenty = 1 << 28 // pages: a terabyte
	free, used, limited := s.disk.room.left()
	if !limited {
		free = plenty
	}
	out.Bsize, out.Frsize, out.NameLen = pageSize, pageSize, 255
	out.Blocks, out.Bfree, out.Bavail = uint64(free+used), uint64(free), uint64(free)
	out.Files, out.Ffree = 1<<20, 1<<20
	return fuse.OK
}
