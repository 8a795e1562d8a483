package logstore

import "github.com/hashicorp/raft-wal/types"

// unsyncedFiles says that what was written is on the disk, and leaves it to the system.
type unsyncedFiles struct{ types.VFS }

func (u unsyncedFiles) Create(dir, name string, size uint64) (types.WritableFile, error) {
	return unsynced(u.VFS.Create(dir, name, size))
}

func (u unsyncedFiles) OpenWriter(dir, name string) (types.WritableFile, error) {
	return unsynced(u.VFS.OpenWriter(dir, name))
}

type unsyncedFile struct{ types.WritableFile }

func unsynced(f types.WritableFile, err error) (types.WritableFile, error) {
	if err != nil {
		return nil, err
	}
	return unsyncedFile{f}, nil
}

func (unsyncedFile) Sync() error { return nil }
