// Package child runs a program as a child process whose life is tied to the parent's:
//   - The child has a process group of its own, so that its descendants can be killed together.
//   - Its output goes to the end of a log file.
//   - On Linux the kernel kills the child with SIGKILL when the parent dies, even if the parent was killed. A test or a
//     measurement leaves no process behind.
//
// The caller decides when a child is ready, whether to restart it, and how to react to its death.
package child
