package httpapi

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"maps"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/labstack/echo/v4"

	"github.com/belfryhq/belfry/access"
	"github.com/belfryhq/belfry/audit"
	"github.com/belfryhq/belfry/fsm/task"
	"github.com/belfryhq/belfry/internal/contract"
)

// Recorder keeps the records of changes. It may be called concurrently.
type Recorder interface {
	// Reserve keeps room for the record of a change that is about to begin. Change takes the room, and returns when the
	// record outlives the process, or waits for that. Release gives the room back.
	Reserve(ctx context.Context) error
	Change(r audit.Record)
	Release()
}

// Audit keeps the records of changes and refusals, and reads those of the cluster. It may be called concurrently.
type Audit interface {
	Recorder
	Refuse(r audit.Record)
	Read(ctx context.Context, q AuditQuery) (*AuditPage, error)
}

// AuditQuery selects records of the audit logs of all nodes.
type AuditQuery struct {
	After audit.Cursor
	Since time.Time // zero: all
	Limit int       // 1 to audit.MaxLimit
}

// AuditPage is some records of all nodes, oldest first.
type AuditPage struct {
	audit.Merged
	Missing []AuditMissing // nodes that did not answer: their records come once they do
}

// AuditMissing is a node that did not answer.
type AuditMissing struct {
	Node  string `json:"node"`
	Error string `json:"error"`
}

// noAudit keeps nothing.
type noAudit struct{}

func (noAudit) Reserve(context.Context) error { return nil }
func (noAudit) Change(audit.Record)           {}
func (noAudit) Release()                      {}
func (noAudit) Refuse(audit.Record)           {}
func (noAudit) Recorder() Recorder            { return noAudit{} }
func (noAudit) Read(context.Context, AuditQuery) (*AuditPage, error) {
	return &AuditPage{}, nil
}

// backupPath is the route of a call that is recorded at its start and at its end: it lasts, and answers with all data.
const backupPath = "/v1/backup"

// isAudited reports whether the calls of an endpoint are recorded: those that change something for operators, and a
// backup, which takes all data out of the cluster.
func (e *endpoint) isAudited() bool {
	changes := e.method != http.MethodGet || e.path == backupPath
	return changes && (e.need.role == access.Operate || e.need.role == access.Admin)
}

// audited is the record of a call that changes something.
type audited struct {
	fields []string          // the members of the body
	made   map[string]string // the names of things that the call has made
	lasts  bool              // the call has a record at its start and one at its end
	begun  *audit.Instant    // start of a call that lasts, in both of its records
	rooms  int               // reserved for records
}

// handle calls the handler of a call whose caller may make it, and records a change or a refusal.
func (s *Server) handle(c *call, next echo.HandlerFunc) error {
	if c.audited == nil {
		return s.noteRefusal(c, c.caller, next(c))
	}
	c.audited.lasts = c.Path() == backupPath
	if err := s.reserve(c); err != nil {
		return err
	}
	defer s.release(c)
	if c.audited.lasts {
		s.noteBegin(c)
	} else {
		c.Response().Before(func() { s.noteAnswer(c) }) // a caller that has the answer finds the record
	}
	ended := false
	defer func() {
		if !ended {
			s.notePanic(c)
		}
	}()
	err := next(c)
	ended = true
	if err == nil || c.Response().Committed {
		s.noteAnswer(c)
		return err
	}
	p := problemOf(err)
	if !isRefusal(p) || c.audited.lasts || p.done != nil && *p.done > 0 { // a revoked caller may have changed something
		s.noteChange(c, audit.Record{Status: p.status, Problem: p.slug, Outcome: outcomeOf(p)})
	}
	return s.noteRefusal(c, c.caller, err)
}

// reserve keeps room for the records of a call. Without room the call is not carried out.
func (s *Server) reserve(c *call) error {
	rooms := 1
	if c.audited.lasts {
		rooms = 2
	}
	for c.audited.rooms < rooms {
		if err := s.cfg.Audit.Reserve(c.Request().Context()); err != nil {
			s.release(c)
			return &problem{kind: notCommitted, detail: reason(err), committed: "no", retryAfter: 1}
		}
		c.audited.rooms++
	}
	return nil
}

