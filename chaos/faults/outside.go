package faults

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/belfryhq/belfry/chaos/history"
	"github.com/belfryhq/belfry/chaos/stand"
	"github.com/belfryhq/belfry/chaos/stranger"
	"github.com/belfryhq/belfry/chaos/workload"
	"github.com/belfryhq/belfry/deploy/receiver"
	"github.com/belfryhq/belfry/internal/wait"
)

func needsMutes(s *stand.Stand) error {
	if s.Gossip == nil {
		return errors.New("a stand whose nodes' gossip can be lost")
	}
	return nil
}

// ErrKeys means that the nodes' gossip has a key, as it must beyond loopback, and so cannot be forged.
var ErrKeys = errors.New("gossip without a key, on loopback alone; a siege of ten minutes has a drill of it")

func needsOpenGossip(s *stand.Stand) error {
	if s.Network != nil {
		return ErrKeys
	}
	return nil
}

// silence loses the gossip of one node or of all nodes, in both directions.
func (s *striking) silence(nodes []string) error {
	if s.Rand.IntN(2) == 0 {
		nodes = s.Stand.Names()
	}
	hold := s.stretched()
	fault := s.begin(nodes, nil, "all of it lost, for %v", hold)
	for _, n := range nodes {
		s.Stand.Gossip[n].Set(1)
	}
	s.hold(fault, hold)
	for _, n := range nodes {
		s.Stand.Gossip[n].Set(0)
	}
	return s.mended(fault, nil)
}

// forge lets a stranger lie to all nodes for a while. The fault is mended as soon as the stranger falls silent, because
// the nodes must get rid of the lies by themselves.
func (s *striking) forge([]string) error {
	hold := s.stretched()
	liar := stranger.Stranger{Addrs: s.Stand.GossipPorts(), Rand: s.Rand}
	if liar.Learn(s.ctx) != nil {
		return ErrBusy // no node answers at the moment
	}
	fault := s.begin(s.Stand.Names(), nil, "%d fakes and lies about all members, for %v", stranger.Fakes, hold)
	lying, cancel := context.WithTimeout(s.ctx, hold)
	defer cancel()
	_, _, err := liar.Lie(lying)
	s.Recorder.Mending(fault)
	s.Recorder.Mended(fault)
	return err
}

const (
	slowAnswer = 400 * time.Millisecond
	hugeReply  = 8 << 20
)

// pathHold is the shortest time for which one path fails: the others may be held up in the first seconds.
const pathHold = 12 * time.Second

// failOnePath lets one path of the receiver refuse, fail or hang for a while.
func (s *striking) failOnePath([]string) error {
	s.Hold = max(s.Hold, pathHold)
	m := pick(s.Rand, []workload.Mood{
		{Answer: http.StatusUnprocessableEntity}, {Answer: http.StatusNotFound}, {Answer: http.StatusInternalServerError},
		{Slow: s.Hold, Answer: receiver.Reset},
	})
	m.Path = workload.Path(s.Rand.Int64N(workload.Paths))
	return s.misbehave(m)
}

// mood returns the strike of a kind that puts the receiver into a mood for a while.
func mood(m workload.Mood) func(*striking, []string) error {
	return func(s *striking, _ []string) error { return s.misbehave(m) }
}

func (s *striking) misbehave(m workload.Mood) error {
	if s.Receiver == nil {
		return ErrBusy
	}
	detail := "for %v"
	switch {
	case m.Path == "":
	case m.Answer > 0:
		detail = fmt.Sprintf("for %%v, %s answers %d", m.Path, m.Answer)
	default:
		detail = fmt.Sprintf("for %%v, %s hangs", m.Path)
	}
	fault := s.begin(nil, func(f *history.Fault) { f.Path = m.Path }, detail, s.Hold)
	s.Receiver.Behave(m)
	s.hold(fault, s.Hold)
	s.Receiver.Behave(workload.Mood{})
	return s.mended(fault, nil)
}

const (
	floodBeyond  = 500 // connections beyond the files that the node may open
	floodCallers = 32  // goroutines that open the connections
	floodHold    = 4 * time.Second
	askEvery     = 200 * time.Millisecond
	askTimeout   = 10 * time.Second
)

func needsDescriptors(s *stand.Stand) error {
	if s.Descriptors == 0 {
		return errors.New("this program may open too few files to exhaust those of a node")
	}
	return nil
}

// flood opens more connections to a node than the node may open files, and sends half a request over each. Meanwhile it
// asks the node over a connection from before.
func (s *striking) flood(nodes []string) error {
	node, addr := nodes[0], strings.TrimPrefix(s.Stand.URLs(nodes...)[0], "http://")
	k, err := keep(s.ctx, addr)
	if err != nil {
		return ErrBusy // another fault keeps callers away
	}
	defer func() { _ = k.Close() }()
	if k.get("/healthz") == 0 {
		return ErrBusy
	}
	hold, n := max(s.Hold, floodHold), s.Stand.Descriptors+floodBeyond
	fault := s.begin(nodes, nil, "%d connections for %v", n, hold)
	flooding, stop := context.WithTimeout(s.ctx, hold)
	defer stop()
	var flood sync.WaitGroup
	flood.Go(func() { halfSend(flooding, addr, n) })
	for wait.For(flooding, askEvery) {
		s.ask(k, history.AskBeside, node, "/healthz")
	}
	s.Recorder.Mending(fault)
	flood.Wait()
	return s.mended(fault, nil)
}

