package lossyfs

import (
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
