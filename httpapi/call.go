package httpapi

import (
	"context"
	"errors"
	"fmt"
	"math"
	"net/http"
	"net/netip"
	"net/url"
	"strings"
	"sync"
	"time"

	"github.com/labstack/echo/v4"

	"github.com/belfryhq/belfry/access"
	"github.com/belfryhq/belfry/fsm/fsmpb"
	"github.com/belfryhq/belfry/fsm/task"
)

// Access finds the callers behind credentials. It may be called concurrently.
type Access interface {
	// Caller returns the caller with these credentials. It refuses with an *access.Refusal.
	Caller(ctx context.Context, c access.Credentials) (*access.Caller, error)
}

// local is the caller of every call while no credentials are in force.
var local = &access.Caller{
	Kind: access.KindLocal, Grants: []access.Grant{{Role: access.Admin, Namespace: access.AllNamespaces}},
}

// call is a call whose caller may make it. It takes the place of echo's context in the handlers of all routes but the
// open ones.
type call struct {
	echo.Context
	caller    *access.Caller
	need      need
	namespace string          // of the call's tasks and queues; empty: the call is not about those of one namespace
	limited   bool            // the caller's grants for the call reach only some queues or ids
	life      context.Context // of a call that lasts: it also ends with the caller's right to the call
	audited   *audited        // nil: only a refusal of the call is recorded
}

func callOf(c echo.Context) *call { return c.(*call) }

// authorize puts the check of the caller before a handler. Refusals are recorded, and all calls if isAudited is set.
func (s *Server) authorize(n need, isAudited bool, next echo.HandlerFunc) echo.HandlerFunc {
	return func(c echo.Context) error {
		caller, err := callerOf(s.cfg.Access, c.Request())
		if err != nil {
			return s.noteRefusal(c, nil, err)
		}
		cl := &call{Context: c, caller: caller, need: n}
		if isAudited {
			cl.audited = new(audited)
		}
		if err := s.check(cl); err != nil {
			return s.noteRefusal(cl, caller, err)
		}
		if err := s.admitCall(cl); err != nil {
			return err
		}
		if cl.namespace != "" {
			s.crowd.Seen(cl.namespace)
		}
		return s.handle(cl, next)
	}
}

// callerOf returns the caller of a request. Its error is a problem.
func callerOf(a Access, r *http.Request) (*access.Caller, error) {
	if a == nil {
		return local, nil
	}
	return judge(r.Context(), a, credentialsOf(r))
}

func credentialsOf(r *http.Request) access.Credentials {
	c := access.Credentials{Authorization: strings.Join(r.Header["Authorization"], ", ")}
	if at, err := netip.ParseAddrPort(r.RemoteAddr); err == nil {
		c.Addr = at.Addr().Unmap()
	}
	if r.TLS != nil && len(r.TLS.VerifiedChains) > 0 {
		c.Certificate = r.TLS.VerifiedChains[0][0]
	}
	return c
}

func judge(ctx context.Context, a Access, c access.Credentials) (*access.Caller, error) {
	caller, err := a.Caller(ctx, c)
	if err != nil {
		return nil, refusedCredentials(err)
	}
	return caller, nil
}

func refusedCredentials(err error) *problem {
	var refusal *access.Refusal
	if !errors.As(err, &refusal) {
		return &problem{kind: notReady, detail: reason(err), committed: "no", retryAfter: 1}
	}
	p := &problem{kind: unauthenticated, detail: refusal.Detail}
	switch refusal.Kind {
	case access.TooMany:
		p.kind = tooManyAttempts
	case access.Unavailable:
		p.kind, p.committed = notReady, "no"
	default:
		return p
	}
	p.retryAfter = max(int(math.Ceil(refusal.RetryAfter.Seconds())), 1)
	return p
}

