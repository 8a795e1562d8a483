package install

import (
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
)

const (
	unit    = "../../systemd/belfry.service"
	analyst = "systemd-analyze" //nolint:misspell // the name of a program
)

// mostExposed is the highest exposure of the unit that the test allows, in tenths, as systemd counts it: 100 is a
// service without any protection.
const mostExposed = 15

// TestUnit lets systemd judge the unit. It needs no running systemd.
func TestUnit(t *testing.T) {
	program := built(t, "belfry")
	if _, err := exec.LookPath(analyst); err != nil {
		t.Skip("NOT TESTED: the unit: no " + analyst + " here")
	}
	// verify wants the program to be there.
	text := strings.ReplaceAll(string(read(t, unit)), "/usr/bin/belfry", program)
	copied := filepath.Join(t.TempDir(), "belfry.service")
	if err := os.WriteFile(copied, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	out := command(t, analyst, "verify", "--man=no", "--recursive-errors=no", copied)
	if strings.Contains(out, "belfry") {
		t.Errorf("%s verify says\n%s", analyst, out)
	}
	table := command(t, analyst, "security", "--no-pager", "--offline=yes",
		"--threshold="+strconv.Itoa(mostExposed), copied)
	for line := range strings.Lines(table) {
		if strings.Contains(line, "✗") || strings.Contains(line, "Overall") {
			t.Log(strings.TrimSpace(line))
		}
	}
}

// TestFolders checks that systemd makes the user and the data folder that the unit needs.
func TestFolders(t *testing.T) {
	built(t, "belfry")
	for _, program := range []string{"systemd-sysusers", "systemd-tmpfiles"} {
		if _, err := exec.LookPath(program); err != nil {
			t.Skip("NOT TESTED: the files of sysusers.d and tmpfiles.d: no " + program + " here")
		}
	}
	root := t.TempDir()
	for name, dir := range map[string]string{"sysusers": "usr/lib/sysusers.d", "tmpfiles": "usr/lib/tmpfiles.d"} {
		put(t, filepath.Join(root, dir, "belfry.conf"), read(t, "../../systemd/belfry."+name+".conf"), 0o644, owner{})
	}
	folder(t, filepath.Join(root, "etc"), 0o755, owner{})
	command(t, "systemd-sysusers", "--root="+root, "belfry.conf")
	command(t, "systemd-tmpfiles", "--root="+root, "--create", "belfry.conf")
	checkFile(t, filepath.Join(root, "var/lib/belfry"), 0o700, ownerIn(t, root, "belfry"))
}
