package install

import (
	"bytes"
	"maps"
	"net/http"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// TestSystemCalls traces a node, and checks that the unit's filters let it make all of its system calls.
func TestSystemCalls(t *testing.T) {
	program := built(t, "belfry")
	if _, err := exec.LookPath(analyst); err != nil {
		t.Skip("NOT TESTED: the system calls of the unit: no " + analyst + " here")
	}
	strace, err := exec.LookPath("strace")
	if err != nil {
		t.Skip("NOT TESTED: the system calls of the unit: no strace here")
	}
	dir := t.TempDir()
	trace, pidFile := filepath.Join(dir, "trace"), filepath.Join(dir, "pid")
	env := []string{"BELFRY_SERVE_DATA=" + filepath.Join(dir, "data"), "BELFRY_SERVE_PID_FILE=" + pidFile}
	n := start(t, "/", owner{}, env,
		strace, "-f", "-qq", "-o", trace, program, "serve")
	n.awaitReady(http.DefaultClient, api)
	mustCall(t, http.DefaultClient, http.MethodPut, api+"/v1/tasks/a", "", `{"delay": "1h"}`, http.StatusCreated)
	mustCall(t, http.DefaultClient, http.MethodGet, api+"/metrics", "", "", http.StatusOK)
	command(t, "kill", "-TERM", string(bytes.TrimSpace(read(t, pidFile))))
	<-n.ended

	allowed := callsOf(t, "@default")
	for _, line := range regexp.MustCompile(`(?m)^SystemCallFilter=(.*)$`).FindAllStringSubmatch(string(read(t, unit)), -1) {
		groups, refused := strings.CutPrefix(line[1], "~")
		for _, group := range strings.Fields(groups) {
			for call := range callsOf(t, group) {
				allowed[call] = !refused
			}
		}
	}
	made := map[string]bool{}
	for _, line := range regexp.MustCompile(`(?m)^\d+ +(\w+)\(`).FindAllStringSubmatch(string(read(t, trace)), -1) {
		made[line[1]] = true
	}
	if len(made) < 30 || !made["fsync"] && !made["fdatasync"] {
		t.Errorf("the trace shows only %v", slices.Sorted(maps.Keys(made)))
	}
	for call := range made {
		if !allowed[call] {
			t.Errorf("the unit refuses %s", call)
		}
	}
}

// callsOf returns the system calls of a group of systemd's, and of the groups in it.
func callsOf(t *testing.T, group string) map[string]bool {
	t.Helper()
	calls := map[string]bool{}
	for line := range strings.Lines(command(t, analyst, "syscall-filter", "--no-pager", group)) {
		switch name := strings.TrimSpace(line); {
		case name == "" || name == group || strings.HasPrefix(name, "#"):
		case strings.HasPrefix(name, "@"):
			maps.Copy(calls, callsOf(t, name))
		default:
			calls[name] = true
		}
	}
	return calls
}
