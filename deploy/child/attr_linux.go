package child

import "syscall"

// attr returns the attributes of a child. A process group of its own keeps Ctrl-C at a terminal from the child, so that
// the parent can stop its children in order. SIGKILL ends the child when the parent dies, even if the child is paused.
func attr() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}
