package postgres

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strconv"
)

// owner is the user as whom the server runs. The zero owner is the one as whom this runs.
type owner struct {
	name     string
	uid, gid int
}

// runAs is the user postgres if this is root, whom the server refuses.
func runAs() (*owner, error) {
	if os.Geteuid() != 0 {
		return &owner{}, nil
	}
	if _, err := exec.LookPath("setpriv"); err != nil {
		return nil, errors.New("setpriv (Debian's package util-linux), or another user than root")
	}
	u, err := user.Lookup("postgres")
	if err != nil {
		return nil, fmt.Errorf("a user postgres (Debian's package postgresql), or another user than root: %w", err)
	}
	o := &owner{name: u.Username}
	if o.uid, err = strconv.Atoi(u.Uid); err != nil {
		return nil, err
	}
	o.gid, err = strconv.Atoi(u.Gid)
	return o, err
}

// command is what runs a program as that user. It becomes the program, and dies with this process as any child of it.
func (o *owner) command(program string, args ...string) []string {
	command := append([]string{program}, args...)
	if o.name == "" {
		return command
	}
	return append([]string{
		"setpriv", "--reuid", o.name, "--regid", strconv.Itoa(o.gid), "--clear-groups", "--pdeathsig", "KILL", "--",
	}, command...)
}

// makeFolder makes a folder of that user, and lets him get there through folders for temporary files.
func (o *owner) makeFolder(path string) error {
	if err := os.Mkdir(path, 0o700); err != nil || o.name == "" {
		return err
	}
	if err := os.Chown(path, o.uid, o.gid); err != nil {
		return err
	}
	for dir := filepath.Dir(path); dir != filepath.Dir(dir); dir = filepath.Dir(dir) {
		if err := letPass(dir); err != nil {
			return err
		}
	}
	return nil
}

// letPass lets everybody pass through a folder. One that is not in a folder for temporary ones is left as it is.
func letPass(dir string) error {
	const pass fs.FileMode = 0o001
	info, err := os.Stat(dir)
	if err != nil || info.Mode()&pass != 0 {
		return err
	}
	temporary, err := belowSticky(dir)
	if err != nil {
		return err
	}
	if !temporary {
		return fmt.Errorf("the user postgres cannot get through %s: measure in another folder, or not as root", dir)
	}
	return os.Chmod(dir, info.Mode().Perm()|pass)
}

// belowSticky tells whether a folder is somewhere in one with the sticky bit, as those for temporary files have it.
func belowSticky(dir string) (bool, error) {
	for parent := filepath.Dir(dir); parent != dir; dir, parent = parent, filepath.Dir(parent) {
		info, err := os.Stat(parent)
		if err != nil || info.Mode()&fs.ModeSticky != 0 {
			return err == nil, err
		}
	}
	return false, nil
}
