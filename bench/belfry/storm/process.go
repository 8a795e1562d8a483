package storm

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
)

// Process is a storm in a child process.
type Process struct {
	cmd *exec.Cmd
	in  io.WriteCloser
	out *bufio.Reader
}

// Start starts the command with the arguments, whose program calls Serve, and returns once the storm has begun. The
// storm ends with the context at the latest.
func Start(ctx context.Context, command []string, cfg Config) (*Process, error) {
	settings, err := json.Marshal(cfg)
	if err != nil {
		return nil, err
	}
	p := &Process{cmd: exec.CommandContext(ctx, "nice", append([]string{"-n", "19"}, command...)...)}
	p.cmd.Stderr = os.Stderr
	if p.in, err = p.cmd.StdinPipe(); err != nil {
		return nil, err
	}
	out, err := p.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	p.out = bufio.NewReader(out)
	if err := p.cmd.Start(); err != nil {
		return nil, err
	}
	if err := p.begin(settings); err != nil {
		_, ended := p.End()
		return nil, errors.Join(fmt.Errorf("beginning a storm: %w", err), ended)
	}
	return p, nil
}

func (p *Process) begin(settings []byte) error {
	if _, err := p.in.Write(append(settings, '\n')); err != nil {
		return err
	}
	_, err := p.out.ReadString('\n')
	return err
}

// End ends the storm, and returns the number of acknowledged tasks.
func (p *Process) End() (tasks int, err error) {
	err = p.in.Close()
	said, readErr := io.ReadAll(p.out)
	err = errors.Join(err, readErr, p.cmd.Wait())
	if err == nil {
		_, err = fmt.Sscan(strings.TrimSpace(string(said)), &tasks)
	}
	return tasks, err
}
