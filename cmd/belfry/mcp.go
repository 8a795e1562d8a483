package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/spf13/cobra"

	"github.com/belfryhq/belfry/client"
	"github.com/belfryhq/belfry/cmd/belfry/internal/cli"
	"github.com/belfryhq/belfry/internal/contract"
	"github.com/belfryhq/belfry/internal/wait"
)

func newMCP() *cobra.Command {
	var budget int
	maxDelay := 30 * 24 * time.Hour
	cmd := cli.PlainVerb(&cobra.Command{
		Use:   "mcp",
		Short: "Offer tasks to an AI agent, as tools of the Model Context Protocol",
		Long: `Serve the Model Context Protocol on the standard input and output, for a program
that runs an AI agent. The tools are schedule, list, get, cancel and wait, on
the tasks of one namespace.

An agent can do what the key of this command allows, and no more: give it a key
with the role schedule, for its own ids. Each session may schedule as many tasks
as --budget says, none later than --max-delay from now. Every answer has the
facts of the cluster: id, revision, due time and state of the task. A cancel
says whether the task had fired. An error is the problem that the cluster
reports.`,
		Example: `  belfry key create agent --role schedule --id 'agent-*' > agent.key
  belfry mcp --key-file agent.key --budget 20 --max-delay 48h`,
	}, func(c *cli.Call) error {
		if budget < 0 {
			return cli.WrongUsage(errors.New("--budget is negative"))
		}
		a := &agent{client: c.Client, now: c.Connection.Now, budget: budget, maxDelay: maxDelay}
		err := a.server().Run(c.Context(), &mcp.IOTransport{Reader: io.NopCloser(c.In()), Writer: openWriter{c.Stdout()}})
		if errors.Is(err, io.EOF) {
			return nil // the agent's program has gone
		}
		return err
	})
	cmd.Flags().IntVar(&budget, "budget", 100, "most `tasks` that a session schedules")
	cmd.Flags().Var(cli.NewSpan(&maxDelay, maxDelay), "max-delay", "most `time` from now until a task is due")
	return cmd
}

// openWriter is a writer that a transport does not close.
type openWriter struct{ io.Writer }

func (openWriter) Close() error { return nil }

// agent is the session of one agent.
type agent struct {
	client   *client.Client
	now      func() time.Time // of the node
	budget   int
	maxDelay time.Duration

	mu   sync.Mutex
	used int // tasks that were scheduled, or may have been
}

const agentRules = `Tasks of Belfry, a timer service: each is delivered once it is due.
Tell only what an answer of a tool says. A task is scheduled if schedule has answered with its revision; a call that
ended in an error of committed "unknown" may have happened: read the task with get. A cancel is final: already_fired and
stopped say that the receiver may have got the task.`

// server returns the protocol's server with all tools.
func (a *agent) server() *mcp.Server {
	s := mcp.NewServer(&mcp.Implementation{Name: "belfry", Version: "1"}, &mcp.ServerOptions{Instructions: agentRules})
	mcp.AddTool(s, &mcp.Tool{
		Name: "schedule",
		Description: "Schedule a task. Without an id a new one is made. An existing id is refused, unless replace is true. " +
			"Counts against the budget of the session.",
	}, a.schedule)
	reads := &mcp.ToolAnnotations{ReadOnlyHint: true}
	mcp.AddTool(s, &mcp.Tool{
		Name: "list", Annotations: reads, Description: "List tasks by a filter, soonest first.",
	}, a.list)
	mcp.AddTool(s, &mcp.Tool{Name: "get", Annotations: reads, Description: "Read a task with its payload."}, a.get)
	mcp.AddTool(s, &mcp.Tool{
		Name: "cancel",
		Description: "Cancel a task. The outcome is final. cancelled: it never fired, and never will. stopped: an attempt " +
			"had begun and may have delivered it; none follows. already_fired: it was delivered or dead before.",
	}, a.cancel)
	mcp.AddTool(s, &mcp.Tool{
		Name: "wait", Annotations: reads,
		Description: "Wait until a task has ended (delivered, dead or cancelled). ended is false if the time was over first.",
	}, a.wait)
	return s
}

