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

// owner is the user that runs the server. The zero owner is the user of this process.
type owner struct {
	name     string
	uid, gid int
}

// runAs returns the user postgres if this process runs as root, which the server refuses.
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

// command returns the command line that runs a program as the owner. setpriv replaces itself with the program, which
// dies with this process like any child.
func (o *owner) command(program string, args ...string) []string {
	command := append([]string{program}, args...)
	if o.name == "" {
		return command
	}
	return append([]string{
		"setpriv", "--reuid", o.name, "--regid", strconv.Itoa(o.gid), "--clear-groups", "--pdeathsig", "KILL", "--",
	}, command...)
}

// makeFolder makes a folder of the owner, and lets the owner pass through temporary folders above it.
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

// letPass lets all users pass through a folder. It leaves a folder alone that is not inside a temporary folder.
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

// belowSticky reports whether a folder is below one with the sticky bit, as folders for temporary files have it.
func belowSticky(dir string) (bool, error) {
	for parent := filepath.Dir(dir); parent != dir; dir, parent = parent, filepath.Dir(parent) {
		info, err := os.Stat(parent)
		if err != nil || info.Mode()&fs.ModeSticky != 0 {
			return err == nil, err
		}
	}
	return false, nil
}
