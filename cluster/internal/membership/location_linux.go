package membership

import (
	"os"

	"golang.org/x/sys/unix"
)

func inodeOf(path string) (inode, error) {
	var st unix.Statx_t
	if err := unix.Statx(unix.AT_FDCWD, path, 0, unix.STATX_INO|unix.STATX_BTIME, &st); err != nil {
		return inode{}, &os.PathError{Op: "statx", Path: path, Err: err}
	}
	found := inode{Device: unix.Mkdev(st.Dev_major, st.Dev_minor), Number: st.Ino}
	if st.Mask&unix.STATX_BTIME != 0 {
		found.BirthNs = st.Btime.Sec*1e9 + int64(st.Btime.Nsec)
	}
	return found, nil
}
