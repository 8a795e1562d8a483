package local

import (
	"bufio"
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/belfryhq/belfry/internal/assert"
)

// parent runs a cluster of one node, prints the node's address and waits to be killed.
func parent(dataDir string) int {
	c, err := Start(context.Background(), Config{Nodes: 1, DataDir: dataDir})
	if err != nil {
		fmt.Println(err)
		return 1
	}
	fmt.Println(c.Nodes()[0].HTTPAddr)
	select {}
}

func TestChildrenDieWithTheirParent(t *testing.T) {
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), playNode+"=1", playParent+"="+t.TempDir())
	out, err := cmd.StdoutPipe()
	assert.NoError(t, err)
	assert.NoError(t, cmd.Start())
	line, err := bufio.NewReader(out).ReadString('\n')
	assert.NoError(t, err)
	// A connection to the child ends when the child ends.
	conn, err := net.Dial("tcp", strings.TrimSpace(line))
	assert.NoError(t, err, "%s", line)
	defer func() { _ = conn.Close() }()
	assert.NoError(t, cmd.Process.Kill())
	assert.Error(t, cmd.Wait(), "the parent was not killed")
	if _, err := conn.Read(make([]byte, 1)); err == nil {
		t.Error("the child says something")
	}
}
