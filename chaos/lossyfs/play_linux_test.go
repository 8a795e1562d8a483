package lossyfs

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// Each program that uses a disk is a process of its own, because the test kills it. This process must not touch a page
// of a mapped file: it would have to serve the page itself, and a stop of its world may prevent that.
const playVar = "LOSSYFS_TEST_PLAYS"

func TestMain(m *testing.M) {
	var err error
	switch os.Getenv(playVar) {
	case "":
		os.Exit(m.Run())
	case "bolt":
		err = playBolt(os.Args[1], os.Args[2])
	case "crash":
		err = playCrash(os.Args[1], os.Args[2])
	default:
		err = errors.New("an unknown role")
	}
	fmt.Fprintln(os.Stderr, err)
	os.Exit(1)
}

// player is a process that writes to a disk. It prints the number of each write that it has made durable.
type player struct {
	cmd    *exec.Cmd
	output *bufio.Scanner
	err    strings.Builder
}

func start(t *testing.T, cmd *exec.Cmd) *player {
	t.Helper()
	p := &player{cmd: cmd}
	out := must[io.ReadCloser](t)(cmd.StdoutPipe())
	cmd.Stderr = &p.err
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	check(t, cmd.Start())
	p.output = bufio.NewScanner(out)
	return p
}

func self(role string, args ...string) *exec.Cmd {
	cmd := exec.Command("/proc/self/exe", args...)
	cmd.Env = append(os.Environ(), playVar+"="+role)
	return cmd
}

// next returns the next number that the process prints, and -1 if it prints no more.
func (p *player) next() int {
	if !p.output.Scan() {
		return -1
	}
	n, err := strconv.Atoi(p.output.Text())
	if err != nil {
		return -1
	}
	return n
}

// rounds lets a program write to a disk and cuts the power, n times. The program gets the last number that it printed
// and checks that all writes up to it are there, before it goes on. Before most cuts the disk hangs, so that there are
// unsynced writes to lose. If failing is set, in some rounds syncs fail instead of the power, and the program ends.
func rounds(t *testing.T, n int, failing bool, program func(path string, durable int) *exec.Cmd) {
	t.Helper()
	d := mounted(t, 1)
	r := rand.New(rand.NewPCG(1, 1))
	durable := 0
	for round := range n {
		p := start(t, program(d.Mountpoint(), durable))
		for range r.IntN(30) {
			durable = max(durable, p.next())
		}
		fails := failing && r.IntN(3) == 0
		if fails {
			d.FailSync(syscall.EIO)
			durable = max(durable, p.rest())
			_ = p.cmd.Wait()
			d.FailSync(0)
		} else {
			durable = max(durable, cut(t, d, p, r))
		}
		if failed := p.cmd.ProcessState.ExitCode() == exitFailedDisk; p.killed() == fails || failed != fails {
			t.Fatalf("round %d, %d durable: %v: %s", round, durable, p.cmd.ProcessState, p.err.String())
		}
	}
	t.Logf("%d writes were durable, %+v", durable, d.Stats())
	if s := d.Stats(); durable < n || s.DroppedPages < int64(n)/4 || s.KeptPages == 0 {
		t.Errorf("too few writes were durable or lost: %d, %+v", durable, s)
	}
}

// exitFailedDisk is the exit status of a program whose disk has failed.
const exitFailedDisk = 3

// cut cuts the power under a program, and returns the last number that the program printed.
func cut(t *testing.T, d *Disk, p *player, r *rand.Rand) (durable int) {
	t.Helper()
	if r.IntN(4) > 0 {
		d.Stall()
	}
	last := make(chan int)
	go func() { last <- p.rest() }()
	<-time.After(time.Duration(r.Int64N(int64(10 * time.Millisecond))))
	check(t, p.cmd.Process.Kill(), d.PowerLoss())
	d.Unstall()
	durable = <-last
	_ = p.cmd.Wait() // the process was killed
	return durable
}

// rest returns the last number that the process prints, and -1 if it prints no more.
func (p *player) rest() (last int) {
	last = -1
	for next := p.next(); next >= 0; next = p.next() {
		last = next
	}
	return last
}

// killed reports whether a signal ended the process.
func (p *player) killed() bool { return p.cmd.ProcessState.ExitCode() < 0 }
