package httpapi

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/labstack/echo/v4"

	"github.com/belfryhq/belfry/access"
	"github.com/belfryhq/belfry/audit"
	"github.com/belfryhq/belfry/internal/contract"
)

// Audit keeps the records of changes and refusals, and reads those of the cluster. It may be called concurrently.
type Audit interface {
	Change(audit.Record) // returns when the record outlives the process
	Refuse(audit.Record)
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

func (noAudit) Change(audit.Record) {}
func (noAudit) Refuse(audit.Record) {}
func (noAudit) Read(context.Context, AuditQuery) (*AuditPage, error) {
	return &AuditPage{}, nil
}

// isAudited reports whether the calls of an endpoint are recorded: those that change something for operators, and a
// backup, which takes all data out of the cluster.
func (e *endpoint) isAudited() bool {
	changes := e.method != http.MethodGet || e.path == "/v1/backup"
	return changes && (e.need.role == access.Operate || e.need.role == access.Admin)
}

// handle calls the handler of a call whose caller may make it, and records a change or a refusal. Other calls cost
// nothing.
func (s *Server) handle(c *call, next echo.HandlerFunc) error {
	if c.audited == nil {
		return s.noteRefusal(c, c.caller, next(c))
	}
	ended := false
	defer func() {
		if !ended { // a panic
			s.noteChange(c, http.StatusInternalServerError, internalError.slug)
		}
	}()
	err := next(c)
	ended = true
	status, slug := c.Response().Status, ""
	if err != nil && !c.Response().Committed {
		p := problemOf(err)
		if isRefusal(p) {
			return s.noteRefusal(c, c.caller, p)
		}
		status, slug = p.status, p.slug
	}
	s.noteChange(c, status, slug)
	return err
}

func (s *Server) noteChange(c *call, status int, slug string) {
	r := recordOf(c.Request(), c.Path(), c.caller, status, slug)
	r.Object = c.object()
	if status < http.StatusBadRequest { // only names that the contract knows
		r.Fields = slices.Concat(c.audited.fields, queryNames(c.Request().URL.RawQuery))
	}
	s.cfg.Audit.Change(r)
}

// noteRefusal records an error that refuses a call because of its caller, and returns the error. caller is nil if no
// credentials were accepted.
func (s *Server) noteRefusal(c echo.Context, caller *access.Caller, err error) error {
	var p *problem
	if err == nil || !errors.As(err, &p) || !isRefusal(p) {
		return err
	}
	r := recordOf(c.Request(), c.Path(), caller, p.status, p.slug)
	if cl, ok := c.(*call); ok {
		r.Object = cl.object()
	}
	s.cfg.Audit.Refuse(r)
	return err
}

// isRefusal reports whether a problem refuses a call because of its caller.
func isRefusal(p *problem) bool {
	return p.status == http.StatusUnauthorized || p.status == http.StatusForbidden || p.kind == tooManyAttempts || p.hides
}

// recordOf returns the part of a record that all calls have. The route is empty for a path without one.
func recordOf(r *http.Request, route string, caller *access.Caller, status int, slug string) audit.Record {
	record := audit.Record{
		From: addressOf(r.RemoteAddr), Method: methodLabel(r.Method), Route: orElse(routeName(route), "none"),
		Status: status, Problem: slug, Request: requestID(r),
	}
	if caller != nil {
		record.Caller = audit.Caller{Kind: caller.Kind, ID: caller.ID, Name: caller.Name}
	}
	return record
}

// addressOf returns the IP address of a caller, without the port, which differs from call to call.
func addressOf(remote string) string {
	if at := strings.LastIndexByte(remote, ':'); at >= 0 {
		return strings.Trim(remote[:at], "[]")
	}
	return remote
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

// object returns the names of the things that the call is about.
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
	if c.namespace != "" {
		object["namespace"] = c.namespace
	} else if ns := c.Param("ns"); ns != "" {
		object["namespace"] = ns
	}
	return object
}

// audited holds the parts of a record that are not in the request line.
type audited struct {
	fields []string          // the members of the body
	made   map[string]string // the names of things that the call has made
}

// names adds the name of a thing that an audited call has made.
func (c *call) names(what, name string) {
	if c.audited.made == nil {
		c.audited.made = map[string]string{}
	}
	c.audited.made[what] = name
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

// readAudit answers records of the audit logs of all nodes as lines, and a last line with the cursor.
func (s *Server) readAudit(c echo.Context) error {
	q, err := parseAudit(c.QueryParams(), s.arrived().at)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(c.Request().Context(), s.cfg.RequestTimeout)
	defer cancel()
	page, err := s.cfg.Audit.Read(ctx, q)
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
		n, err := strconv.ParseUint(query.Get("limit"), 10, 32)
		if err != nil || n < 1 || n > audit.MaxLimit {
			return q, fieldProblem("limit", fmt.Sprintf("is %q", contract.Clip(query.Get("limit"))),
				fmt.Sprintf("1 to %d", audit.MaxLimit))
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
