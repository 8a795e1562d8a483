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
