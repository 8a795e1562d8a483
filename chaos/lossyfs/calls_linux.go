package lossyfs

import (
	"errors"
	"slices"
	"strings"
	"syscall"

	"github.com/hanwen/go-fuse/v2/fuse"
	"golang.org/x/sys/unix"
)

// Open opens a file. All its handles share one descriptor of the backing file.
func (s *server) Open(_ <-chan struct{}, in *fuse.OpenIn, out *fuse.OpenOut) fuse.Status {
	s.mu.Lock()
	n := s.names.byID[in.NodeId]
	if n != nil {
		n.handles++
	}
	s.mu.Unlock()
	if n == nil {
		return fuse.Status(syscall.ESTALE)
	}
	out.OpenFlags = fuse.FOPEN_KEEP_CACHE
	if in.Flags&syscall.O_TRUNC == 0 {
		return fuse.OK
	}
	status := s.truncate(in.NodeId, 0)
	if status != fuse.OK {
		s.Release(nil, &fuse.ReleaseIn{InHeader: in.InHeader})
	}
	return status
}

// Release closes a file.
func (s *server) Release(_ <-chan struct{}, in *fuse.ReleaseIn) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if n := s.names.byID[in.NodeId]; n != nil {
		n.handles--
		s.names.bury(n)
	}
}

// Read reads the written bytes, synced or not.
func (s *server) Read(_ <-chan struct{}, in *fuse.ReadIn, buf []byte) (fuse.ReadResult, fuse.Status) {
	c := s.content(in.NodeId)
	if c == nil {
		return nil, fuse.Status(syscall.ESTALE)
	}
	n, err := c.readAt(buf[:min(int(in.Size), len(buf))], int64(in.Offset))
	if err != nil {
		return nil, statusOf(err)
	}
	return fuse.ReadResultData(buf[:n]), fuse.OK
}

// Write makes bytes visible to all processes, but not durable.
func (s *server) Write(_ <-chan struct{}, in *fuse.WriteIn, data []byte) (uint32, fuse.Status) {
	c := s.content(in.NodeId)
	if c == nil {
		return 0, fuse.Status(syscall.ESTALE)
	}
	if errno := s.disk.switches.write(); errno != 0 {
		return 0, s.failedWrite(errno)
	}
	n, err := c.writeAt(data, int64(in.Offset))
	if err != nil {
		s.disk.counters.failedWrites.Add(1)
		return 0, statusOf(err)
	}
	s.disk.counters.writes.Add(1)
	s.disk.counters.writtenBytes.Add(int64(n))
	return uint32(n), fuse.OK
}

// Fallocate takes room for a range, and extends the file unless FALLOC_FL_KEEP_SIZE is set.
func (s *server) Fallocate(_ <-chan struct{}, in *fuse.FallocateIn) fuse.Status {
	c := s.content(in.NodeId)
	switch {
	case c == nil:
		return fuse.Status(syscall.ESTALE)
	case in.Mode&^unix.FALLOC_FL_KEEP_SIZE != 0:
		return fuse.Status(syscall.EOPNOTSUPP)
	}
	if errno := s.disk.switches.write(); errno != 0 {
		return s.failedWrite(errno)
	}
	err := c.allocate(int64(in.Offset), int64(in.Length), in.Mode == 0)
	if err != nil {
		s.disk.counters.failedWrites.Add(1)
	}
	return statusOf(err)
}

func (s *server) truncate(id uint64, size int64) fuse.Status {
	c := s.content(id)
	if c == nil {
		return fuse.EINVAL
	}
	if errno := s.disk.switches.write(); errno != 0 {
		return s.failedWrite(errno)
	}
	return statusOf(c.truncate(size))
}

// Fsync makes the bytes of a file durable, through whatever descriptor they were written, and the file's name.
func (s *server) Fsync(_ <-chan struct{}, in *fuse.FsyncIn) fuse.Status { return s.sync(in.NodeId) }