// release gives back the rooms of records that are not needed.
func (s *Server) release(c *call) {
	for ; c.audited.rooms > 0; c.audited.rooms-- {
		s.cfg.Audit.Release()
	}
}

// noteBegin records that a call begins that lasts.
func (s *Server) noteBegin(c *call) {
	now, _ := s.cfg.Now()
	c.audited.begun = &audit.Instant{Time: now}
	s.noteChange(c, audit.Record{Outcome: audit.OutcomeBegun})
}

// notePanic records a call whose handler panicked, or broke the connection off.
func (s *Server) notePanic(c *call) {
	if !c.Response().Committed {
		s.noteChange(c, audit.Record{
			Status: http.StatusInternalServerError, Problem: internalError.slug, Outcome: audit.OutcomeUnknown,
		})
		return
	}
	outcome := audit.OutcomeUnknown
	if c.audited.lasts { // a backup without its end
		outcome = audit.OutcomeFailed
	}
	s.noteChange(c, audit.Record{Status: c.Response().Status, Outcome: outcome})
}

// noteAnswer records a call that its handler answers.
func (s *Server) noteAnswer(c *call) {
	end := audit.Record{Status: c.Response().Status, Outcome: audit.OutcomeDone}
	if end.Status >= http.StatusBadRequest {
		end.Outcome = audit.OutcomeFailed
	}
	s.noteChange(c, end)
}

// noteChange records a call with a status, a problem and an outcome, unless all of its records are there.
func (s *Server) noteChange(c *call, end audit.Record) {
	if c.audited.rooms == 0 {
		return
	}
	c.audited.rooms--
	r := recordOf(c.Request(), c.Path(), c.caller, end.Status, end.Problem)
	r.Object, r.Outcome = c.object(), end.Outcome
	if c.audited.begun != nil {
		r.Begun, r.Bytes = c.audited.begun, c.Response().Size
	}
	if end.Outcome == audit.OutcomeDone { // only names that the contract knows
		r.Fields = slices.Concat(c.audited.fields, queryNames(c.Request().URL.RawQuery))
	}
	s.cfg.Audit.Change(r)
}

// outcomeOf returns the outcome of a call that was answered with a problem.
func outcomeOf(p *problem) string {
	if p.committed == "unknown" {
		return audit.OutcomeUnknown
	}
	return audit.OutcomeFailed
}

// noteRefusal records an error that refuses a call because of its caller, and returns the error. caller is nil if no
// credentials were accepted.
func (s *core) noteRefusal(c echo.Context, caller *access.Caller, err error) error {
	if err == nil {
		return nil
	}
	var p *problem
	if !errors.As(err, &p) || !isRefusal(p) {
		return err
	}
	r := recordOf(c.Request(), c.Path(), caller, p.status, p.slug)
	if cl, ok := c.(*call); ok && caller != nil {
		r.Object = cl.object()
	}
	s.audit.Refuse(r)
	return err
}

// isRefusal reports whether a problem refuses a call because of its caller.
func isRefusal(p *problem) bool {
	return p.status == http.StatusUnauthorized || p.status == http.StatusForbidden || p.kind == tooManyAttempts || p.hides
}

// recordOf returns the part of a record that all calls have. The route is empty for a path without one. A caller
// without accepted credentials gets no text of its own choice into a record.
func recordOf(r *http.Request, route string, caller *access.Caller, status int, slug string) audit.Record {
	record := audit.Record{
		From: addressOf(r.RemoteAddr), Method: methodLabel(r.Method), Route: orElse(routeName(route), "none"),
		Status: status, Problem: slug,
	}
	if caller != nil {
		record.Caller = audit.Caller{Kind: caller.Kind, ID: caller.ID, Name: caller.Name}
		record.Request = requestID(r)
	}
	return record
}

// addressOf returns the IP address of a caller, without the port, which differs from call to call. It is empty if the
// caller has none.
func addressOf(remote string) string {
	if at, err := netip.ParseAddrPort(remote); err == nil {
		return at.Addr().Unmap().String()
	}
	return ""
}

// routeName returns a route in the form of openapi.yaml.
func routeName(route string) string {
	parts := strings.Split(route, "/")
	for i, part := range parts {
		if name, ok := strings.CutPrefix(part, ":"); ok {
			parts[i] = "{" + name + "}"
		}
	}
	return strings.Join(parts, "/")
}

