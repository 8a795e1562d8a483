package lossyfs

import (
	"errors"
	"math/rand/v2"
	"os"
	"path"
	"path/filepath"
	"strings"

	"github.com/hanwen/go-fuse/v2/fuse"
	"golang.org/x/sys/unix"
	"pgregory.net/rapid"
)

// direct is a disk that is not mounted. The test makes the calls that the kernel would make. It does not need root.
type direct struct {
	disk   *Disk
	server *server
}

func newDirect(t *rapid.T, dir string, seed uint64) *direct {
	d := &direct{disk: &Disk{
		backing: filepath.Join(dir, "backing"), room: &room{limit: -1}, switches: newSwitches(),
		rand: rand.New(rand.NewPCG(seed, 0)),
	}}
	var err error
	d.server, err = d.disk.load()
	need(t, err)
	return d
}

func errorOf(s fuse.Status) error {
	if s == fuse.OK {
		return nil
	}
	return unix.Errno(s)
}

func (d *direct) id(p string) (uint64, error) {
	at := uint64(fuse.FUSE_ROOT_ID)
	for name := range strings.SplitSeq(p, "/") {
		if name == "." {
			continue
		}
		var out fuse.EntryOut
		if err := errorOf(d.server.Lookup(nil, &fuse.InHeader{NodeId: at}, name, &out)); err != nil {
			return 0, err
		}
		if at = out.NodeId; at == 0 {
			return 0, os.ErrNotExist
		}
	}
	return at, nil
}

// with calls do with the header of a request about a path.
func (d *direct) with(p string, do func(h fuse.InHeader) fuse.Status) error {
	id, err := d.id(p)
	if err != nil {
		return err
	}
	return errorOf(do(fuse.InHeader{NodeId: id}))
}

func (d *direct) mkdir(p string, mode os.FileMode) error {
	return d.with(path.Dir(p), func(h fuse.InHeader) fuse.Status {
		return d.server.Mkdir(nil, &fuse.MkdirIn{InHeader: h, Mode: uint32(mode)}, path.Base(p), &fuse.EntryOut{})
	})
}

func (d *direct) create(p string, mode os.FileMode) error {
	return d.with(path.Dir(p), func(h fuse.InHeader) fuse.Status {
		var out fuse.CreateOut
		in := &fuse.CreateIn{InHeader: h, Mode: uint32(mode)}
		status := d.server.Create(nil, in, path.Base(p), &out)
		d.server.Release(nil, &fuse.ReleaseIn{InHeader: fuse.InHeader{NodeId: out.NodeId}})
		return status
	})
}

func (d *direct) write(p string, data []byte, at int64) error {
	return d.with(p, func(h fuse.InHeader) fuse.Status {
		_, status := d.server.Write(nil, &fuse.WriteIn{InHeader: h, Offset: uint64(at)}, data)
		return status
	})
}

func (d *direct) truncate(p string, size int64) error {
	return d.with(p, func(h fuse.InHeader) fuse.Status {
		in := &fuse.SetAttrIn{}
		in.InHeader, in.Valid, in.Size = h, fuse.FATTR_SIZE, uint64(size)
		return d.server.SetAttr(nil, in, &fuse.AttrOut{})
	})
}

func (d *direct) allocate(p string, size int64) error {
	return d.with(p, func(h fuse.InHeader) fuse.Status {
		return d.server.Fallocate(nil, &fuse.FallocateIn{InHeader: h, Length: uint64(size)})
	})
}

func (d *direct) sync(p string) error {
	return d.with(p, func(h fuse.InHeader) fuse.Status { return d.server.Fsync(nil, &fuse.FsyncIn{InHeader: h}) })
}

// rename refuses moves that the kernel refuses without a call.
func (d *direct) rename(from, to string) error {
	dir, err := d.id(path.Dir(to))
	if err != nil {
		return err
	}
	moved, err := d.id(from)
	if err != nil {
		return err
	}
	met, err := d.id(to)
	switch {
	case strings.HasPrefix(to, from+"/"):
		return unix.EINVAL
	case err == nil && met == moved:
		return nil
	case err == nil && d.server.inode(met).folder() != d.server.inode(moved).folder():
		return unix.ENOTDIR
	}
	return d.with(path.Dir(from), func(h fuse.InHeader) fuse.Status {
		return d.server.Rename(nil, &fuse.RenameIn{InHeader: h, Newdir: dir}, path.Base(from), path.Base(to))
	})
}

func (d *direct) remove(p string) error {
	id, err := d.id(p)
	if err != nil {
		return err
	}
	return d.with(path.Dir(p), func(h fuse.InHeader) fuse.Status {
		if d.server.inode(id).folder() {
			return d.server.Rmdir(nil, &h, path.Base(p))
		}
		return d.server.Unlink(nil, &h, path.Base(p))
	})
}

func (d *direct) powerLoss() error {
	_, err := d.server.lose()
	err = errors.Join(err, d.server.end())
	if err == nil {
		d.server, err = d.disk.load()
	}
	return err
}

func (d *direct) read() (map[string]found, error) {
	return readTree(filepath.Join(d.disk.backing, "tree"))
}

// allocate is fallocate(2).
func allocate(f *os.File, size int64) error { return unix.Fallocate(int(f.Fd()), 0, 0, size) }