func (s *server) sync(id uint64) fuse.Status {
	errno, ended := s.disk.switches.sync(s.off)
	if !ended {
		return fuse.EIO // the calling process is dead, or soon will be
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	n := s.names.byID[id]
	if n == nil {
		return fuse.Status(syscall.ESTALE)
	}
	if errno != 0 {
		s.disk.counters.failedSyncs.Add(1)
		if n.content != nil {
			n.content.forsake()
		}
		return fuse.Status(errno)
	}
	s.disk.counters.syncs.Add(1)
	if n.content != nil {
		n.content.sync()
	}
	s.names.sync(n)
	return fuse.OK
}

// Flush is the closing of one descriptor. It answers ENOSYS once, and the kernel then calls it no more. No process has
// to wait for this server when it ends.
func (s *server) Flush(<-chan struct{}, *fuse.FlushIn) fuse.Status { return fuse.ENOSYS }

// Access leaves the check of permissions to the calls that follow.
func (s *server) Access(<-chan struct{}, *fuse.AccessIn) fuse.Status { return fuse.ENOSYS }

func (s *server) failedWrite(errno syscall.Errno) fuse.Status {
	s.disk.counters.failedWrites.Add(1)
	return fuse.Status(errno)
}

// Lookup finds a name in a folder.
func (s *server) Lookup(_ <-chan struct{}, in *fuse.InHeader, name string, out *fuse.EntryOut) fuse.Status {
	s.mu.RLock()
	defer s.mu.RUnlock()
	dir, status := s.dir(in.NodeId)
	if status != fuse.OK {
		return status
	}
	n := dir.entries[name]
	if n == nil {
		out.EntryValid = cached // the kernel may remember that there is no such name
		return fuse.OK
	}
	s.entry(n, out)
	return fuse.OK
}

// dir finds a folder. The caller holds s.mu.
func (s *server) dir(id uint64) (*inode, fuse.Status) {
	n := s.names.byID[id]
	switch {
	case n == nil:
		return nil, fuse.Status(syscall.ESTALE)
	case !n.folder():
		return nil, fuse.ENOTDIR
	}
	return n, fuse.OK
}

// Mkdir makes a folder.
func (s *server) Mkdir(_ <-chan struct{}, in *fuse.MkdirIn, name string, out *fuse.EntryOut) fuse.Status {
	s.mu.Lock()
	defer s.mu.Unlock()
	n, status := s.create(in.NodeId, name, syscall.S_IFDIR|in.Mode&0o7777, in.Owner)
	if status == fuse.OK {
		s.entry(n, out)
	}
	return status
}

// Create makes a file and opens it.
func (s *server) Create(_ <-chan struct{}, in *fuse.CreateIn, name string, out *fuse.CreateOut) fuse.Status {
	s.mu.Lock()
	defer s.mu.Unlock()
	n, status := s.create(in.NodeId, name, syscall.S_IFREG|in.Mode&0o7777, in.Owner)
	if status != fuse.OK {
		return status
	}
	n.handles++
	out.OpenFlags = fuse.FOPEN_KEEP_CACHE
	s.entry(n, &out.EntryOut)
	return fuse.OK
}

// create makes a file or folder without a name, and then gives it the name.
func (s *server) create(dirID uint64, name string, mode uint32, owner fuse.Owner) (*inode, fuse.Status) {
	dir, status := s.dir(dirID)
	if status != fuse.OK {
		return nil, status
	}
	if dir.entries[name] != nil {
		return nil, fuse.Status(syscall.EEXIST)
	}
	if errno := s.disk.switches.write(); errno != 0 {
		return nil, s.failedWrite(errno)
	}
	n := s.names.newInode(mode, 0)
	n.uid, n.gid = owner.Uid, owner.Gid
	err := s.names.make(n)
	if err == nil {
		err = s.names.do(change{dir: dir, name: name, new: n})
	}
	return n, statusOf(err)
}

// Unlink removes a file's name.
func (s *server) Unlink(_ <-chan struct{}, in *fuse.InHeader, name string) fuse.Status {
	return s.remove(in.NodeId, name, func(n *inode) fuse.Status {
		if n.folder() {
			return fuse.Status(syscall.EISDIR)
		}
		return fuse.OK
	})
}

// Rmdir removes an empty folder.
func (s *server) Rmdir(_ <-chan struct{}, in *fuse.InHeader, name string) fuse.Status {
	return s.remove(in.NodeId, name, func(n *inode) fuse.Status {
		switch {
		case !n.folder():
			return fuse.ENOTDIR
		case len(n.entries) > 0:
			return fuse.Status(syscall.ENOTEMPTY)
		}
		return fuse.OK
	})
}

func (s *server) remove(dirID uint64, name string, allowed func(n *inode) fuse.Status) fuse.Status {
	s.mu.Lock()
	defer s.mu.Unlock()
	dir, status := s.dir(dirID)
	if status != fuse.OK {
		return status
	}
	n := dir.entries[name]
	if n == nil {
		return fuse.ENOENT
	}
	if status := allowed(n); status != fuse.OK {
		return status
	}
	if errno := s.disk.switches.write(); errno != 0 {
		return s.failedWrite(errno)
	}
	return statusOf(s.names.do(change{dir: dir, name: name, old: n}))
}

// Rename moves a file or folder over the one that has the new name, or exchanges the two.
func (s *server) Rename(_ <-chan struct{}, in *fuse.RenameIn, oldName, newName string) fuse.Status {
	s.mu.Lock()
	defer s.mu.Unlock()
	from, status := s.dir(in.NodeId)
	if status != fuse.OK {
		return status
	}
	to, status := s.dir(in.Newdir)
	if status != fuse.OK {
		return status
	}
	moved, met := from.entries[oldName], to.entries[newName]
	if moved == nil {
		return fuse.ENOENT
	}
	if errno := s.disk.switches.write(); errno != 0 {
		return s.failedWrite(errno)
	}
	first, second := change{dir: from, name: oldName, old: moved}, change{dir: to, name: newName, old: met, new: moved}
	switch {
	case in.Flags&^(unix.RENAME_NOREPLACE|unix.RENAME_EXCHANGE) != 0:
		return fuse.EINVAL
	case in.Flags == unix.RENAME_EXCHANGE && met == nil:
		return fuse.ENOENT
	case in.Flags == unix.RENAME_EXCHANGE:
		first.new = met
	case met != nil && in.Flags == unix.RENAME_NOREPLACE:
		return fuse.Status(syscall.EEXIST)
	case met != nil && met.folder() && len(met.entries) > 0:
		return fuse.Status(syscall.ENOTEMPTY)
	}
	return statusOf(s.names.do(first, second))
}

// OpenDir notes the names in a folder now.
func (s *server) OpenDir(_ <-chan struct{}, in *fuse.OpenIn, out *fuse.OpenOut) fuse.Status {
	s.mu.Lock()
	defer s.mu.Unlock()
	dir, status := s.dir(in.NodeId)
	if status != fuse.OK {
		return status
	}
	var list []fuse.DirEntry
	for name, n := range dir.entries {
		list = append(list, fuse.DirEntry{Name: name, Mode: n.mode, Ino: n.id})
	}
	slices.SortFunc(list, func(a, b fuse.DirEntry) int { return strings.Compare(a.Name, b.Name) })
	s.opened++
	s.handles[s.opened] = list
	out.Fh = s.opened
	return fuse.OK
}

// ReadDir returns the names that were in the folder when it was opened.
func (s *server) ReadDir(_ <-chan struct{}, in *fuse.ReadIn, out *fuse.DirEntryList) fuse.Status {
	s.mu.RLock()
	defer s.mu.RUnlock()
	list := s.handles[in.Fh]
	for i := in.Offset; i < uint64(len(list)); i++ {
		e := list[i]
		e.Off = i + 1
		if !out.AddDirEntry(e) {
			break
		}
	}
	return fuse.OK
}

// ReleaseDir closes a folder.
func (s *server) ReleaseDir(in *fuse.ReleaseIn) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.handles, in.Fh)
}

// FsyncDir makes a folder's names durable.
func (s *server) FsyncDir(_ <-chan struct{}, in *fuse.FsyncIn) fuse.Status { return s.sync(in.NodeId) }

func statusOf(err error) fuse.Status {
	var errno syscall.Errno
	switch {
	case err == nil:
		return fuse.OK
	case errors.As(err, &errno):
		return fuse.Status(errno)
	}
	return fuse.EIO
}
