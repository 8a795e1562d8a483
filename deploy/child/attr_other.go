//go:build unix && !linux

package child

import "syscall"

// attr: a process group of its own, so that Ctrl-C at a terminal reaches the parent alone, which then stops the
// children in order. These systems cannot tie a child's life to its parent's.
func attr() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setpgid: true} }