// The library's types of a tool. A nil result stands for one that is made of the answer.
type (
	toolCall   = *mcp.CallToolRequest
	toolResult = *mcp.CallToolResult
)

// facts are the facts of a task, as the cluster has them.
type facts struct {
	ID            string            `json:"id"`
	Revision      uint64            `json:"revision"`
	State         client.State      `json:"state"`
	Due           string            `json:"due" jsonschema:"instant at which the task is due"`
	Queue         string            `json:"queue"`
	Attempts      int               `json:"attempts" jsonschema:"attempts begun so far"`
	NextAttemptAt string            `json:"next_attempt_at,omitempty"`
	LastError     string            `json:"last_error,omitempty"`
	Outcome       client.Outcome    `json:"outcome,omitempty" jsonschema:"of a cancelled task"`
	Previous      client.State      `json:"previous,omitempty" jsonschema:"state of the task that was replaced"`
	CreatedAt     string            `json:"created_at,omitempty"`
	Labels        map[string]string `json:"labels,omitempty"`
	Payload       string            `json:"payload,omitempty" jsonschema:"JSON text"`
}

func factsOf(t *client.Task) facts {
	return facts{
		ID: t.ID, Revision: t.Revision, State: t.State, Due: stamp(t.FireAt), Queue: t.Queue, Attempts: t.Attempts,
		NextAttemptAt: stamp(t.NextAttemptAt), LastError: t.LastError, Outcome: t.Outcome, Previous: t.Previous,
		CreatedAt: stamp(t.CreatedAt), Labels: t.Labels, Payload: string(t.Payload),
	}
}

// stamp writes an instant as the service does, and the zero time as "".
func stamp(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return string(contract.AppendInstant(nil, t.UnixMilli()))
}

// toolRefusal is an error of a tool: a problem of the API, or of the session.
type toolRefusal struct {
	Type      string `json:"type"`
	Status    int    `json:"status,omitempty"`
	Detail    string `json:"detail"`
	Field     string `json:"field,omitempty"`
	Limit     string `json:"limit,omitempty"`
	Committed string `json:"committed,omitempty"`
	Task      *facts `json:"task,omitempty"` // the existing one
}

// Error returns the refusal as JSON, which the agent reads.
func (r *toolRefusal) Error() string {
	text, err := json.Marshal(r)
	if err != nil {
		return r.Detail
	}
	return string(text)
}

// toolProblem returns the refusal for an error of a call. change is set if the call may have changed something.
func toolProblem(err error, change bool) error {
	r := &toolRefusal{Type: "no-answer", Detail: err.Error()}
	if change {
		r.Committed = "unknown"
	}
	var p *client.Error
	if errors.As(err, &p) {
		r = &toolRefusal{
			Type: p.Type, Status: p.Status, Detail: p.Error(), Field: p.Field, Limit: p.Limit, Committed: p.Committed,
		}
		if p.Task != nil {
			existing := factsOf(p.Task)
			r.Task = &existing
		}
	}
	return r
}

func wrongField(field string, err error) error {
	return &toolRefusal{Type: "bad-input", Field: field, Detail: field + " " + err.Error()}
}

type scheduleInput struct {
	ID      string            `json:"id,omitempty"`
	Delay   string            `json:"delay,omitempty" jsonschema:"time from now, as in 90s, 48h, 7d or PT30M; or fire_at"`
	FireAt  string            `json:"fire_at,omitempty" jsonschema:"instant of RFC 3339; or delay"`
	Queue   string            `json:"queue,omitempty"`
	URL     string            `json:"url,omitempty" jsonschema:"receiver; absent: that of the queue"`
	Payload string            `json:"payload,omitempty" jsonschema:"JSON text that the receiver gets"`
	Labels  map[string]string `json:"labels,omitempty"`
	Replace bool              `json:"replace,omitempty" jsonschema:"replace a task of this id"`
}

