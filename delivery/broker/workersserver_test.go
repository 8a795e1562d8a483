//go:build linux

package broker

import (
	"bufio"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"testing"

	"github.com/belfryhq/belfry/internal/assert"
)

// TestWorkersServer checks that real workers run the jobs of docs/guides/workers.md: a node pushes them by the calls of
// that page, 48 hours later.
func TestWorkersServer(t *testing.T) {
	page, err := os.ReadFile("../../docs/guides/workers.md")
	assert.NoError(t, err)
	calls := map[string]string{}
	call := regexp.MustCompile(`(?m)^curl -X PUT localhost:8410/v1/tasks/order-1042-(\w+) --json '(.*)'$`)
	for _, found := range call.FindAllStringSubmatch(string(page), -1) {
		calls[found[1]] = found[2]
	}
	assert.Equal(t, len(calls), 3, "calls of the page")
	for name, command := range map[string][]string{
		"sidekiq": {"sidekiq", "-r", "./realworkers/sidekiq.rb", "-q", "default"},
		"laravel": {"php", "realworkers/laravel.php"},
		"resque":  {"node", "realworkers/resque.mjs"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			wantServer(t, "redis")
			wantServer(t, name)
			checkWorker(t, name, command, calls[name])
		})
	}
}

func checkWorker(t *testing.T, name string, command []string, call string) {
	t.Helper()
	ports := freePorts(t, 2)
	redis, node := local(ports[0]), local(ports[1])
	startProcess(t, "Ready to accept connections", func() *exec.Cmd {
		return exec.Command("redis-server", "--bind", "127.0.0.1", "--port", fmt.Sprint(ports[0]), "--dir", t.TempDir(), "--save", "")
	})
	startProcess(t, "ready: ", func() *exec.Cmd {
		return exec.Command(os.Getenv("BELFRY_BINARY"), "dev", "--http", node)
	})
	worker := exec.CommandContext(t.Context(), command[0], command[1:]...)
	worker.Env = append(os.Environ(), "REDIS_URL=redis://"+redis+"/0")
	worker.Stderr = os.Stderr
	pipe, err := worker.StdoutPipe()
	assert.NoError(t, err)
	assert.NoError(t, worker.Start())
	t.Cleanup(func() { _ = worker.Wait() }) // the end of the test's context killed it
	said := bufio.NewScanner(pipe)
	waitFor(t, said, "working")

	id := "order-1042-" + name
	ask(t, http.MethodPut, "http://"+node+"/v1/tasks/"+id, strings.ReplaceAll(call, "127.0.0.1:6379", redis))
	ask(t, http.MethodPost, "http://"+node+"/v1/dev/advance", `{"by": "47h59m"}`)
	if got := ask(t, http.MethodGet, "http://"+node+"/v1/tasks/"+id, ""); !strings.Contains(got, `"state":"scheduled"`) {
		t.Errorf("a minute before: %s", got)
	}
	ask(t, http.MethodPost, "http://"+node+"/v1/dev/advance", `{"by": "1m"}`)
	waitFor(t, said, "closed 1042 "+id)
}

// waitFor reads lines until one is text.
func waitFor(t *testing.T, lines *bufio.Scanner, text string) {
	t.Helper()
	for lines.Scan() {
		if lines.Text() == text {
			return
		}
	}
	t.Fatalf("the worker ended without %q", text)
}

// ask makes a call, which must succeed, and returns the answer.
func ask(t *testing.T, method, url, body string) string {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), method, url, strings.NewReader(body))
	assert.NoError(t, err)
	request.Header.Set("Content-Type", "application/json")
	response, err := http.DefaultClient.Do(request)
	assert.NoError(t, err)
	defer response.Body.Close()
	answer, err := io.ReadAll(response.Body)
	assert.NoError(t, err)
	if response.StatusCode >= 300 {
		t.Fatalf("%s %s: %d %s", method, url, response.StatusCode, answer)
	}
	return string(answer)
}
