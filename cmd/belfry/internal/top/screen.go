package top

import (
	"context"
	"fmt"
	"io"
	"os/signal"
	"strings"
	"syscall"
	"time"

	tea "charm.land/bubbletea/v2"
)

// Config describes a view.
type Config struct {
	API   API           // its calls must end by themselves
	Addrs []string      // of the nodes, for the title
	Every time.Duration // between two rounds
	In    io.Reader
	Out   io.Writer
}

// plainWidth is the width of a page that is not for a terminal.
const plainWidth = 100

// Live shows the view in a terminal until the user leaves it or the context ends. It puts the terminal back in both
// cases, after a panic, and after a SIGHUP or SIGQUIT.
func (c Config) Live(ctx context.Context, options ...tea.ProgramOption) error {
	ctx, stop := signal.NotifyContext(ctx, syscall.SIGHUP, syscall.SIGQUIT)
	defer stop()
	calls, cancel := context.WithCancel(ctx)
	defer cancel()
	screen := &Screen{ctx: calls, api: c.API, addrs: strings.Join(c.Addrs, ","), every: c.Every}
	streams := []tea.ProgramOption{tea.WithInput(c.In), tea.WithOutput(c.Out), tea.WithoutSignalHandler()}
	program := tea.NewProgram(screen, append(streams, options...)...)
	defer context.AfterFunc(ctx, program.Quit)()
	_, err := program.Run()
	return err
}

// Once prints one page. The error is that of a cluster without an answer.
func (c Config) Once(ctx context.Context) error {
	sum, err := c.round(ctx, new(State))
	if err != nil {
		return err
	}
	p := page{width: plainWidth, cursor: -1, addrs: strings.Join(c.Addrs, ",")}
	_, err = fmt.Fprintln(c.Out, strings.Join(p.render(sum), "\n"))
	return err
}

// Values encodes the figures of each round until the context ends, or of one round if once is set. Only the first round
// must have an answer: later ones tell of failures in their figures.
func (c Config) Values(ctx context.Context, once bool, encode func(any) error) error {
	ticks := time.NewTicker(c.Every)
	defer ticks.Stop()
	for state := new(State); ; {
		sum, err := c.round(ctx, state)
		if ctx.Err() != nil {
			return nil
		}
		if err == nil {
			err = encode(sum)
		}
		if err != nil || once {
			return err
		}
		select {
		case <-ctx.Done():
			return nil
		case <-ticks.C:
		}
	}
}

// round reads all parts and returns the figures, by trouble first.
func (c Config) round(ctx context.Context, state *State) (*Summary, error) {
	state.Read(ctx, c.API)
	if err := state.Err(); err != nil {
		return nil, err
	}
	sum := state.Summarise(time.Now())
	sum.Sort(0)
	return sum, nil
}

// Screen is the model of the terminal.
type Screen struct {
	ctx   context.Context // of calls
	api   API
	addrs string
	every time.Duration

	state         State
	reading       [numParts]bool // calls under way
	now           time.Time      // of the last message
	width, height int
	paused, help  bool
	order         int
	marked        string // name of the queue under the cursor; empty: the first one
}

// tick begins a round.
type tick time.Time

// Init begins the first round.
func (s *Screen) Init() tea.Cmd {
	return func() tea.Msg { return tick(time.Now()) }
}

// Update takes a message.
func (s *Screen) Update(msg tea.Msg) (tea.Model, tea.Cmd) {
	switch msg := msg.(type) {
	case tick:
		s.now = time.Time(msg)
		next := tea.Tick(s.every, func(at time.Time) tea.Msg { return tick(at) })
		return s, tea.Batch(append(s.round(), next)...)
	case answer:
		s.reading[msg.part] = false
		s.state.take(msg)
	case tea.WindowSizeMsg:
		s.width, s.height = msg.Width, msg.Height
	case tea.KeyPressMsg:
		return s, s.key(msg.String())
	}
	return s, nil
}

// round reads each part that is not being read already. A paused screen reads none.
func (s *Screen) round() []tea.Cmd {
	var cmds []tea.Cmd
	for part := range parts {
		if s.paused || s.reading[part] {
			continue
		}
		s.reading[part] = true
		cmds = append(cmds, func() tea.Msg {
			return readPart(s.ctx, s.api, part)
		})
	}
	return cmds
}

func (s *Screen) key(name string) tea.Cmd {
	if name == "q" || name == "ctrl+c" {
		return tea.Quit
	}
	if s.help {
		s.help = false
		return nil
	}
	switch name {
	case "?", "h":
		s.help = true
	case "p", "space":
		s.paused = !s.paused
	case "s":
		s.order = (s.order + 1) % len(orders)
		s.marked = ""
	case "ctrl+z":
		return tea.Suspend
	default:
		s.move(name)
	}
	return nil
}

// pageStep is the number of queues that the page keys pass.
const pageStep = 10

// move moves the cursor among the queues.
func (s *Screen) move(key string) {
	sum := s.summary()
	last := len(sum.Queues) - 1
	at := s.cursor(sum)
	switch key {
	case "j", "down":
		at++
	case "k", "up":
		at--
	case "pgdown":
		at += pageStep
	case "pgup":
		at -= pageStep
	case "home", "g":
		at = 0
	case "end", "G":
		at = last
	default:
		return
	}
	if last >= 0 {
		s.marked = sum.Queues[min(max(at, 0), last)].Name
	}
}

func (s *Screen) summary() *Summary {
	sum := s.state.Summarise(s.now)
	sum.Sort(s.order)
	return sum
}

// cursor returns the row of the marked queue. The mark follows its queue, whose row may change with every round.
func (s *Screen) cursor(sum *Summary) int {
	if s.marked != "" {
		for i := range sum.Queues {
			if sum.Queues[i].Name == s.marked {
				return i
			}
		}
	}
	return 0
}

// View returns the screen.
func (s *Screen) View() tea.View {
	v := tea.NewView(strings.Join(s.lines(true), "\n"))
	v.AltScreen, v.WindowTitle = true, "belfry top"
	return v
}

func (s *Screen) lines(styled bool) []string {
	if s.width == 0 || s.height == 0 {
		return nil // the size is not known yet
	}
	sum := s.summary()
	p := page{width: s.width, height: s.height, order: s.order, cursor: s.cursor(sum), paused: s.paused, help: s.help,
		addrs: s.addrs, every: s.every, styled: styled}
	return p.render(sum)
}
