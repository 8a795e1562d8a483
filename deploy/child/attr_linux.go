package child

import "syscall"

// attr: a process group of its own, so that Ctrl-C at a terminal reaches the parent alone, which then stops the
// children in order; and SIGKILL, which a paused child heeds too, when the parent dies.
func attr() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}
