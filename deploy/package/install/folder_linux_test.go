package install

import (
	"bufio"
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

const (
	readyLimit = time.Minute      // for a node to be ready
	stopLimit  = 60 * time.Second // as the unit, the chart and the compose file give it
)

// built returns the path of a file that .ci/packages has built. The test skips without these files.
func built(t *testing.T, name string) string {
	t.Helper()
	dir := os.Getenv("BELFRY_PACKAGES")
	if dir == "" {
		t.Skip("it needs the packages that .ci/packages builds")
	}
	if os.Getuid() != 0 {
		t.Skip("NOT TESTED: the installation of the packages: not root")
	}
	path := filepath.Join(dir, name)
	if _, err := os.Stat(path); err != nil {
		t.Fatal(err)
	}
	return path
}

// command runs a command and returns its output. A failure ends the test.
func command(t *testing.T, name string, args ...string) string {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), name, args...).CombinedOutput()
	if err != nil {
		t.Fatalf("%s %s: %v\n%s", name, strings.Join(args, " "), err, out)
	}
	return string(out)
}

// owner is a user and its group.
type owner struct{ user, group int }

// nonroot is the user of the image.
var nonroot = owner{65532, 65532}

// ownerIn returns a user of a folder's etc/passwd.
func ownerIn(t *testing.T, root, name string) owner {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(root, "etc/passwd"))
	if err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewScanner(bytes.NewReader(data))
	for lines.Scan() {
		fields := strings.Split(lines.Text(), ":")
		if fields[0] != name {
			continue
		}
		user, userErr := strconv.Atoi(fields[2])
		group, groupErr := strconv.Atoi(fields[3])
		if userErr != nil || groupErr != nil || user == 0 {
			t.Fatal(lines.Text())
		}
		return owner{user, group}
	}
	t.Fatalf("no user %s in %s", name, data)
	return owner{}
}

// checkFile checks the mode and the owner of a file or folder.
func checkFile(t *testing.T, path string, mode os.FileMode, want owner) {
	t.Helper()
	info, err := os.Stat(path)
	if err != nil {
		t.Error(err)
		return
	}
	sys := info.Sys().(*syscall.Stat_t)
	if got := (owner{int(sys.Uid), int(sys.Gid)}); info.Mode().Perm() != mode || got != want {
		t.Errorf("%s has mode %04o and owner %+v, want %04o and %+v", path, info.Mode().Perm(), got, mode, want)
	}
}

// put writes a file for an owner, with the folders above it.
func put(t *testing.T, path string, data []byte, mode os.FileMode, of owner) {
	t.Helper()
	folder(t, filepath.Dir(path), 0o755, owner{})
	if err := os.WriteFile(path, data, mode); err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(os.Chmod(path, mode), os.Chown(path, of.user, of.group)); err != nil {
		t.Fatal(err)
	}
}

// folder makes a folder for an owner, unless it is there. All may enter the folders above it.
func folder(t *testing.T, path string, mode os.FileMode, of owner) {
	t.Helper()
	if _, err := os.Stat(path); err == nil {
		return
	}
	if err := errors.Join(os.MkdirAll(path, 0o755), os.Chmod(path, mode), os.Chown(path, of.user, of.group)); err != nil {
		t.Fatal(err)
	}
}

func read(t *testing.T, path string) []byte {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

// node is a process that takes a folder for its root.
type node struct {
	t     *testing.T
	cmd   *exec.Cmd
	log   string
	ended chan struct{} // closed after the end of the process
	err   error         // of the process; read it after ended
}

// start starts a program of the folder. The test ends it, and shows its log if the test has failed.
func start(t *testing.T, root string, as owner, env []string, args ...string) *node {
	t.Helper()
	n := &node{t: t, log: filepath.Join(t.TempDir(), "log"), ended: make(chan struct{})}
	log, err := os.Create(n.log)
	if err != nil {
		t.Fatal(err)
	}
	defer log.Close()
	n.cmd = exec.Command(args[0], args[1:]...)
	n.cmd.Env, n.cmd.Dir, n.cmd.Stdout, n.cmd.Stderr = env, "/", log, log
	n.cmd.SysProcAttr = &syscall.SysProcAttr{
		Chroot:     root,
		Setpgid:    true,
		Credential: &syscall.Credential{Uid: uint32(as.user), Gid: uint32(as.group)},
	}
	if err := n.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() {
		n.err = n.cmd.Wait()
		close(n.ended)
	}()
	t.Cleanup(func() {
		_ = syscall.Kill(-n.cmd.Process.Pid, syscall.SIGKILL) // the processes may have ended
		<-n.ended
		if t.Failed() {
			t.Logf("log of %s\n%s", strings.Join(args, " "), read(t, n.log))
		}
	})
	return n
}

// awaitReady waits until the node answers 200 to GET /readyz.
func (n *node) awaitReady(c *http.Client, url string) {
	n.t.Helper()
	ctx, cancel := context.WithTimeout(n.t.Context(), readyLimit)
	defer cancel()
	again := time.NewTicker(50 * time.Millisecond)
	defer again.Stop()
	last := ""
	for {
		status, body, err := call(ctx, c, http.MethodGet, url+"/readyz", "", "")
		if status == http.StatusOK {
			return
		}
		last = fmt.Sprint(status, " ", body, " ", err)
		select {
		case <-again.C:
		case <-n.ended:
			n.t.Fatalf("the node has ended: %v", n.err)
		case <-ctx.Done():
			n.t.Fatalf("not ready: %s", last)
		}
	}
}

// stop ends the node as its supervisor does, and checks that it ends in order and in time.
func (n *node) stop() {
	n.t.Helper()
	if err := n.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		n.t.Fatal(err)
	}
	limit := time.NewTimer(stopLimit)
	defer limit.Stop()
	select {
	case <-n.ended:
		if n.err != nil {
			n.t.Errorf("the node ended with %v", n.err)
		}
	case <-limit.C:
		n.t.Fatal("the node does not end")
	}
}

// call makes a call with an API key, if one is given.
func call(ctx context.Context, c *http.Client, method, url, key, body string) (status int, answer string, err error) {
	req, err := http.NewRequestWithContext(ctx, method, url, strings.NewReader(body))
	if err != nil {
		return 0, "", err
	}
	if key != "" {
		req.Header.Set("Authorization", "Bearer "+key)
	}
	if body != "" {
		req.Header.Set("Content-Type", "application/json")
	}
	resp, err := c.Do(req)
	if err != nil {
		return 0, "", err
	}
	data, err := io.ReadAll(resp.Body)
	return resp.StatusCode, string(data), errors.Join(err, resp.Body.Close())
}

// mustCall makes a call that the node answers with a status, and returns the answer.
func mustCall(t *testing.T, c *http.Client, method, url, key, body string, want int) string {
	t.Helper()
	status, answer, err := call(t.Context(), c, method, url, key, body)
	if err != nil || status != want {
		t.Fatalf("%s %s: %d %v, want %d\n%s", method, url, status, err, want, answer)
	}
	return answer
}

// clientAt returns a client that trusts one authority, and finds every host at one address.
func clientAt(t *testing.T, ca []byte, addr string) *http.Client {
	t.Helper()
	roots := x509.NewCertPool()
	if !roots.AppendCertsFromPEM(ca) {
		t.Fatal("no authority")
	}
	transport := &http.Transport{
		TLSClientConfig: &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS12},
		DialContext: func(ctx context.Context, network, _ string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, network, addr)
		},
	}
	t.Cleanup(transport.CloseIdleConnections)
	return &http.Client{Transport: transport}
}