// halfSend holds up to n connections with half a request open until ctx ends.
func halfSend(ctx context.Context, addr string, n int) {
	var callers sync.WaitGroup
	var dialer net.Dialer
	for i := range floodCallers {
		callers.Go(func() {
			for range (n + i) / floodCallers {
				conn, err := dialer.DialContext(ctx, "tcp", addr)
				if err != nil {
					continue // the node refused it, or another fault did
				}
				defer func() { _ = conn.Close() }()
				_, _ = io.WriteString(conn, "GET /healthz HTTP/1.1\r\nHost: half\r\n") // the node may have closed it
			}
			<-ctx.Done()
		})
	}
	callers.Wait()
}

// kept is a connection to a node that stays open between requests. A http.Client gives a connection up if its own
// goroutines are late, and could not open another one during a flood.
type kept struct {
	net.Conn
	answers *bufio.Reader
}

func keep(ctx context.Context, addr string) (*kept, error) {
	conn, err := (&net.Dialer{Timeout: askTimeout}).DialContext(ctx, "tcp", addr)
	if err != nil {
		return nil, err
	}
	return &kept{conn, bufio.NewReader(conn)}, nil
}

// get returns the status of the answer to a GET; 0: no answer.
func (k *kept) get(path string) int {
	err := k.SetDeadline(time.Now().Add(askTimeout))
	if err == nil {
		_, err = fmt.Fprintf(k, "GET %s HTTP/1.1\r\nHost: %s\r\n\r\n", path, k.RemoteAddr())
	}
	if err != nil {
		return 0
	}
	resp, err := http.ReadResponse(k.answers, nil)
	if err != nil {
		return 0
	}
	_, _ = io.Copy(io.Discard, resp.Body) // the next answer follows
	_ = resp.Body.Close()
	return resp.StatusCode
}

// ask asks a node for a page that needs no key, and records the answer.
func (s *striking) ask(k *kept, question, node, path string) {
	t := history.Trial{Ask: question, Entry: history.NoEntry, Node: node, Start: s.Recorder.Now()}
	if t.Status = k.get(path); s.ctx.Err() == nil {
		s.Recorder.Try(t)
	}
}

// spoilers damage files of a node, by their paths below its data folder. The node must start without such a file. A
// spoiler returns the damaged content, or nothing if the node may refuse to start with it.
var spoilers = map[string]func(rng *rand.Rand, content []byte) []byte{
	"audit/audit.jsonl": func(_ *rand.Rand, content []byte) []byte {
		if !strings.Contains(string(content), "\n") {
			return nil // no record: a node refuses a file of another program
		}
		return append(content, "\x00\x00{\"id\":\nno record\n"...)
	},
	"witness": func(rng *rand.Rand, content []byte) []byte {
		if len(content) > 0 {
			content[rng.IntN(len(content))] ^= 1 << rng.IntN(8)
		}
		return content
	},
}

// spoil kills a node, damages a file of its folder, and starts the node again, even if the file cannot be damaged. Once
// the node is ready, it must have set the damaged file aside.
func (s *striking) spoil(nodes []string) error {
	name := pick(s.Rand, slices.Sorted(maps.Keys(spoilers)))
	path := filepath.Join(s.Stand.Data(nodes[0]), filepath.FromSlash(name))
	fault := s.begin(nodes, restarts, "%s", name)
	if err := s.sigkill(nodes); err != nil {
		return err
	}
	spoiled, failed := spoilFile(s.Rand, path, spoilers[name])
	s.Recorder.Mending(fault)
	if err := errors.Join(failed, s.start(fault, nodes)); err != nil || !spoiled {
		return err
	}
	t := history.Trial{Ask: history.AskAside, Entry: history.NoEntry, Node: nodes[0], Start: s.Recorder.Now()}
	if s.Stand.AwaitReady(s.ctx, upFor, nodes...) != nil {
		return nil // another fault keeps it, or the healed cluster will miss it
	}
	t.Status = http.StatusOK
	if _, err := os.Stat(path + setAside); err != nil {
		t.Status = http.StatusNotFound
	}
	s.Recorder.Try(t)
	return nil
}

// setAside ends the name of a file that a node has set aside.
const setAside = ".damaged"

// spoilFile spoils a file, and forgets the one that was set aside before. It reports whether the file can be spoiled.
func spoilFile(rng *rand.Rand, path string, spoil func(*rand.Rand, []byte) []byte) (spoiled bool, err error) {
	content, err := os.ReadFile(path)
	if errors.Is(err, os.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	if content = spoil(rng, content); len(content) == 0 {
		return false, nil
	}
	if err := os.Remove(path + setAside); err != nil && !errors.Is(err, os.ErrNotExist) {
		return false, err
	}
	if err := os.WriteFile(path, content, 0o600); err != nil {
		return false, fmt.Errorf("damaging %s: %w", path, err)
	}
	return true, nil
}
