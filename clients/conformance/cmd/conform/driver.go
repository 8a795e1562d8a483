package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"sync"
	"time"
)

// driver is the child process of a client.
type driver struct {
	name    string
	process *exec.Cmd
	in      io.WriteCloser

	mu      sync.Mutex // guards the fields below, and writes to in
	last    int
	waiting map[int]chan answer
	ended   error // why the driver answers no more; nil: it does
}

// request is one line to a driver.
type request struct {
	ID     int            `json:"id"`
	Call   string         `json:"call"`
	Client string         `json:"client"` // name of the client that open made
	Method string         `json:"method,omitempty"`
	Path   string         `json:"path,omitempty"` // of openapi.yaml, with its parameters filled in
	With   map[string]any `json:"with"`
}

// answer is one line of a driver: a result, or an error.
type answer struct {
	ID     int            `json:"id"`
	Result any            `json:"result"`
	Error  map[string]any `json:"error"`
}

// startDriver starts a client's driver by a shell command. Its standard error goes to this process's.
func startDriver(name, command string) (*driver, error) {
	d := &driver{name: name, process: exec.Command("sh", "-c", "exec "+command), waiting: map[int]chan answer{}}
	d.process.Stderr = os.Stderr
	var err error
	if d.in, err = d.process.StdinPipe(); err != nil {
		return nil, err
	}
	out, err := d.process.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := d.process.Start(); err != nil {
		return nil, fmt.Errorf("driver of %s: %w", name, err)
	}
	go d.read(out)
	return d, nil
}

// read hands the answers to their callers until the driver ends its output.
func (d *driver) read(out io.Reader) {
	lines := bufio.NewReader(out)
	var ended error
	for {
		line, err := lines.ReadBytes('\n')
		if err != nil {
			ended = fmt.Errorf("the driver of %s ended: %w", d.name, err)
			break
		}
		var a answer
		if err := decode(line, &a); err != nil {
			ended = fmt.Errorf("the driver of %s wrote %.200q: %w", d.name, line, err)
			break
		}
		d.mu.Lock()
		to := d.waiting[a.ID]
		delete(d.waiting, a.ID)
		d.mu.Unlock()
		if to != nil {
			to <- a
		}
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.ended = ended
	for _, to := range d.waiting {
		close(to)
	}
}

// decode reads JSON with its numbers as they are written.
func decode(text []byte, into any) error {
	in := json.NewDecoder(bytes.NewReader(text))
	in.UseNumber()
	return in.Decode(into)
}

// begin sends a call, and returns the channel of its answer, which is closed if the driver ends.
func (d *driver) begin(r request) (<-chan answer, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.ended != nil {
		return nil, d.ended
	}
	d.last++
	r.ID = d.last
	line, err := json.Marshal(r)
	if err != nil {
		return nil, err
	}
	to := make(chan answer, 1)
	d.waiting[r.ID] = to
	_, err = d.in.Write(append(line, '\n'))
	return to, err
}

var errDriverEnded = errors.New("the driver has ended")

// await returns an answer.
func await(ctx context.Context, answers <-chan answer) (answer, error) {
	select {
	case <-ctx.Done():
		return answer{}, errors.New("the driver does not answer in time")
	case a, ok := <-answers:
		if !ok {
			return a, errDriverEnded
		}
		return a, nil
	}
}

// stop ends the driver, which exits at the end of its input.
func (d *driver) stop() error {
	late := time.AfterFunc(10*time.Second, func() { _ = d.process.Process.Kill() }) // Wait reports the death
	defer late.Stop()
	return errors.Join(d.in.Close(), d.process.Wait())
}
