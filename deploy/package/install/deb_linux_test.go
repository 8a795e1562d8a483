package install

import (
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

const api = "http://127.0.0.1:8400" // of the package's settings

// TestDeb installs the deb into an empty folder, runs its node there, upgrades, removes and purges the package.
func TestDeb(t *testing.T) {
	deb := built(t, "belfry.deb")
	root := t.TempDir()
	for _, dir := range []string{"info", "updates", "parts", "triggers"} {
		folder(t, filepath.Join(root, "var/lib/dpkg", dir), 0o755, owner{})
	}
	put(t, filepath.Join(root, "var/lib/dpkg/status"), nil, 0o644, owner{})
	dpkg := func(args ...string) string {
		t.Helper()
		return command(t, "dpkg", append([]string{"--root=" + root, "--force-script-chrootless"}, args...)...)
	}

	if out := dpkg("--install", deb); !strings.Contains(out, "not started") {
		t.Errorf("the first installation says\n%s", out)
	}
	user := checkInstalled(t, root)
	runInstalled(t, root, user)

	config := filepath.Join(root, "etc/belfry/belfry.yaml")
	changed := append(read(t, config), "log-level: warn\n"...)
	if err := os.WriteFile(config, changed, 0o640); err != nil {
		t.Fatal(err)
	}
	if out := dpkg("--install", deb); !strings.Contains(out, "one after the") {
		t.Errorf("the upgrade says\n%s", out)
	}
	if got := read(t, config); string(got) != string(changed) {
		t.Errorf("the upgrade changed the settings:\n%s", got)
	}
	checkInstalled(t, root)

	dpkg("--remove", "belfry")
	if _, err := os.Stat(filepath.Join(root, "usr/bin/belfry")); !os.IsNotExist(err) {
		t.Errorf("the program is still there: %v", err)
	}
	put(t, filepath.Join(root, "etc/belfry/root.key"), []byte("a key"), 0o640, owner{})
	if out := dpkg("--purge", "belfry"); !strings.Contains(out, "stay") {
		t.Errorf("the purge says\n%s", out)
	}
	for _, kept := range []string{"etc/belfry/root.key", "var/lib/belfry"} {
		if _, err := os.Stat(filepath.Join(root, kept)); err != nil {
			t.Errorf("the purge took the data: %v", err)
		}
	}
}

// checkInstalled checks the files of an installed package, and returns the user of the node.
func checkInstalled(t *testing.T, root string) owner {
	t.Helper()
	user := ownerIn(t, root, "belfry")
	for _, file := range []struct {
		name string
		mode os.FileMode
		of   owner
	}{
		{"usr/bin/belfry", 0o755, owner{}},
		{"usr/lib/systemd/system/belfry.service", 0o644, owner{}},
		{"usr/lib/sysusers.d/belfry.conf", 0o644, owner{}},
		{"usr/lib/tmpfiles.d/belfry.conf", 0o644, owner{}},
		{"etc/belfry", 0o750, owner{0, user.group}},
		{"etc/belfry/belfry.yaml", 0o640, owner{0, user.group}},
		{"var/lib/belfry", 0o700, user},
		{"usr/share/man/man1/belfry.1.gz", 0o644, owner{}},
		{"usr/share/man/man1/belfry-task-cancel.1.gz", 0o644, owner{}},
		{"usr/share/bash-completion/completions/belfry", 0o644, owner{}},
		{"usr/share/zsh/vendor-completions/_belfry", 0o644, owner{}},
		{"usr/share/fish/vendor_completions.d/belfry.fish", 0o644, owner{}},
	} {
		checkFile(t, filepath.Join(root, file.name), file.mode, file.of)
	}
	return user
}

// runInstalled runs the node of an installed package with the package's settings, twice.
func runInstalled(t *testing.T, root string, user owner) {
	t.Helper()
	for _, step := range []struct {
		method, body string
		want         int
	}{{http.MethodPut, `{"delay": "1h"}`, http.StatusCreated}, {http.MethodGet, "", http.StatusOK}} {
		n := start(t, root, user, nil, "/usr/bin/belfry", "serve", "--config", "/etc/belfry/belfry.yaml")
		n.awaitReady(http.DefaultClient, api)
		mustCall(t, http.DefaultClient, step.method, api+"/v1/tasks/a", "", step.body, step.want)
		n.stop()
	}
}
