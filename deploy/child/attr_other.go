//go:build unix && !linux

package child

import "syscall"

// attr returns the attributes of a child. A process group of its own keeps Ctrl-C at a terminal from the child, so that
// the parent can stop its children in order. These systems cannot tie a child's life to its parent's.
func attr() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setpgid: true} }