// check finds the call's namespace, and refuses the call if its caller may not make it. A namespace that is not there
// and one that the caller's grants do not reach are refused alike, as a task that does not exist.
func (s *Server) check(c *call) error {
	switch c.need.reach {
	case anyCaller:
		return nil
	case anywhere:
		if !c.caller.Has(c.need.role) {
			return c.roleMissing("in some namespace")
		}
		return nil
	case wholeCluster:
		return c.checkCluster()
	}
	if err := s.enter(c); err != nil {
		return err
	}
	return c.limit()
}

// limit refuses a call in a namespace without the role, and finds whether the grants are limited.
func (c *call) limit() error {
	need := access.Need{Role: c.need.role, Namespace: c.namespace}
	if c.caller.Allows(need) {
		return nil
	}
	c.limited = true
	if need.AnyQueue, need.AnyID = true, true; !c.caller.Allows(need) {
		return c.roleMissing("in the namespace " + c.namespace)
	}
	return nil
}

func (c *call) checkCluster() error {
	if !c.caller.Allows(access.Need{Role: c.need.role}) {
		return c.roleMissing("for all namespaces")
	}
	return nil
}

// enter sets the call's namespace: that of its path, or the caller's own. The path of /v1/namespaces//tasks names the
// empty namespace, which does not exist.
func (s *Server) enter(c *call) error {
	switch {
	case !c.hasLongPath():
		c.namespace = c.caller.Namespace()
	case c.Request().URL.RawPath == "":
		c.namespace = c.Param("ns")
	default:
		c.namespace, _ = url.PathUnescape(c.Param("ns")) // faulty: no namespace has this name
	}
	return s.checkVisible(c)
}

// hasLongPath reports whether the path of the call names the namespace.
func (c *call) hasLongPath() bool { return strings.HasPrefix(c.Path(), namespacePath) }

func (s *Server) checkVisible(c *call) error {
	if c.namespace != "" && c.caller.Sees(c.namespace) && s.isActive(c.namespace) {
		return nil
	}
	hidden := notFound()
	hidden.hides = true
	return hidden
}

func (s *Server) isActive(namespace string) bool {
	return namespace == task.DefaultNamespace || s.cfg.Backend.NamespaceActive(namespace)
}

// notFound returns the refusal of a task that does not exist, and of all that the caller must not know of.
func notFound() *problem { return &problem{kind: taskNotFound, detail: noSuchTask} }

func (c *call) roleMissing(where string) *problem {
	return &problem{kind: forbidden, detail: fmt.Sprintf("the call needs the role %s %s", c.need.role, where)}
}

// checkQueue refuses a call about a queue and all of its tasks that the caller's grants do not reach.
func (c *call) checkQueue(queue string) error {
	if !c.limited || c.caller.Allows(access.Need{Role: c.need.role, Namespace: c.namespace, Queue: queue}) {
		return nil
	}
	return outside("queue", "is not among the queues of your grants, or they are limited to some ids")
}

func outside(field, detail string) *problem {
	return &problem{kind: forbidden, field: field, detail: detail}
}

// checkList refuses a list of tasks that reaches beyond the caller's grants. The queue and the prefix of its ids may be
// empty.
func (c *call) checkList(queue, prefix string) error {
	need := access.Need{Role: c.need.role, Namespace: c.namespace, Queue: queue, ID: prefix, IDPrefix: true}
	if !c.limited || c.caller.Allows(need) {
		return nil
	}
	if need.AnyQueue = true; c.caller.Allows(need) {
		return outside("queue", "must name a queue that your grants reach")
	}
	return outside("prefix", "must begin with a prefix of ids that your grants reach")
}

// checkQueues refuses a list of queues that reaches beyond the caller's grants.
func (c *call) checkQueues(prefix string) error {
	need := access.Need{Role: c.need.role, Namespace: c.namespace, Queue: prefix, QueuePrefix: true}
	if !c.limited || c.caller.Allows(need) {
		return nil
	}
	return outside("prefix", "must begin with a prefix of queues that your grants reach, for all ids")
}

// reaches reports whether the caller's grants for this call reach a task.
func (c *call) reaches(t *fsmpb.Task) bool { return c.mayUse(t.GetSpec().GetQueue(), t.GetId()) }