// object returns the names of the things that the call is about. A text in the path that cannot be a name is left out.
func (c *call) object() map[string]string {
	object := map[string]string{}
	if c.audited != nil {
		maps.Copy(object, c.audited.made)
	}
	for i, name := range c.ParamNames() {
		if name != "ns" {
			object[name] = c.ParamValues()[i]
		}
	}
	if object["namespace"] = c.namespace; c.namespace == "" {
		object["namespace"] = c.Param("ns")
	}
	maps.DeleteFunc(object, func(what, name string) bool { return task.CheckTaskID(what, name) != nil })
	return object
}

// noteMade notes the id of the record that an audited call has made.
func (c *call) noteMade(member, name string) {
	if c.audited.made == nil {
		c.audited.made = map[string]string{}
	}
	c.audited.made[member] = name
}

// noteFields keeps the names of the members of a body, and those of the objects in it.
func (a *audited) noteFields(body []byte) {
	var members map[string]json.RawMessage
	if json.Unmarshal(body, &members) != nil {
		return // the handler refuses it
	}
	for _, name := range slices.Sorted(maps.Keys(members)) {
		var inner map[string]json.RawMessage
		if value := bytes.TrimSpace(members[name]); len(value) == 0 || value[0] != '{' ||
			json.Unmarshal(value, &inner) != nil || len(inner) == 0 {
			a.fields = append(a.fields, name)
			continue
		}
		for _, part := range slices.Sorted(maps.Keys(inner)) {
			a.fields = append(a.fields, name+"."+part)
		}
	}
}

func queryNames(raw string) []string {
	query, err := url.ParseQuery(raw)
	if err != nil {
		return nil
	}
	return slices.Sorted(maps.Keys(query))
}

// auditService answers GET /v1/audit.
type auditService struct{ *core }

// read answers records of the audit logs of all nodes as lines, and a last line with the cursor.
func (s *auditService) read(c echo.Context) error {
	q, err := parseAudit(c.QueryParams(), s.arrived().at)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(callOf(c).life(), s.bounds.RequestTimeout)
	defer cancel()
	page, err := s.audit.Read(ctx, q)
	if refusal := callOf(c).right.Refusal(); refusal != nil {
		return refusal
	}
	if err != nil {
		return s.readFailed(err)
	}
	for i := range page.Missing {
		page.Missing[i].Error = plainWords.Replace(page.Missing[i].Error)
	}
	last, err := json.Marshal(struct {
		Next    string         `json:"next_cursor"`
		More    bool           `json:"more"`
		Lost    uint64         `json:"lost"`
		Missing []AuditMissing `json:"missing"`
	}{page.Next.String(), page.More, page.Lost, append([]AuditMissing{}, page.Missing...)})
	if err != nil {
		return err
	}
	body := bytes.Join(append(page.Lines, last, nil), []byte("\n"))
	h := c.Response().Header()
	h["Content-Type"], h["Cache-Control"] = []string{ndjsonType}, []string{"no-store"}
	h["Content-Length"] = []string{strconv.Itoa(len(body))}
	c.Response().WriteHeader(http.StatusOK)
	_, _ = c.Response().Write(body) // an error means that the client is gone
	return nil
}

const defaultAuditLimit = 100

func parseAudit(query url.Values, now time.Time) (q AuditQuery, err error) {
	q.Limit = defaultAuditLimit
	if query.Has("limit") {
		n, err := wholeParam("limit", query.Get("limit"), 1, audit.MaxLimit)
		if err != nil {
			return q, err
		}
		q.Limit = int(n)
	}
	if q.After, err = audit.ParseCursor(query.Get("after")); err != nil {
		return q, fieldProblem("after", "is not the next_cursor of an answer of this call", "")
	}
	if query.Has("since") {
		q.Since, err = parseSince(query.Get("since"), now)
	}
	return q, err
}

// parseSince reads an instant, or a duration before now.
func parseSince(text string, now time.Time) (time.Time, error) {
	if span, err := contract.ParseDuration(text); err == nil {
		if span < 0 {
			return now, fieldProblem("since", "is negative", "0s or more")
		}
		return now.Add(-span), nil
	}
	ms, err := instantField("since", strings.ReplaceAll(text, " ", "+"), now)
	return time.UnixMilli(ms), err
}