type scheduled struct {
	Task       facts `json:"task"`
	BudgetLeft int   `json:"budget_left" jsonschema:"tasks that this session may still schedule"`
}

func (a *agent) schedule(ctx context.Context, _ toolCall, in scheduleInput) (toolResult, scheduled, error) {
	t := client.Task{ID: in.ID, Queue: in.Queue, Labels: in.Labels}
	if in.URL != "" {
		t.Target = &client.Target{URL: in.URL}
	}
	if in.Payload != "" {
		if err := contract.Valid([]byte(in.Payload)); err != nil {
			return nil, scheduled{}, wrongField("payload", errors.New("is no JSON text"))
		}
		t.Payload = json.RawMessage(in.Payload)
	}
	if err := a.setDue(&t, in); err != nil {
		return nil, scheduled{}, err
	}
	left, err := a.take()
	if err != nil {
		return nil, scheduled{}, err
	}
	var kept client.Task
	options := []client.Option{client.ReturnTask(&kept)}
	if !in.Replace {
		options = append(options, client.IfAbsent())
	}
	if _, err := a.client.Schedule(ctx, t, options...); err != nil {
		var p *client.Error
		if errors.As(err, &p) && (p.Status < 500 || p.Committed == "no") {
			a.giveBack() // nothing happened
		}
		return nil, scheduled{}, toolProblem(err, true)
	}
	return nil, scheduled{factsOf(&kept), left}, nil
}

// setDue sets when the task is due, within the session's longest delay.
func (a *agent) setDue(t *client.Task, in scheduleInput) error {
	var ahead time.Duration
	switch {
	case (in.Delay == "") == (in.FireAt == ""):
		return &toolRefusal{Type: "bad-input", Field: "delay", Detail: "delay and fire_at: give exactly one of them"}
	case in.Delay != "":
		delay, err := contract.ParseDuration(in.Delay)
		if err != nil {
			return wrongField("delay", err)
		}
		t.Delay, ahead = delay, delay
		if delay == 0 { // the client takes it for absent
			t.FireAt = a.now()
		}
	default:
		ms, err := contract.ParseInstant(in.FireAt)
		if err != nil {
			return wrongField("fire_at", err)
		}
		t.FireAt = time.UnixMilli(ms)
		ahead = t.FireAt.Sub(a.now())
	}
	if ahead > a.maxDelay {
		return &toolRefusal{
			Type: "delay-beyond-budget", Field: cmp.Or(map[bool]string{true: "delay"}[in.Delay != ""], "fire_at"),
			Detail: "is later than this session may schedule; nothing was scheduled",
			Limit:  strings.Trim(string(contract.AppendDuration(nil, a.maxDelay)), `"`), Committed: "no",
		}
	}
	return nil
}

// take takes a task from the budget, and returns what is left.
func (a *agent) take() (left int, err error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.used >= a.budget {
		return 0, &toolRefusal{
			Type: "budget-exhausted", Limit: strconv.Itoa(a.budget), Committed: "no",
			Detail: fmt.Sprintf("this session has scheduled its %d tasks; nothing was scheduled", a.budget),
		}
	}
	a.used++
	return a.budget - a.used, nil
}

func (a *agent) giveBack() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.used--
}

type listInput struct {
	Prefix string   `json:"prefix,omitempty" jsonschema:"beginning of the ids"`
	Queue  string   `json:"queue,omitempty"`
	States []string `json:"states,omitempty" jsonschema:"scheduled, ready, firing, retrying, delivered, dead, cancelled"`
	Limit  int      `json:"limit,omitempty" jsonschema:"1 to 100; absent: 20"`
}