func (c *call) mayUse(queue, id string) bool {
	return !c.limited || c.caller.Allows(access.Need{
		Role: c.need.role, Namespace: c.namespace, Queue: orElse(queue, task.DefaultQueue), ID: id,
	})
}

// checkCommand refuses a command that would put a task where the caller's grants do not reach, or whose id they do not
// reach.
func (c *call) checkCommand(cmd *fsmpb.Command) error {
	if !c.limited {
		return nil
	}
	if made := scheduled(cmd); made != nil {
		if !c.mayUse(made.Spec.Queue, cmd.Id) {
			return outside("queue", "is not one that your grants reach for this id")
		}
		return nil
	}
	if !c.caller.Allows(access.Need{Role: c.need.role, Namespace: c.namespace, ID: cmd.Id, AnyQueue: true}) {
		return notFound()
	}
	return nil
}

// scheduled returns the part of a command that makes a task, or nil if it has none.
func scheduled(cmd *fsmpb.Command) *fsmpb.Schedule {
	if made := cmd.GetSchedule(); made != nil {
		return made
	}
	return cmd.GetTouch().GetOrSchedule()
}

// scopeOf returns a namespace as commands have it: empty for the default one.
func scopeOf(namespace string) string {
	if namespace == task.DefaultNamespace {
		return ""
	}
	return namespace
}

// locate returns the path of something in the call's namespace, in the form that the call has used.
func (c *call) locate(rest string) string {
	if !c.hasLongPath() {
		return "/v1" + rest
	}
	return "/v1/namespaces/" + c.namespace + rest
}

// recheckEvery is the time after which the caller of a call that lasts is checked again: half of the second within
// which a revocation holds, since the news takes time to come from another node.
const recheckEvery = time.Second / 2

// watch checks again and again whether the caller may still make a call that lasts: its key may be revoked meanwhile,
// or its namespace deleted. Then watch ends the life of the call, with the refusal as the cause.
type watch struct {
	s           *Server
	call        call // as it was checked; without its context, which is the handler's
	queue       string
	credentials access.Credentials
	life        context.Context
	end         context.CancelCauseFunc

	mu      sync.Mutex
	timer   *time.Timer
	stopped bool
}

// watch gives a call its life. The caller must stop the watch.
func (s *Server) watch(c *call) (stop func()) {
	c.life = c.Request().Context()
	if s.cfg.Access == nil {
		return func() {}
	}
	queue, _ := url.PathUnescape(c.Param("queue")) // not decoded yet; the middleware named refuses a faulty name
	w := &watch{
		s: s, call: call{need: c.need, namespace: c.namespace}, queue: queue, credentials: credentialsOf(c.Request()),
	}
	w.life, w.end = context.WithCancelCause(c.life)
	c.life = w.life
	w.again()
	return w.stop
}

func (w *watch) again() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if !w.stopped {
		w.timer = time.AfterFunc(recheckEvery, w.look)
	}
}

func (w *watch) look() {
	if err := w.check(); err != nil {
		w.end(err)
		return
	}
	w.again()
}

// check returns the refusal of a caller that may not make the call any more. While the node cannot judge the
// credentials, its last judgement stands.
func (w *watch) check() error {
	c := w.call
	var err error
	if c.caller, err = judge(w.life, w.s.cfg.Access, w.credentials); err != nil {
		if p := problemOf(err); p.kind == notReady {
			return nil
		}
		return err
	}
	if c.need.reach != oneNamespace {
		return c.checkCluster()
	}
	if err = w.s.checkVisible(&c); err == nil {
		err = c.limit()
	}
	if err == nil && w.queue != "" {
		err = c.checkQueue(w.queue)
	}
	return err
}

func (w *watch) stop() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.stopped = true
	w.timer.Stop()
	w.end(nil)
}

// refusalIn returns the refusal that has ended the life of a call, or nil if its client has gone.
func refusalIn(life context.Context) error {
	var p *problem
	if errors.As(context.Cause(life), &p) {
		return p
	}
	return nil
}
