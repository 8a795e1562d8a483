package procstat

import (
	"bufio"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"testing"

	"github.com/belfryhq/belfry/internal/assert"
)

func TestOfThisProcess(t *testing.T) {
	u, err := Of(os.Getpid())
	if err != nil || u.Memory < 1<<20 || u.Descriptors < 3 || u.Threads < 1 {
		t.Errorf("%+v, %v", u, err)
	}
	if _, err := Of(1 << 30); !hasEnded(err) {
		t.Errorf("of no process: %v", err)
	}
}

func tree(t *testing.T, pid int) Tree {
	t.Helper()
	all, err := OfTrees(pid)
	assert.NoError(t, err)
	return all[0]
}

func TestTreeOfThisProcess(t *testing.T) {
	const size = 64 << 20
	before := tree(t, os.Getpid())
	ballast := make([]byte, size)
	for i := range ballast {
		ballast[i] = 1
	}
	after := tree(t, os.Getpid())
	if grown := after.Memory - before.Memory; grown < size/2 || grown > 4*size {
		t.Errorf("%d bytes were touched, and memory grew by %d", size, grown)
	}
	for after.Processor <= before.Processor { // it grows by ticks of the kernel's clock
		ballast[0]++
		after = tree(t, os.Getpid())
	}
	_ = ballast[size-1]
}

// TestTreeCountsDescendants checks that the usage of an idle server includes that of its busy child.
func TestTreeCountsDescendants(t *testing.T) {
	server := exec.Command("sh", "-c", `(while :; do :; done) & echo $!; wait`)
	out, err := server.StdoutPipe()
	assert.NoError(t, err)
	assert.NoError(t, server.Start())
	line, err := bufio.NewReader(out).ReadString('\n')
	assert.NoError(t, err)
	worker, err := strconv.Atoi(strings.TrimSpace(line))
	assert.NoError(t, err)
	child, err := os.FindProcess(worker)
	assert.NoError(t, err)
	t.Cleanup(func() {
		assert.Equal(t, child.Kill(), nil)
		_ = server.Wait() // its child was killed
	})
	for {
		own, both := tree(t, worker), tree(t, server.Process.Pid)
		if both.Processor >= own.Processor && own.Processor > 0 && both.Memory > 0 {
			return
		}
	}
}

func TestTreeOfNoProcess(t *testing.T) {
	if _, err := OfTrees(1 << 30); !hasEnded(err) {
		t.Errorf("error %v", err)
	}
	if all, err := OfTrees(); all != nil || err != nil {
		t.Errorf("of none: %v, %v", all, err)
	}
}
