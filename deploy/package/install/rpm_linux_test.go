package install

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// TestRPM installs the rpm into a copy of this machine's root, or into an empty folder without the package's scripts if
// the system has no overlays.
func TestRPM(t *testing.T) {
	file := built(t, "belfry.rpm")
	if _, err := exec.LookPath("rpm"); err != nil {
		t.Skip("NOT TESTED: the rpm: no rpm here")
	}
	root, err := overlay(t)
	if err != nil {
		t.Logf("NOT TESTED: the scripts of the rpm: no overlay file system here: %v", err)
		root = t.TempDir()
		command(t, "rpm", "--root", root, "--nodeps", "--noscripts", "--install", file)
		checkFile(t, filepath.Join(root, "usr/bin/belfry"), 0o755, owner{})
		checkFile(t, filepath.Join(root, "etc/belfry/belfry.yaml"), 0o640, owner{})
		return
	}
	rpm := func(args ...string) string {
		t.Helper()
		return command(t, "rpm", append([]string{"--root", root, "--nodeps"}, args...)...)
	}
	if out := rpm("--install", file); !strings.Contains(out, "not started") {
		t.Errorf("the first installation says\n%s", out)
	}
	user := checkInstalled(t, root)
	runInstalled(t, root, user)
	if out := rpm("--upgrade", "--force", file); !strings.Contains(out, "one after the") {
		t.Errorf("the upgrade says\n%s", out)
	}
	checkInstalled(t, root)
	rpm("--erase", "belfry")
	if _, err := os.Stat(filepath.Join(root, "usr/bin/belfry")); !os.IsNotExist(err) {
		t.Errorf("the program is still there: %v", err)
	}
	if _, err := os.Stat(filepath.Join(root, "var/lib/belfry")); err != nil {
		t.Errorf("the removal took the data: %v", err)
	}
}

// overlay returns a folder with the files of this machine's root. Changes there do not reach the machine.
func overlay(t *testing.T) (root string, err error) {
	t.Helper()
	base := t.TempDir()
	if err := syscall.Mount("tmpfs", base, "tmpfs", 0, ""); err != nil {
		return "", err
	}
	t.Cleanup(func() { _ = syscall.Unmount(base, syscall.MNT_DETACH) })
	root = filepath.Join(base, "root")
	for _, dir := range []string{root, base + "/upper", base + "/work"} {
		folder(t, dir, 0o755, owner{})
	}
	options := "lowerdir=/,upperdir=" + base + "/upper,workdir=" + base + "/work"
	if err := syscall.Mount("overlay", root, "overlay", 0, options); err != nil {
		return "", err
	}
	t.Cleanup(func() { _ = syscall.Unmount(root, syscall.MNT_DETACH) })
	return root, nil
}