type listOutput struct {
	Tasks []facts `json:"tasks"`
	More  bool    `json:"more" jsonschema:"further tasks pass the filter"`
}

// mostListed is the number of tasks of one answer, so that it does not fill the memory of a model.
const mostListed = 100

func (a *agent) list(ctx context.Context, _ toolCall, in listInput) (toolResult, listOutput, error) {
	limit := cmp.Or(in.Limit, 20)
	if limit < 1 || limit > mostListed {
		return nil, listOutput{}, &toolRefusal{
			Type: "bad-input", Field: "limit", Detail: fmt.Sprintf("limit is %d", in.Limit),
			Limit: fmt.Sprintf("1 to %d", mostListed),
		}
	}
	out := listOutput{Tasks: []facts{}}
	filter := client.Filter{Prefix: in.Prefix, Queue: in.Queue, States: readStates(in.States), Order: client.ByDue,
		PageSize: limit}
	for t, err := range a.client.List(ctx, filter) {
		if err != nil {
			return nil, listOutput{}, toolProblem(err, false)
		}
		if len(out.Tasks) == limit {
			out.More = true
			break
		}
		out.Tasks = append(out.Tasks, factsOf(t))
	}
	return nil, out, nil
}

type idInput struct {
	ID string `json:"id"`
}

func (a *agent) get(ctx context.Context, _ toolCall, in idInput) (toolResult, facts, error) {
	t, err := a.client.Get(ctx, in.ID)
	if err != nil {
		return nil, facts{}, toolProblem(err, false)
	}
	return nil, factsOf(t), nil
}

type cancelled struct {
	ID           string         `json:"id"`
	Revision     uint64         `json:"revision"`
	Outcome      client.Outcome `json:"outcome"`
	NeverFired   bool           `json:"never_fired" jsonschema:"the receiver has not got the task, and never will"`
	AlreadyFired bool           `json:"already_fired" jsonschema:"the task was delivered or dead before the cancel"`
}

func (a *agent) cancel(ctx context.Context, _ toolCall, in idInput) (toolResult, cancelled, error) {
	var kept client.Task
	outcome, err := a.client.Cancel(ctx, in.ID, client.ReturnTask(&kept))
	if err != nil {
		return nil, cancelled{}, toolProblem(err, true)
	}
	return nil, cancelled{
		in.ID, kept.Revision, outcome, outcome == client.OutcomeCancelled, outcome == client.OutcomeAlreadyFired,
	}, nil
}

type waitInput struct {
	ID      string `json:"id"`
	Timeout string `json:"timeout,omitempty" jsonschema:"as in 30s; 10m at most; absent: 1m"`
}

type waited struct {
	Task  facts `json:"task"`
	Ended bool  `json:"ended" jsonschema:"the task is delivered, dead or cancelled"`
}

const (
	usualWait = time.Minute
	mostWait  = 10 * time.Minute
	pollTasks = 250 * time.Millisecond
)

var endStates = []client.State{client.StateDelivered, client.StateDead, client.StateCancelled}

func (a *agent) wait(ctx context.Context, _ toolCall, in waitInput) (toolResult, waited, error) {
	timeout := usualWait
	if in.Timeout != "" {
		var err error
		if timeout, err = contract.ParseDuration(in.Timeout); err != nil {
			return nil, waited{}, wrongField("timeout", err)
		}
	}
	if timeout < 0 || timeout > mostWait {
		return nil, waited{}, &toolRefusal{
			Type: "bad-input", Field: "timeout", Detail: "timeout is out of range", Limit: "0s to 10m",
		}
	}
	bounded, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	for {
		t, err := a.client.Get(ctx, in.ID)
		if err != nil {
			return nil, waited{}, toolProblem(err, false)
		}
		ended := slices.Contains(endStates, t.State)
		if ended || bounded.Err() != nil {
			return nil, waited{factsOf(t), ended}, nil
		}
		wait.For(bounded, pollTasks)
	}
}
