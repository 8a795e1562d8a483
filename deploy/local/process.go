package local

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/belfryhq/belfry/deploy/child"
)

// process is one run of a node.
type process struct {
	*child.Child
	gone chan struct{} // closed when the cluster has recorded the end; the node may then start again
}

// startProcess starts a child with further variables. Its output is appended to the log file.
func startProcess(command, env []string, logPath string) (*process, error) {
	c, err := child.Start(child.Config{Command: command, Env: append(childEnv(os.Environ()), env...), Log: logPath})
	if err != nil {
		return nil, err
	}
	return &process{Child: c, gone: make(chan struct{})}, nil
}

// childEnv removes the variables BELFRY_* from the environment. They configure this program; a node gets its
// configuration from its arguments.
func childEnv(env []string) []string {
	var kept []string
	for _, entry := range env {
		if !strings.HasPrefix(entry, "BELFRY_") {
			kept = append(kept, entry)
		}
	}
	return kept
}

func writePID(dir string, pid int) error {
	return os.WriteFile(pidPath(dir), []byte(strconv.Itoa(pid)+"\n"), 0o644)
}

func pidPath(dir string) string { return filepath.Join(dir, "belfry.pid") }
func logPath(dir string) string { return filepath.Join(dir, "belfry.log") }
